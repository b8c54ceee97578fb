"""The environment, read once: every number's name carries its unit.

All variables begin with `CALLFLOW_`. An unknown one is an error, since a misspelt setting that is
silently ignored is found out during the emergency.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, Self
from urllib.parse import urlsplit

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from callflow.call.limits import FRAMES_PER_S_MOST, OPEN_CALLS_MOST, THREAD_MOST_ENTRIES, Timing
from callflow.call.role import roles_by_claim
from callflow.errors import SettingsError, did_you_mean
from callflow.records.keeping import Keeping
from callflow.redis.client import connect
from callflow.redis.url import (
    BROKER_SCHEMES,
    BROKER_SERVICE,
    STORE_SCHEMES,
    check_broker_url,
    is_cluster,
    is_sentinel,
)

PREFIX = "CALLFLOW_"

MONTH_S = 30 * 24 * 3600.0

SCRIPT_S = 1.0
"""What is left of a turn for the procedure's script when every model has failed."""

_MODEL = re.compile(r"(openai|anthropic|bedrock):\S+")


_NO_BROKER_BESIDE_SENTINELS = (
    "CALLFLOW_BROKER_URL is not set, and CALLFLOW_REDIS_URL names Sentinels: write where Celery's "
    "messages are as kombu does, sentinel://:password@host:26379 (one after the other, with "
    "semicolons between them), or name a server of their own (redis://…; a small one will do, "
    "since nothing is lost with it)"
)
_NO_BROKER_BESIDE_A_CLUSTER = (
    "CALLFLOW_BROKER_URL is not set, and CALLFLOW_REDIS_URL names a cluster, in which Celery's "
    "messages cannot live: name a server of their own for them (redis://…; a small one will do, "
    "since nothing is lost with it)"
)

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
"""Names of this machine, where nobody can listen in between."""


