"""The kinds of things that must not happen, and which promise each of them breaks."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Kind(StrEnum):
    """One kind of fault, as a caller would complain of it."""

    LOST = "lost"
    """Acknowledged, and never answered by anybody although the caller waited."""
    LEFT_OUT = "left_out"
    """A sentence of a reply that was never heard, with others of it heard."""
    REPEATED = "repeated"
    """A reply that had been heard to its end is heard again, or an utterance answered twice."""
    SAID_AGAIN = "said_again"
    """More of an unfinished reply than the sentence that broke off is heard again."""
    DOUBLED = "doubled"
    """One utterance stands more than once in the conversation."""
    STALE = "stale"
    """Words of a worker from which the call had been taken."""
    OUT_OF_ORDER = "out_of_order"
    MISPLACED = "misplaced"
    """A reply to something that was not said in this call, or not yet."""
    FORGOTTEN = "forgotten"
    """A reply by somebody who did not know what had been said before; a second greeting."""
    LATE = "late"
    """A reply, or the human in its place, that came after its bound."""
    DROPPED = "dropped"
    """The call was ended by an error, or the caller gave up."""
    FALLEN = "fallen"
    """A process ended that nobody had struck."""
    LATE_TAKEOVER = "late_takeover"
    POISON = "poison"
    """A turn that kills its workers did not end at a human, or went on killing."""
    SILENCE = "silence"
    LEAK = "leak"


PROMISE: Final = {
    Kind.LOST: 1,
    Kind.REPEATED: 2,
    Kind.DOUBLED: 2,
    Kind.STALE: 2,
    Kind.OUT_OF_ORDER: 2,
    Kind.MISPLACED: 2,
    Kind.LEFT_OUT: 3,
    Kind.LATE: 3,
    Kind.LATE_TAKEOVER: 3,
    Kind.DROPPED: 4,
    Kind.FALLEN: 4,
    Kind.SAID_AGAIN: 5,
    Kind.FORGOTTEN: 5,
    Kind.POISON: 6,
    Kind.SILENCE: 7,
    Kind.LEAK: 8,
}

PROMISES: Final = {
    1: "an utterance that was acknowledged is never lost",
    2: "each utterance is answered once, in its order",
    3: "an owed reply always comes, whole and in time",
    4: "any process may be killed, frozen or cut off",
    5: "a takeover knows all that was said and heard",
    6: "a turn that kills its workers ends at a human",
    7: "nobody hears silence for more than 4 s",
    8: "nothing leaks",
}
"""As a table has room for them."""


@dataclass(frozen=True, slots=True, order=True)
class Fault:
    """One thing that must not happen and has. `at_s` counts from the beginning of the run."""

    at_s: float
    kind: Kind
    call_sid: str | None
    detail: str
    """A sentence with numbers and without anybody's words."""

    @property
    def promise(self) -> int:
        """The number of the promise that it breaks."""
        return PROMISE[self.kind]

    def __str__(self) -> str:
        where = "" if self.call_sid is None else f" call {self.call_sid}:"
        return f"promise {self.promise}, {self.kind}:{where} {self.detail} (at {self.at_s:.1f} s)"
