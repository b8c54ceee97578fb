"""Tells whether somebody acts on what they have seen: optimistic locking for staff actions.

Two people who look at one call see the same moment of it; the second to act acts on something that
has changed. Each thing that people act on counts how often they did, and whoever acts says up to
which count they have seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from callflow.call.record import Act
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
