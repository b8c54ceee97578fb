"""The environment, read once: every number's name carries its unit.

All variables begin with `CALLFLOW_`. An unknown one is an error, since a misspelt setting that is
silently ignored is found out during the emergency.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from callflow.call.deadline import Timing
from callflow.errors import SettingsError

PREFIX = "CALLFLOW_"

MONTH_S = 30 * 24 * 3600.0

STATE_SCHEMES = ("redis", "rediss", "unix")
QUEUE_SCHEMES = ("redis", "rediss", "redis+socket", "sentinel")
"""What kombu calls them; it has no transport for a cluster."""


class Settings(BaseModel):
    """What one deployment is configured to do; every process of it must have the same."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    redis_url: str | None = None
    """Where the calls are. None: an embedded server, where the command starts one."""
    broker_url: str | None = None
    """Where the Celery messages are; None: where the calls are."""

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
    abandoned_after_s: float = Field(6 * 3600.0, ge=60, le=MONTH_S)
    """A call in which nothing is said for so long has lost its hang-up and is ended."""
    completed_ttl_s: float = Field(1800.0, ge=1, le=MONTH_S)
    """How long the record of a complete call can still be read."""

    sop_dir: Path | None = None
    """The operator's own procedures: they replace and extend those that callflow brings."""
    responder: Literal["scripted", "echo"] = "scripted"
    """Who words the reply: the procedure's script, or an echo for measuring callflow itself."""
    pace_s: float = Field(0.0, ge=0, le=30)
    """Pause before each sentence, so that one can watch a turn being worked on."""
    data_dir: Path = Path(".callflow")
    """Where `callflow up` keeps its embedded server's data."""

    @model_validator(mode="after")
    def _beats_fit_into_staleness(self) -> Settings:
        if self.beat_interval_s * 4 > self.stale_after_s:
            raise ValueError(
                "CALLFLOW_BEAT_INTERVAL_S must be at most a quarter of CALLFLOW_STALE_AFTER_S, "
                "or one late beat takes a call from a living worker"
            )
        return self

    @field_validator("redis_url", "broker_url")
    @classmethod
    def _names_a_redis_server(cls, url: str | None, info: ValidationInfo) -> str | None:
        schemes = STATE_SCHEMES if info.field_name == "redis_url" else QUEUE_SCHEMES
        if url is not None and not url.startswith(tuple(f"{scheme}://" for scheme in schemes)):
            raise ValueError(
                "is no address of a Redis server: it begins with "
                + ", ".join(f"{scheme}://" for scheme in schemes)
            )
        return url

    @property
    def queue_url(self) -> str | None:
        """Where the Celery messages are, as kombu writes it."""
        if self.broker_url or self.redis_url is None:
            return self.broker_url
        socket, _, path = self.redis_url.partition("unix://")
        return self.redis_url if socket or not path else f"redis+socket://{path}"

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


def _ms(seconds: float) -> int:
    return round(seconds * 1000)


def load(environ: Mapping[str, str] = os.environ) -> Settings:
    """The settings in `environ`. Raises SettingsError, naming the variable and the rule."""
    given = {
        name.removeprefix(PREFIX).lower(): value
        for name, value in environ.items()
        if name.startswith(PREFIX) and not name.startswith(f"{PREFIX}TEST_") and value != ""
    }
    for name in sorted(given.keys() - Settings.model_fields.keys()):
        raise SettingsError(f"{PREFIX}{name.upper()}", _unknown(name))
    try:
        return Settings.model_validate(given)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = "".join(f"{PREFIX}{str(part).upper()}" for part in first["loc"][:1])
        reason = str(first["msg"]).removeprefix("Value error, ")
        raise SettingsError(where or reason.split(" ", 1)[0], reason) from error


def _unknown(name: str) -> str:
    close = difflib.get_close_matches(name, Settings.model_fields, n=1)
    if close:
        return f"unknown setting, did you mean {PREFIX}{close[0].upper()}?"
    known = ", ".join(sorted(f"{PREFIX}{field.upper()}" for field in Settings.model_fields))
    return f"unknown setting; known are {known}"
