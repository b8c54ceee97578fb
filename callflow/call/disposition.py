"""How a person ends a call: what became of it, from a fixed list, and when that is refused."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from callflow.call.facts import known
from callflow.call.record import CallRecord
from callflow.call.urgency import gravest
from callflow.errors import CallError, CallflowError


class Disposition(StrEnum):
    """What became of a call. The word is its outcome in the record, the statistics and exports."""

    RELEASED = "released"
    """Everybody is out."""
    EMERGENCY_SERVICE = "emergency_service"
    """The fire service, an ambulance or the police has it."""
    HANDED_OVER = "handed_over"
    """Somebody else goes on with it: another centre, the service company."""
    RESOLVED = "resolved"
    """There was something to do, and it is done."""
    FALSE_ALARM = "false_alarm"
    TEST = "test"
    PRANK = "prank"
    NOBODY_THERE = "nobody_there"
    """Nobody was on the line."""


TRAPPED: Final = frozenset(("P1", "P2", "P3"))
"""The urgencies in which somebody is trapped, or worse: see `call/urgency.py`."""


class BadDisposition(CallflowError):
    """No disposition of the list; the call was not ended."""

    def __init__(self, given: str) -> None:
        self.given = given
        super().__init__(f"{given[:64]!a} is no disposition: write one of {', '.join(Disposition)}")


class MaybeTrapped(CallError):
    """A person would end a call in which somebody may still be trapped, and has not confirmed."""

    def __init__(self, call_sid: str, sign: str) -> None:
        self.sign = sign
        super().__init__(
            call_sid,
            f"is not ended: somebody may still be trapped ({sign}), and nobody has recorded "
            "release.confirmed; record it, or confirm that the call is to end all the same",
        )


def disposition(word: str) -> Disposition:
    """Read what a person has chosen. Raises BadDisposition."""
    try:
        return Disposition(word.strip().lower())
    except ValueError:
        raise BadDisposition(word) from None


def may_be_trapped(record: CallRecord) -> str | None:
    """The sign that somebody may still be trapped; None where there is none, or where a person has
    recorded the release.

    What was heard counts, even where a person has made less of the urgency. A caller who has spoken
    and whom nobody has understood yet may be in the lift.
    """
    facts = known(record)
    if facts.get("release.confirmed") is True:
        return None
    for name in ("trapped", "inside"):
        if facts.get(name) is True:
            return f"the caller said so: {name}"
    gravest_known = gravest(record.urgency_heard, record.urgency)
    if gravest_known in TRAPPED:
        return f"it is {gravest_known} by what was heard, or by what people said"
    if record.heard > record.understood and _words(record):
        return "the caller has said something that nobody has understood yet"
    return None


def _words(record: CallRecord) -> bool:
    return any(
        entry.role == "caller" and entry.turn > record.understood and entry.text
        for entry in record.conversation_thread
    )