class Settings(BaseModel):
    """What one deployment is configured to do; every process of it must have the same."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    redis_url: str | None = None
    """Where the calls are. None: an embedded server, where the command starts one."""
    broker_url: str | None = None
    """Where the Celery messages are; None: where the calls are. Beside a cluster it must be named:
    kombu has no transport for one, so the messages are on a small server of their own. Beside
    Sentinels as well: kombu names what they know in another way (`sentinel://…`)."""
    broker_service: str = BROKER_SERVICE
    """The name under which Sentinels know the primary of the messages; for sentinel:// alone."""
    min_replicas: int = Field(0, ge=0, le=5)
    """So many replicas must have an utterance before it is acknowledged, and a reply before it is
    spoken; without them the caller hears holding phrases, then a human. 0: a failover may lose the
    last moment, which is found out, journaled and asked for again."""
    replica_wait_s: float = Field(0.3, ge=0.01, le=0.5)
    """For so long they are waited for, each time."""

    beat_interval_s: float = Field(0.2, ge=0.05, le=5)
    """How often a worker process renews its leases."""
    stale_after_s: float = Field(10.0, ge=2, le=120)
    """Age of the last beat at which a lease is taken back whatever else seems alive."""
    sweep_interval_s: float = Field(0.2, ge=0.05, le=5)
    """How often Celery beat asks for a sweep."""
    owed_after_s: float = Field(2.5, ge=0.2, le=60)
    """An owed turn that nobody has claimed for so long has lost its message."""
    turn_deadline_s: float = Field(8.0, ge=0.5, le=120)
    """A turn that takes longer is wedged and given to another worker."""
    drain_s: float = Field(20.0, ge=0, le=100)
    """A worker that is told to end lets its turns go on for so long, then gives them to others. ECS
    kills whatever still runs after 120 s at most (`stopTimeout`)."""
    abandoned_after_s: float = Field(6 * 3600.0, ge=60, le=MONTH_S)
    """A call in which nothing is said for so long has lost its hang-up and is ended."""
    line_check_s: float = Field(30.0, ge=1, le=3600)
    """Nothing said for so long: the carrier is asked who is on the line; hang-ups may be lost."""
    completed_ttl_s: float = Field(1800.0, ge=1, le=MONTH_S)
    """How long the record of a complete call can still be read."""

    public_url: str | None = None
    """Where the carrier reaches us (https://…, a path may follow), as it signs it."""
    twilio_account_sid: str | None = Field(None, pattern=r"^AC[0-9a-fA-F]{32}$")
    """The account: with its token it signs webhooks and rings humans."""
    twilio_auth_token: SecretStr | None = None
    """Signs webhooks and opens the REST API."""
    twilio_auth_token_2: SecretStr | None = None
    """A second token that webhooks may be signed with, while the first is being changed."""
    twilio_shared_key: SecretStr | None = None
    """Secret of the key that webhooks are signed with where they announce SHA-256."""
    twilio_api_url: str | None = None
    """In place of https://api.twilio.com: a carrier simulator."""
    sites: Path | None = None
    """YAML or CSV: which number is which lift, and whom to ring for it."""
    voice: Literal["gather", "relay"] = "gather"
    """How calls are spoken where a site does not say: webhooks, or a ConversationRelay socket."""
    reply_wait_s: float = Field(2.5, ge=0.5, le=10)
    """A reply that is not there after so long: the caller hears a holding phrase."""
    outage_transfer_s: float = Field(10.0, ge=1, le=120)
    """The server that holds the calls is gone for so long: the caller is put through to a human."""
    speech_letters_per_s: float = Field(15.0, ge=1, le=1000)
    """How fast the carrier's voice speaks: tells what was heard when a line broke."""
    thread_most_entries: int = Field(THREAD_MOST_ENTRIES, ge=20, le=10_000)
    """A call in which so much has been said has a human rung; at twice as many the agent falls
    silent."""
    open_calls_most: int = Field(OPEN_CALLS_MOST, ge=1, le=1_000_000)
    """Of all calls together; those beyond are put through to humans at once, without a worker."""
    frames_per_s_most: int = Field(FRAMES_PER_S_MOST, ge=10, le=10_000)
    """Of one relay socket; a call beyond goes on by webhooks, and a human is rung."""
    unsigned: bool = False
    """Development only, on loopback: believe webhooks that nobody has signed."""

    sop_dir: Path | None = None
    """The operator's own procedures: they replace and extend those that callflow brings."""
    retrieval: Literal["lexical", "semantic"] | None = None
    """How the procedure for what was said is found: by its words, or by its meaning. None: by
    meaning where the extra `callflow[semantic]` is installed."""
    index_dir: Path | None = None
    """Where this machine keeps what it has built of the procedures to find them; None:
    `~/.cache/callflow/index`."""
    responder: Literal["scripted", "echo", "counted"] = "scripted"
    """Who words the reply: the procedure's script (behind a model, where one is named), an echo for
    measuring callflow itself, or sentences that can be counted for striking it."""
    model: str | None = None
    """The language model that words replies: `openai:NAME` (any compatible endpoint),
    `anthropic:NAME` or `bedrock:NAME`. None: the procedure's script alone."""
    model_url: str | None = None
    """Where the model is served; None: where its maker serves it."""
    model_key: SecretStr | None = None
    """What the model is asked with; it is never printed."""
    model_2: str | None = None
    """A second model, asked when the first one fails."""
    model_2_url: str | None = None
    """Where the second model is served."""
    model_2_key: SecretStr | None = None
    """What the second model is asked with."""
    model_first_token_s: float = Field(1.2, ge=0.05, le=30)
    """A model whose first word takes longer has failed."""
    model_reply_s: float = Field(3.0, ge=0.1, le=60)
    """How long all models together have for a reply; then the procedure's script words it."""
    prompts_dir: Path | None = None
    """The operator's own prompts: they replace those that callflow brings."""
    pace_s: float = Field(0.0, ge=0, le=30)
    """Pause before each sentence, so that one can watch a turn being worked on."""
    data_dir: Path = Path(".callflow")
    """Where `callflow up` keeps its embedded server's data."""

    records_url: str | None = None
    """Where records of complete calls last: `sqlite:////var/lib/callflow/records.db` or
    `postgresql+psycopg://user:password@host/name`. None: they expire after
    CALLFLOW_COMPLETED_TTL_S. Once it is set, no record expires that is not there."""
    records_key: SecretStr | None = Field(None, min_length=16)
    """Seals the chain of records, so that who can write the database cannot make another one."""
    records_keep_days: int | None = Field(None, ge=7, le=36_500)
    """Records are erased after so many days; None: by hand alone. Seven at least: the last test
    call of each lift is found in them."""
    test_call_hours: int = Field(72, ge=1, le=24 * 365)
    """A lift without a good test call for so long is told of; EN 81-28 wants one every 72 h."""

    users: Path | None = None
    """The file of those who may sign in to the board, as `callflow users` writes it (YAML, or JSON
    where the name ends in .json). It is read again when it changes."""
    board_url: str | None = None
    """Where people reach the board (https://host, without a path); None: CALLFLOW_PUBLIC_URL."""
    board_proxies: int = Field(0, ge=0, le=5)
    """How many proxies of yours stand before the web process: so many entries of X-Forwarded-For
    are believed. Sign-ins are counted by the address that is found in this way."""
    session_idle_s: float = Field(1800.0, ge=60, le=86_400)
    """A session in which no page and no board is open for so long has ended."""
    session_most_s: float = Field(43_200.0, ge=300, le=604_800)
    """After so long everybody signs in again: a shift."""
    oidc_issuer: str | None = None
    """Who vouches for people (OpenID Connect), such as https://login.example.org/tenant; what else
    must be known of it is asked there. Needs `callflow[oidc]`."""
    oidc_client_id: str | None = None
    """What the provider calls callflow. Let it send people back to
    CALLFLOW_BOARD_URL/board/sign-in/oidc/back."""
    oidc_client_secret: SecretStr | None = Field(None, repr=False)
    """None: a public client, which PKCE alone protects."""
    oidc_scopes: str = "openid profile email"
    """What is asked for, with spaces between."""
    oidc_name_claim: str = "preferred_username"
    """Which claim of the ID token the journal calls somebody by; where it is missing, `sub`."""
    oidc_role_claim: str = "groups"
    """Which claim tells roles, as one word or a list; dots lead into it (realm_access.roles)."""
    oidc_roles: str = "viewer=viewer,dispatcher=dispatcher,admin=admin"
    """What of that claim means which role: `desk-night=dispatcher,lift-leads=admin`. Somebody with
    none of them has no access; of several the highest counts."""

    log_format: Literal["text", "json"] | None = None
    """What a line of the log looks like. None: text where a terminal reads it, else one JSON object
    on each line; `callflow up` writes text."""
    log_level: Literal["debug", "info", "warning", "error"] | None = None
    """What is logged, before what a command is told with `-l` or `--log-level`. None: as it is
    told, else warnings and worse. Other libraries than Celery are heard from warnings on, since
    they log what people say."""
    traces_url: str | None = None
    """Where spans are sent by OTLP over HTTP, such as http://collector:4318/v1/traces; None: no
    traces. Needs `callflow[traces]`; the rest is set as OpenTelemetry does (OTEL_…)."""

    metrics_token: SecretStr | None = Field(None, min_length=16)
    """Who asks for `/metrics` shows it (`Authorization: Bearer …`), such as what
    `openssl rand -hex 32` makes. None: there are no metrics to be asked for."""
    cloudwatch_namespace: str | None = None
    """The namespace in CloudWatch: the web processes then write what happened, each minute once, to
    standard output (Embedded Metric Format). None: they do not."""

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        store, has_broker = self.redis_url or "", self.broker_url is not None
        if self.oidc_issuer is not None and self.oidc_client_id is None:
            raise ValueError(
                "CALLFLOW_OIDC_CLIENT_ID is not set: it is the name by which the provider at "
                "CALLFLOW_OIDC_ISSUER knows callflow"
            )
        if self.oidc_issuer is None and (self.oidc_client_id or self.oidc_client_secret):
            raise ValueError(
                "CALLFLOW_OIDC_ISSUER is not set, and without it nobody can sign in by OpenID "
                "Connect: name the provider, or leave its other settings out"
            )
        if self.session_idle_s > self.session_most_s:
            raise ValueError(
                "CALLFLOW_SESSION_IDLE_S must be at most CALLFLOW_SESSION_MOST_S, which ends all "
                "sessions"
            )
        if self.beat_interval_s * 4 > self.stale_after_s:
            raise ValueError(
                "CALLFLOW_BEAT_INTERVAL_S must be at most a quarter of CALLFLOW_STALE_AFTER_S, "
                "or one late beat takes a call from a living worker"
            )
        if self.model_first_token_s > self.model_reply_s:
            raise ValueError(
                "CALLFLOW_MODEL_FIRST_TOKEN_S must be at most CALLFLOW_MODEL_REPLY_S, or no model "
                "could ever answer"
            )
        if self.model and self.model_reply_s + SCRIPT_S > self.turn_deadline_s:
            raise ValueError(
                "CALLFLOW_MODEL_REPLY_S must be at least a second less than "
                "CALLFLOW_TURN_DEADLINE_S, or a slow model takes the turn from its worker"
            )
        if self.model_2 and not self.model:
            raise ValueError("CALLFLOW_MODEL_2 is a second model: name the first in CALLFLOW_MODEL")
        if is_sentinel(store) and not has_broker:
            raise ValueError(_NO_BROKER_BESIDE_SENTINELS)
        if is_cluster(store) and not has_broker:
            raise ValueError(_NO_BROKER_BESIDE_A_CLUSTER)
        return self

    @field_validator("model", "model_2")
    @classmethod
    def _names_a_model(cls, model: str | None) -> str | None:
        if model is not None and not _MODEL.fullmatch(model):
            raise ValueError(
                "is no model: write who made its interface and its name, such as openai:NAME (any "
                "compatible endpoint, see CALLFLOW_MODEL_URL), anthropic:NAME or bedrock:NAME"
            )
        return model

    @field_validator("redis_url", "broker_url")
    @classmethod
    def _names_a_redis_server(cls, url: str | None, info: ValidationInfo) -> str | None:
        if url is None:
            return None
        is_store = info.field_name == "redis_url"
        known = [f"{scheme}://" for scheme in (STORE_SCHEMES if is_store else BROKER_SCHEMES)]
        if not url.startswith(tuple(known)):
            raise ValueError(f"is no address of a Redis server: it begins with {', '.join(known)}")
        if is_store:
            connect(url)  # Nothing is asked yet, but it is refused before what else is missing.
        else:
            check_broker_url(url)
        return url

    @field_validator("public_url", "twilio_api_url", "model_url", "model_2_url")
    @classmethod
    def _is_a_base_url(cls, url: str | None) -> str | None:
        if url is None:
            return None
        parts = urlsplit(url)
        if parts.scheme not in ("https", "http") or not parts.hostname:
            raise ValueError("is no base address: write it like https://voice.example.org")
        if parts.query or parts.fragment:
            raise ValueError("has a query or a fragment: write only scheme, host and path")
        return url.rstrip("/")

    @field_validator("traces_url")
    @classmethod
    def _is_a_collector(cls, url: str | None) -> str | None:
        parts = urlsplit(url or "https://none")
        if parts.scheme not in ("https", "http") or not parts.hostname:
            raise ValueError(
                "is no address of a collector: write it like http://collector:4318/v1/traces"
            )
        return url

    @field_validator("cloudwatch_namespace")
    @classmethod
    def _is_a_namespace(cls, name: str | None) -> str | None:
        if name is not None and (
            not re.fullmatch(r"[0-9A-Za-z._/#:-]{1,255}", name) or name.startswith(("AWS/", ":"))
        ):
            raise ValueError(
                "is no namespace of CloudWatch: write letters, digits, . - _ / # : (255 at most) "
                "and nothing that begins with AWS/"
            )
        return name

    @field_validator("board_url", "oidc_issuer")
    @classmethod
    def _is_safe_to_send_secrets_to(cls, url: str | None, info: ValidationInfo) -> str | None:
        if url is None:
            return None
        parts = urlsplit(url)
        near = parts.hostname in LOOPBACK
        if not parts.hostname or not (parts.scheme == "https" or (parts.scheme == "http" and near)):
            raise ValueError(
                "is no address that secrets may be sent to: write it like https://board.example.org"
            )
        if parts.query or parts.fragment or parts.username:
            raise ValueError("has more than scheme, host and path: leave the rest out")
        if info.field_name == "board_url" and parts.path not in ("", "/"):
            raise ValueError("has a path: the board is at /board of its host, write only the host")
        return url.rstrip("/") if info.field_name == "board_url" else url

    @field_validator("oidc_roles")
    @classmethod
    def _maps_to_roles(cls, text: str) -> str:
        roles_by_claim(text)
        return text

    @field_validator("records_url")
    @classmethod
    def _names_a_database(cls, url: str | None) -> str | None:
        if url is not None and not url.startswith(("sqlite:///", "postgresql+psycopg://")):
            raise ValueError(
                "is no address of a store that lasts: write sqlite:////path/records.db or "
                "postgresql+psycopg://user:password@host/name"
            )
        return url

    @property
    def webhook_tokens(self) -> tuple[str, ...]:
        """The auth tokens that a webhook may be signed with."""
        given = (self.twilio_auth_token, self.twilio_auth_token_2)
        return tuple(token.get_secret_value() for token in given if token is not None)

    @property
    def queue_url(self) -> str | None:
        """Where the Celery messages are, as kombu writes it."""
        if self.broker_url or self.redis_url is None:
            return self.broker_url
        socket, _, path = self.redis_url.partition("unix://")
        return self.redis_url if socket or not path else f"redis+socket://{path}"

    @property
    def replicas(self) -> tuple[int, int]:
        """How many replicas must have what is acknowledged, and for how many ms they are waited
        for."""
        return self.min_replicas, _ms(self.replica_wait_s)

    @property
    def timing(self) -> Timing:
        """The same times as the core counts them, in ms."""
        return Timing(
            beat_ms=_ms(self.beat_interval_s),
            stale_ms=_ms(self.stale_after_s),
            owed_ms=_ms(self.owed_after_s),
            turn_ms=_ms(self.turn_deadline_s),
            abandoned_ms=_ms(self.abandoned_after_s),
            completed_ttl_ms=_ms(self.completed_ttl_s),
        )

    @property
    def archiving(self) -> bool:
        """Whether records of complete calls stay until the lasting store has them."""
        return self.records_url is not None

    @property
    def keeping(self) -> Keeping | None:
        """How records are kept for good; None where they are not."""
        if self.records_url is None:
            return None
        key = None if self.records_key is None else self.records_key.get_secret_value().encode()
        return Keeping(self.records_url, key, self.records_keep_days)


