"""Writes values as they are stored: each field of a record's hash is a JSON value of its own."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from callflow.call.ladder import fresh
from callflow.call.record import CallRecord, HumanAlert
from callflow.call.state import Event, moves_row
from callflow.call.urgency import Urgency
from callflow.redis.scripts import Invocation, ScriptReply, invoke
from callflow.store.keys import call_keys

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
"""Made once: `json.dumps` makes an encoder anew for every call with these options."""


def as_json(value: Any) -> str:
    """`value` as JSON, readable as it stands in the server."""
    return _encode(value)


def pairs(fields: Mapping[str, str]) -> list[str]:
    """Fields and their JSON values in a row, as scripts take them."""
    return [item for pair in fields.items() for item in pair]


def entry(
    role: str,
    turn: int,
    text: str,
    digits: str | None = None,
    lang: str | None = None,
    confidence: float | None = None,
) -> str:
    """A thread entry without its time: the script puts the server's in."""
    more = {"digits": digits, "confidence": confidence, "lang": lang}
    keys = {name: value for name, value in more.items() if value is not None}
    return as_json({"role": role, "turn": turn, "text": text, **keys})


_IN_EVERY_ALERT = frozenset(("reason", "state", "round", "rung", "ring", "leg"))
"""So that a worker of an earlier release writes the same letters."""


def alert_json(alert: HumanAlert) -> str:
    """An alert as it is stored; scripts compare it as a whole, letter by letter."""
    return as_json(
        {
            name: value
            for name, value in alert.model_dump().items()
            if value is not None or name in _IN_EVERY_ALERT
        }
    )


@lru_cache(maxsize=256)
def fresh_alert(reason: str | None) -> str | None:
    """What has a human rung for `reason`; None where nobody is wanted."""
    return None if reason is None else alert_json(fresh(reason))


def optional_json(value: object) -> str | None:
    """`value` as JSON; None for None, as scripts take what is not given."""
    return None if value is None else as_json(value)


def urgency_of(reply: ScriptReply) -> Urgency | None:
    """How urgent an owed call is: what was understood of it, or P1 where danger was heard in what
    nobody has understood yet. None: not known."""
    known: Urgency | None = json.loads(reply.facts.get("urgency", "null"))
    return "P1" if "hurried" in reply.facts else known


def on_call(
    script: str,
    call_sid: str,
    move: Event | None = None,
    /,
    *,
    now_ms: int | None = None,
    **given: str | int | bool | Sequence[str] | None,
) -> Invocation:
    """One run of a script about a call. `move`: what is to happen to it, by the table."""
    moves = "" if move is None else moves_row(move)
    keys = call_keys(call_sid).by_name
    return invoke(script, keys, now_ms=now_ms, call_sid=call_sid, moves=moves, **given)


BY_AGENT: Final = '"agent"'
BY_HUMAN: Final = '"human"'
"""Who handles a call, as it is stored."""

_WRITTEN_WHEN_NEEDED = frozenset(
    {
        *("conversation_thread", "acts", "notes", "sayings", "grounds", "disposition"),
        "analysis",
        *("urgency_heard", "urgency_set"),
    }
)

FRESH: Final[Mapping[str, str]] = {
    name: as_json(field.get_default(call_default_factory=True))
    for name, field in CallRecord.model_fields.items()
    if not field.is_required() and name not in _WRITTEN_WHEN_NEEDED
}
"""The fields of a fresh record as they are stored: the defaults of `CallRecord`."""
