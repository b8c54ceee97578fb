"""The limits of calls: when somebody has waited too long, and how much of anything one may have.

Every bound is counted on the Redis server's clock except `Timing.trusted_ms`, by which a worker's
own clock may only make it stop sooner.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

LIMIT: Final = "limit"
"""Why a human is rung for a call that has gone beyond a limit of its own."""

OVERLOAD: Final = "overload"
"""Why a human is rung for a call that is one too many, or that no worker had time for."""

THREAD_MOST_ENTRIES: Final = 400
"""Utterances and replies of one call, about 200 turns, after which a human is wanted: at a turn in
ten seconds that is half an hour with a machine. At twice as many the agent falls silent."""

OPEN_CALLS_MOST: Final = 10_000
"""Calls that are open at the same time; those beyond are put through to humans at once. A sweep
over so many was measured at a few milliseconds, and each takes some tens of kilobytes."""

FRAMES_PER_S_MOST: Final = 100
"""Of one relay socket. A caller's words in parts, keys and word of what was played make some ten a
second; a network that stood still for several seconds delivers those of all of them at once."""

SCRIPT_AT_ATTEMPTS = 3
"""A turn that has cost this many workers is answered by the plain script, and a human is wanted."""

HUMAN_AT_ATTEMPTS = 4
"""A turn that has cost this many workers is not given to another one: it ends at a human."""


class Escalation(StrEnum):
    """Who answers a turn that has already cost some workers."""

    RESPONDER = "responder"
    SCRIPT = "script"
    HUMAN = "human"


def escalation(attempts: int) -> Escalation:
    """Who answers a turn that has been taken over `attempts` times."""
    if attempts >= HUMAN_AT_ATTEMPTS:
        return Escalation.HUMAN
    if attempts >= SCRIPT_AT_ATTEMPTS:
        return Escalation.SCRIPT
    return Escalation.RESPONDER


@dataclass(frozen=True, slots=True)
class Timing:
    """The times of one deployment; every process of it must have the same."""

    beat_ms: int
    """How often a process renews its leases."""
    stale_ms: int
    """A lease without a beat for so long is taken back, whatever else seems alive."""
    owed_ms: int
    """An owed turn that nobody has claimed for so long has lost its message: it is woken again."""
    turn_ms: int
    """A turn that takes longer is wedged: its own process gives it back."""
    abandoned_ms: int
    """A call in which nothing has happened for so long has lost its hang-up: it is ended."""
    completed_ttl_ms: int
    """How long the record of a complete call can still be read."""

    @property
    def overdue_ms(self) -> int:
        """Age of a beat from which on the holder's presence is asked for: one beat, and half of
        one for a busy machine. A live worker that is asked for loses nothing."""
        return self.beat_ms + self.beat_ms // 2

    @property
    def trusted_ms(self) -> int:
        """How long after its last accepted beat a worker may still believe in its lease: until
        one beat before others may take it."""
        return self.stale_ms - self.beat_ms

    @property
    def rewake_ms(self) -> int:
        """The longest time between two wakes of an owed turn that nobody claims."""
        return 8 * self.owed_ms

    @property
    def resubscribe_ms(self) -> int:
        """For how long after the server restarted an absent subscription proves nothing."""
        return 3_000
