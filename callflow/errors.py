"""Every error that callflow raises on purpose: facts as fields, then a sentence, then the way out.

Errors from elsewhere are translated once, at the border where they arrive.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Set
from pathlib import Path


class CallflowError(Exception):
    """The root of the tree: catch this to catch all that callflow raises on purpose."""


def did_you_mean(
    word: str, known: Collection[str], *, spell: Callable[[str], str] = str, most_listed: int = 16
) -> str:
    """`, did you mean X?` with the nearest of `known`, else `; known are …`.

    Nothing where they are more than `most_listed`. `spell`: how one of them is written out.
    """
    choice = sorted(known) if isinstance(known, Set) else list(known)
    folded = {each.lower(): each for each in choice}
    if near := difflib.get_close_matches(word.lower(), folded, n=1):
        return f", did you mean {spell(folded[near[0]])}?"
    return f"; known are {', '.join(map(spell, choice))}" if len(choice) <= most_listed else ""


class SettingsError(CallflowError):
    """A `CALLFLOW_…` variable that is unknown or has a value that cannot be used."""

    def __init__(self, name: str, reason: str) -> None:
        self.name = name
        self.reason = reason
        super().__init__(f"{name}: {reason}")


class CallError(CallflowError):
    """Something asked of one call that cannot be done; nothing was changed."""

    def __init__(self, call_sid: str, sentence: str) -> None:
        self.call_sid = call_sid
        super().__init__(f"call {call_sid} {sentence}")


class InvalidCallSid(CallError):
    """A call key that could not be Twilio's, or that would break out of its hash slot."""

    def __init__(self, call_sid: str) -> None:
        shown = call_sid[:64].encode("ascii", "backslashreplace").decode()
        super().__init__(
            shown or "''", "has no valid CallSid: 1 to 64 letters, digits, hyphens or underscores"
        )


class UnknownCall(CallError):
    """No record: the call was never opened, or it ended and its record has expired."""

    def __init__(self, call_sid: str) -> None:
        super().__init__(
            call_sid, "is unknown: it was never opened, or it ended and its record has expired"
        )


class CallEnded(CallError):
    """The call is complete; its record can be read until it expires and changed no more."""

    def __init__(self, call_sid: str, event: str) -> None:
        self.event = event
        super().__init__(call_sid, f"is complete: {event} is not allowed")


class TurnOutOfOrder(CallError):
    """An utterance for a later turn than the next: the record lost, or the sender skipped, some."""

    def __init__(self, call_sid: str, turn: int, heard: int) -> None:
        self.turn = turn
        self.heard = heard
        super().__init__(
            call_sid,
            f"has heard {heard} turns: turn {turn} is not the next; send turn {heard + 1}, "
            "or read the record to see what is missing",
        )


class InvalidUtterance(CallError):
    """An utterance that no speech recognition of one turn delivers; it was not stored."""

    def __init__(self, call_sid: str, length: int, limit: int) -> None:
        self.length = length
        self.limit = limit
        super().__init__(
            call_sid,
            f"was sent an utterance of {length} characters: at most {limit} are stored in one "
            "turn; split it into turns",
        )


class StoreError(CallflowError):
    """The Redis server did not do what was asked; whether it was done may be unknown."""


class StoreUnavailable(StoreError):
    """The server cannot be reached or does not answer in time. Every operation may be repeated."""

    def __init__(self, where: str, reason: str) -> None:
        self.where = where
        super().__init__(
            f"the Redis server at {where} cannot be reached, or does not serve yet: {reason}; "
            "check CALLFLOW_REDIS_URL, or start a local stack with `callflow up`"
        )


class StoreUnreplicated(StoreUnavailable):
    """It was done, and too few replicas have it yet: a failover could lose it. Ask again: it is
    not done twice, and the replicas are asked once more."""

    def __init__(self, where: str, least: int) -> None:
        self.least = least
        StoreError.__init__(
            self,
            f"the Redis server at {where} has stored it, and fewer than {least} replicas have it: "
            "see to the replicas, or lower CALLFLOW_MIN_REPLICAS",
        )
        self.where = where


class StoreReadOnly(StoreError):
    """The server is a replica: what was asked was not done."""

    def __init__(self, where: str) -> None:
        self.where = where
        super().__init__(
            f"the Redis server at {where} is read-only: it is a replica; "
            "point CALLFLOW_REDIS_URL at the primary or at the endpoint that follows it"
        )


class StoreFull(StoreError):
    """The server has reached `maxmemory`: what was asked was not done, nothing was evicted."""

    def __init__(self, where: str) -> None:
        self.where = where
        super().__init__(
            f"the Redis server at {where} is out of memory: give it more, or end calls; "
            "nothing stored was lost"
        )


class StoreUnfit(StoreError):
    """The server could lose calls as it is configured."""

    def __init__(self, where: str, reason: str) -> None:
        self.where = where
        super().__init__(f"the Redis server at {where} is not fit to hold calls: {reason}")


class LeaseLost(CallError):
    """The lease of the turn being worked on is no longer ours: stop, write nothing more."""

    def __init__(self, call_sid: str, fence: int, reason: str) -> None:
        self.fence = fence
        self.reason = reason
        super().__init__(call_sid, f"is no longer ours (fence {fence}): {reason}")


class SopError(CallflowError):
    """A procedure document that cannot be used: where, and what to change."""

    def __init__(self, path: Path, line: int, reason: str) -> None:
        self.path = path
        self.line = line
        self.reason = reason
        super().__init__(f"{path}:{line}: {reason}")