def _ms(seconds: float) -> int:
    return round(seconds * 1000)


def load(environ: Mapping[str, str] = os.environ) -> Settings:
    """The settings in `environ`. Raises SettingsError, naming the variable and the rule."""
    given = {
        name.removeprefix(PREFIX).lower(): value
        for name, value in environ.items()
        if name.startswith(PREFIX) and value and not _of_tests(name)
    }
    for name in sorted(given.keys() - Settings.model_fields.keys()):
        raise SettingsError(f"{PREFIX}{name.upper()}", _unknown(name))
    try:
        return Settings.model_validate(given)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = "".join(f"{PREFIX}{str(part).upper()}" for part in first["loc"][:1])
        reason = str(first["msg"]).removeprefix("Value error, ")
        if not where:
            # What is wrong with several together begins with the name of one of them.
            where, _, reason = reason.partition(" ")
        raise SettingsError(where, reason) from error


def _of_tests(name: str) -> bool:
    field = name.removeprefix(PREFIX).lower()
    return field not in Settings.model_fields and field.startswith("test_")


def _unknown(name: str) -> str:
    fields = Settings.model_fields.keys()
    hint = did_you_mean(
        name, fields, spell=lambda field: f"{PREFIX}{field.upper()}", most_listed=len(fields)
    )
    return f"unknown setting{hint}"
