"""What the store answers: words, each with what may be done about it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from callflow.call.record import CallRecord
from callflow.call.urgency import Urgency


class Open(StrEnum):
    """What became of a call that was received."""

    OPENED = "opened"
    KNOWN = "known"
    """The call was open already; nothing was changed."""


class Hear(StrEnum):
    """What became of an utterance."""

    HEARD = "heard"
    """Stored. It will be answered."""
    REPEATED = "repeated"
    """The turn was stored before, by an earlier copy of the same webhook; nothing was changed."""


@dataclass(frozen=True, slots=True)
class Heard:
    """`wake`: nobody works on the call and no message for it is on its way; `waits`: one is.
    `alerted`: with this a human is to be rung. `full`: the call has gone on for so long that what
    is said in it is no longer kept: it is a human's. `urgency`: who is served first. `phrases`:
    False where no phrase of a person waits for the caller; True, too, where that is not known."""

    word: Hear
    wake: bool = False
    waits: bool = False
    alerted: bool = False
    full: bool = False
    urgency: Urgency | None = None
    phrases: bool = True


class Interrupt(StrEnum):
    """What became of a caller's speaking into a reply."""

    NOTED = "noted"
    REPEATED = "repeated"
    """This reply was interrupted before: the first time stands."""
    ENDED = "ended"
    UNKNOWN = "unknown"
    """There is no such call, or no such reply in it."""


class Claim(StrEnum):
    """Why a call was not given to a worker."""

    IDLE = "idle"
    """Nothing is owed."""
    HELD = "held"
    """Another worker has it."""
    ENDED = "ended"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to serve one call until the fence grows."""

    call_sid: str
    fence: int
    worker: str
    claim_id: str
    """Names the attempt that it came from: a failover that loses a claim gives its fence again."""

    @property
    def token(self) -> str:
        """What the scripts compare with the record: see `held` in `lua/prelude.lua`."""
        return f"{self.fence} {self.claim_id}"


@dataclass(frozen=True, slots=True)
class Claimed:
    """A lease, and the whole call as it was at that moment."""

    lease: Lease
    record: CallRecord


class Beat(StrEnum):
    """What became of a heartbeat."""

    BEATEN = "beaten"
    FENCED = "fenced"
    ENDED = "ended"
    UNKNOWN = "unknown"


class Note(StrEnum):
    """What became of something written in the middle of a turn."""

    NOTED = "noted"
    FENCED = "fenced"
    ENDED = "ended"
    UNKNOWN = "unknown"


class Commit(StrEnum):
    """What became of a reply."""

    OK = "ok"
    """Stored; nothing more is owed."""
    MOVED = "moved"
    """Stored; the caller has said more meanwhile: wake the call again."""
    FENCED = "fenced"
    """Not stored: the call was given to another worker."""
    ENDED = "ended"
    """Not stored: the call is complete."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Kept:
    """What became of what was understood. `alerted`: with it a human is to be rung, before any
    reply is worded."""

    word: Note
    alerted: bool = False


@dataclass(frozen=True, slots=True)
class Committed:
    """`alerted`: with this reply a human is to be rung. `hurried`: the caller has spoken of danger
    meanwhile."""

    word: Commit
    alerted: bool = False
    hurried: bool = False


class Release(StrEnum):
    """What became of taking a lease off a call."""

    RELEASED = "released"
    ALIVE = "alive"
    """The holder has beaten since it was looked at: it keeps the call."""
    FENCED = "fenced"
    ENDED = "ended"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Released:
    """`attempts`: how many workers the owed turn has cost by now (0 unless RELEASED)."""

    word: Release
    attempts: int = 0


class Pass(StrEnum):
    """What became of passing a call to a human."""

    PASSED = "passed"
    AGAIN = "again"
    """A human had it already."""
    FENCED = "fenced"
    ENDED = "ended"
    UNKNOWN = "unknown"


class Resume(StrEnum):
    """What became of giving a call back to the agent."""

    RESUMED = "resumed"
    AGAIN = "again"
    """The agent had it."""
    ENDED = "ended"
    UNKNOWN = "unknown"


class Ladder(StrEnum):
    """What became of a step on the ladder of humans."""

    MOVED = "moved"
    STALE = "stale"
    """Somebody else has made a step since it was looked at."""
    ENDED = "ended"
    UNKNOWN = "unknown"


class Finish(StrEnum):
    """What became of ending a call."""

    FINISHED = "finished"
    ENDED = "ended"
    """It was complete before; its first outcome stands."""
    UNKNOWN = "unknown"
