"""What people see of callflow, and who may: the board, its users, metrics, records that last."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal, Self
from urllib.parse import urlsplit

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    ValidationInfo,
    field_validator,
    model_validator,
)

from callflow.call.role import Role
from callflow.records.keeping import Keeping

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
"""Names of this machine, where nobody can listen in between."""


class PeopleSettings(BaseModel):
    """The settings of what is for people; see `Settings`, of which they are a part."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

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

    @model_validator(mode="after")
    def _a_provider_knows_us(self) -> Self:
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
        return self

    @model_validator(mode="after")
    def _sessions_idle_within_their_length(self) -> Self:
        if self.session_idle_s > self.session_most_s:
            raise ValueError(
                "CALLFLOW_SESSION_IDLE_S must be at most CALLFLOW_SESSION_MOST_S, which ends all "
                "sessions"
            )
        return self

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


def roles_by_claim(text: str) -> dict[str, Role]:
    """Which value of the role claim means which role, from CALLFLOW_OIDC_ROLES.

    Raises ValueError for what is no such list.
    """
    found = {}
    for part in text.split(","):
        value, equals, role = part.rpartition("=")
        if not equals or not value.strip() or role.strip() not in set(Role):
            raise ValueError(
                f"says {part.strip()!r}: write VALUE=ROLE with commas between them, where ROLE is "
                f"{', '.join(Role)}"
            )
        found[value.strip()] = Role(role.strip())
    return found
