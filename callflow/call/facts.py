"""Names the facts that may be known about a call: by whom each is told, and of which kind.

A fact is told by the caller, recorded by a person, or follows from the record itself; a sentence
that waits for one (`only_after`) may not be spoken before. Nothing is guessed: who learns a fact
shows the words it was learned from.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from callflow.call.record import CallRecord
from callflow.errors import CallflowError

Kind = Literal["whole", "flag", "text", "words"]
Value = bool | int | str
"""What people record."""

VULNERABLE: Final = ("child", "elderly", "pregnant", "disabled", "ill", "anxious")
DANGERS: Final = ("fire", "smoke", "water", "medical", "limb", "violence", "forcing_doors")

CALLER_FACTS: Final[Mapping[str, Kind]] = {
    "people": "whole",
    "injured": "flag",
    "injury": "text",
    "vulnerable": "words",
    "trapped": "flag",
    "inside": "flag",
    "floor": "text",
    "lift_id": "text",
    "callback_number": "text",
    "name": "text",
    "danger": "words",
    "location_confirmed": "flag",
    "lights": "flag",
    "doors_open": "flag",
    "awake": "flag",
    "breathing": "flag",
}
"""What a caller can tell. `words` are from VULNERABLE and DANGERS, and only ever grow."""

HUMAN_FACTS: Final[Mapping[str, Kind]] = {
    "dispatch.requested": "flag",
    "dispatch.confirmed_with_eta": "flag",
    "eta_minutes": "whole",
    "emergency.fire.requested": "flag",
    "emergency.ems.requested": "flag",
    "emergency.police.requested": "flag",
    "release.confirmed": "flag",
}
"""What people alone may record, since it happened outside of the call."""

OWN_FACTS: Final = (
    *("human.alert_started", "handover.started"),
    *("person.unconscious", "person.not_breathing"),
)
"""What follows from the record itself."""

_RUNG: Final = ("ringing", "accepted")


MOST_MINUTES: Final = 24 * 60
_FLAGS: Final = {"yes": True, "true": True, "no": False, "false": False}


class InvalidFact(CallflowError):
    """A fact that people cannot record, or a value that it cannot have. Nothing was recorded."""

    def __init__(self, name: str, reason: str) -> None:
        self.name = name
        self.reason = reason
        super().__init__(f"the fact {name[:64]!a} {reason}")


def parsed(name: str, text: str) -> Value:
    """Read what a person has written as the value of a fact. Raises InvalidFact."""
    kind = HUMAN_FACTS.get(name)
    if kind is None:
        raise InvalidFact(name, f"is none that people record: those are {', '.join(HUMAN_FACTS)}")
    if kind == "flag":
        flag = _FLAGS.get(text.strip().lower())
        if flag is None:
            raise InvalidFact(name, "is yes or no")
        return flag
    if not text.strip().isdecimal() or not 0 < int(text) <= MOST_MINUTES:
        raise InvalidFact(name, f"is a whole number of minutes from 1 to {MOST_MINUTES}")
    return int(text)


def known(record: CallRecord) -> dict[str, Any]:
    """All facts of a call by name: told by the caller, recorded by people, and those that follow
    from the record."""
    facts = {**record.facts, **record.recorded}
    if record.alert is not None and record.alert.state in _RUNG:
        facts["human.alert_started"] = True
    if record.handling == "human" or (record.alert and record.alert.state == "accepted"):
        facts["handover.started"] = True
    if facts.get("awake") is False:
        facts["person.unconscious"] = True
    # Who is awake and short of breath is not pressed on the chest.
    lies_still = facts.get("awake") is False or facts.get("injury") == "unconscious"
    if facts.get("breathing") is False and lies_still and facts.get("awake") is not True:
        facts["person.not_breathing"] = True
    return facts


def answered(question: str, facts: Mapping[str, Any]) -> bool:
    """True when the fact that a question asks for (its `learns`) need not be asked any more."""
    if question == "lift_id" and facts.get("location_confirmed") is True:
        return True  # We know where the lift is that they have confirmed to be in.
    if question == "injured" and not {"injury", "awake", "breathing"}.isdisjoint(facts):
        return True
    return question in facts


def merged(before: Mapping[str, Any], learned: Mapping[str, Any]) -> dict[str, Any]:
    """The facts after some more were learned: the later word stands, lists of words grow."""
    facts = dict(before)
    for name, value in learned.items():
        if CALLER_FACTS.get(name) == "words":
            value = sorted({*facts.get(name, ()), *value})
        facts[name] = value
    return facts
