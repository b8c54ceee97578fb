"""Checks what staff do in a call: on what they have seen of it, and how they end it.

Two people who look at one call see the same moment of it; the second to act acts on something that
has changed. Each thing that people act on counts how often they did, and whoever acts says up to
which count they have seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from callflow.call.facts import known
from callflow.call.record import Act, CallRecord
from callflow.call.urgency import gravest
from callflow.errors import CallError, CallflowError

CALL: Final = "call"
"""Who has the call, and its end."""
SAY: Final = "say"
"""What is said to the caller in a person's words."""
URGENCY: Final = "urgency"
_FACT: Final = "fact:"

_DONE: Final[Mapping[str, str]] = {
    CALL: "took the call over",
    SAY: "had something said to the caller",
    URGENCY: "set the urgency",
}


def fact(name: str) -> str:
    """The thing that is one fact."""
    return f"{_FACT}{name}"


class BadSeen(CallflowError):
    """What somebody says to have seen is none of ours; nothing was changed."""

    def __init__(self, given: str) -> None:
        self.given = given
        super().__init__(
            f"{given[:64]!a} is not what a page of a call says that it shows: open the call again"
        )


def version_token(acts: Mapping[str, Act]) -> str:
    """What somebody sees of all things at once, for a form to send back: `call=2 urgency=1`."""
    return " ".join(f"{thing}={act.n}" for thing, act in sorted(acts.items()))


def seen_count(shown: str, thing: str) -> int:
    """How often `thing` had been acted on when `shown` (a `version_token`) was made; 0 where it
    never had. Raises BadSeen."""
    counts = {}
    for part in shown.split():
        name, equals, number = part.rpartition("=")
        if not equals or not number.isascii() or not number.isdecimal() or len(number) > 9:
            raise BadSeen(shown)
        counts[name] = int(number)
    return counts.get(thing, 0)


class StaleEdit(CallError):
    """Somebody else has acted on the same thing since: nothing was changed.

    `by` did `what`, at `at` (server's clock, ms).
    """

    def __init__(self, call_sid: str, thing: str, by: str, at: int) -> None:
        self.thing = thing
        self.by = by
        self.at = at
        super().__init__(
            call_sid,
            f"has changed since you looked: {by} {describe(thing)}; look at it again, and do yours "
            "if it is still needed",
        )


class WithHuman(CallError):
    """A human is on the line with the caller: they speak, and nobody takes the call from them."""

    def __init__(self, call_sid: str, who: str | None) -> None:
        self.who = who
        super().__init__(
            call_sid,
            f"is with {who or 'a human'}, who is on the line with the caller: what is to be said, "
            "say to them",
        )


class TooMuch(CallError):
    """More of something than one call may have: nothing was changed."""

    def __init__(self, call_sid: str, what: str, limit: int) -> None:
        self.limit = limit
        super().__init__(call_sid, f"has {limit} {what} already: no more are taken")


class ReasonMissing(CallError):
    """Somebody would make a call less urgent than what was heard in it, and does not say why."""

    def __init__(self, call_sid: str, heard: str) -> None:
        self.heard = heard
        super().__init__(
            call_sid,
            f"is {heard} by what the caller said: to make it less urgent, write the reason",
        )


def describe(thing: str) -> str:
    """What somebody did who acted on `thing`, as the end of a sentence."""
    if thing.startswith(_FACT):
        return f"recorded {thing.removeprefix(_FACT)}"
    return _DONE[thing]


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
