"""Claims that somebody was called, was sent or is coming, against what humans have recorded.

The service that is named decides which fact it takes. "Help" and "somebody" may be any of them.
Who was asked is not on the way yet: that takes a confirmed time. What no fact can support, that
they have arrived, stands under `unsupported` in the lexicon.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from callflow.responder.guard.finding import Reading, caught
from callflow.responder.guard.lexicon import Rule

_CONFIRMED: Final = "dispatch.confirmed_with_eta"
_DISPATCH: Final = ("dispatch.requested", _CONFIRMED)
_PEOPLE: Final = ("human.alert_started", "handover.started")
_SERVICES: Final[Mapping[str, tuple[str, ...]]] = {
    "engineer": _DISPATCH,
    "fire": ("emergency.fire.requested",),
    "ems": ("emergency.ems.requested",),
    "police": ("emergency.police.requested",),
    "person": _PEOPLE,
}
_ANY_HELP: Final = tuple(
    fact for service, facts in _SERVICES.items() if service != "person" for fact in facts
)


def unsupported_claim(rule: Rule, reading: Reading, facts: Mapping[str, Any]) -> bool:
    """True when the sentence claims help that no fact supports."""
    return any(
        always or not _supported(reading, start, end, facts)
        for start, end, always in caught(rule, reading)
    )


def _supported(reading: Reading, start: int, end: int, facts: Mapping[str, Any]) -> bool:
    if reading.clause_has(start, end, "way") and not facts.get(_CONFIRMED):
        return False
    named = [name for name in _SERVICES if reading.clause_has(start, end, name)]
    if not named:
        joining = reading.clause_has(start, end, "joining")
        return _one_of(_PEOPLE if joining else _ANY_HELP, facts)
    return all(_one_of(_SERVICES[name], facts) for name in named)


def _one_of(names: Iterable[str], facts: Mapping[str, Any]) -> bool:
    return any(bool(facts.get(name)) for name in names)
