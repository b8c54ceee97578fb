"""How values of the record are written: each field of the hash is a JSON value of its own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from callflow.call.ladder import fresh
from callflow.call.record import Alert
from callflow.call.urgency import Urgency

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
"""Made once: `json.dumps` makes an encoder anew for every call with these options."""


def as_json(value: Any) -> str:
    """`value` as JSON, readable as it stands in the server."""
    return _encode(value)


def pairs(fields: Mapping[str, str]) -> list[str]:
    """Fields and their JSON values in a row, as scripts take them."""
    return [item for pair in fields.items() for item in pair]


def entry(
    role: str, turn: int, text: str, digits: str | None = None, lang: str | None = None
) -> str:
    """A thread entry without its time: the script puts the server's in."""
    more = {"digits": digits, "lang": lang}
    keys = {name: value for name, value in more.items() if value is not None}
    return as_json({"role": role, "turn": turn, "text": text, **keys})


def alert(value: Alert) -> str:
    """An alert as it is stored; scripts compare it as a whole, letter by letter."""
    return as_json(
        {name: one for name, one in value.model_dump().items() if one is not None or name in _PLAIN}
    )


_PLAIN = frozenset(("reason", "state", "round", "rung", "ring", "leg"))
"""What stands in every alert, so that a worker of an earlier release writes the same letters."""


def fresh_alert(reason: str | None) -> str:
    """What has a human rung for `reason`, as scripts take it: empty where nobody is wanted."""
    return "" if reason is None else alert(fresh(reason))


def waits_as(urgency: str | None, hurried: str) -> Urgency | None:
    """How urgent an owed call is, by what scripts say: what was understood of it, or P1 where
    danger was heard in what nobody has understood yet. None: opened by an earlier release."""
    known: Urgency | None = None if urgency is None else json.loads(urgency)
    return "P1" if hurried == "1" else known


def clock(now_ms: int | None) -> str:
    """The last argument of every script: empty for the server's own clock."""
    return "" if now_ms is None else str(now_ms)


BY_AGENT, BY_HUMAN = '"agent"', '"human"'
"""Who handles a call, as it is stored."""

FRESH = {
    "assigned_worker": "null",
    "last_heartbeat": "null",
    "retrieved_sop_chunks": "[]",
    "scenario_type": "null",
    "owed_since": "null",
    "fence": "0",
    "heard": "0",
    "answered": "0",
    "attempts": "0",
    "sop_step": "0",
    "facts": "{}",
    "recorded": "{}",
    "open_scenarios": "[]",
    "urgency": "null",
    "understood": "0",
    "hurry": "0",
    "draft": "null",
    "handling": BY_AGENT,
    "needs_human": "null",
    "alert": "null",
    "alert_due": "null",
    "cut": "null",
    "sent": "null",
    "unclear": "0",
    "lost": "0",
    "outcome": "null",
}
"""The fields of a fresh record as they are stored: each a JSON value."""
