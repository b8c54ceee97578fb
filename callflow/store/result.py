"""The store's answers: one word of `Result`, and what else there is to know about it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from callflow.call.record import CallRecord
from callflow.call.urgency import Urgency


class Result(StrEnum):
    """What became of a request. Only OK, MOVED and AGAIN say that it stands in the record now."""

    OK = "ok"
    """Done."""
    MOVED = "moved"
    """Done: the reply is stored, and the caller has said more meanwhile. Wake the call again."""
    AGAIN = "again"
    """Done before, by an earlier copy of the request or by somebody else: nothing was changed."""
    IDLE = "idle"
    """There is nothing to do."""
    HELD = "held"
    """Another one has it."""
    ALIVE = "alive"
    """The worker has beaten since it was looked at: it keeps the call."""
    FENCED = "fenced"
    """The call was given to another worker: whoever asks may write no more."""
    STALE = "stale"
    """What was looked at has changed since."""
    AHEAD = "ahead"
    """Turns before this one are missing."""
    FULL = "full"
    """There is as much as there may be."""
    UNREASONED = "unreasoned"
    """It needs a reason, and none was given."""
    WITH_HUMAN = "with_human"
    """A human is on the line with the caller."""
    OPEN = "open"
    """The circuit breaker is open."""
    ENDED = "ended"
    """The call is complete."""
    UNKNOWN = "unknown"
    """There is no such thing (any more)."""


@dataclass(frozen=True, slots=True)
class UtteranceStored:
    """`result`: OK, or AGAIN where the turn was stored before. `wake`: nobody works on the call and
    no message for it is on its way; `waits`: one is. `alerted`: with this a human is to be rung.
    `full`: the call has gone on for so long that what is said in it is no longer kept: it is a
    human's. `urgency`: who is served first. `phrases`: False where no phrase of a person waits for
    the caller; True, too, where that is not known."""

    result: Result
    wake: bool = False
    waits: bool = False
    alerted: bool = False
    full: bool = False
    urgency: Urgency | None = None
    phrases: bool = True


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
        """What the scripts compare with the record: see `open_call` in `lua/prelude.lua`."""
        return f"{self.fence} {self.claim_id}"


@dataclass(frozen=True, slots=True)
class Claimed:
    """A lease, and the whole call as it was at that moment."""

    lease: Lease
    record: CallRecord


@dataclass(frozen=True, slots=True)
class AnalysisSaved:
    """`alerted`: with it a human is to be rung, before any reply is worded."""

    result: Result
    alerted: bool = False


@dataclass(frozen=True, slots=True)
class Committed:
    """`result`: OK, MOVED or a refusal. `alerted`: with this reply a human is to be rung.
    `hurried`: the caller has spoken of danger meanwhile."""

    result: Result
    alerted: bool = False
    hurried: bool = False


@dataclass(frozen=True, slots=True)
class Released:
    """`attempts`: how many workers the owed turn has cost by now (0 unless OK)."""

    result: Result
    attempts: int = 0
