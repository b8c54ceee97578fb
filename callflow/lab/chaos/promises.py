"""Defines the promises: what must not happen, and how long a caller may have to wait. Pure.

A bound counts from the signal of a strike to the next claim. Whatever else was struck at the same
time adds what it costs by itself: a killed worker is noticed later while nobody sweeps.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Self

from callflow.lab.chaos.chaos_plan import KINDS, Harm
from callflow.lab.chaos.run_evidence import RunConditions, Strike


class FaultKind(StrEnum):
    """One kind of fault, as a caller would complain of it, and the `promise` that it breaks."""

    promise: int

    def __new__(cls, word: str, promise: int) -> Self:
        kind = str.__new__(cls, word)
        kind._value_ = word
        kind.promise = promise
        return kind

    LOST = "lost", 1
    """Acknowledged, and never answered by anybody although the caller waited."""
    REPEATED = "repeated", 2
    """A reply that had been heard to its end is heard again, or an utterance answered twice."""
    DOUBLED = "doubled", 2
    """One utterance stands more than once in the conversation."""
    STALE = "stale", 2
    """Words of a worker from which the call had been taken."""
    OUT_OF_ORDER = "out_of_order", 2
    MISPLACED = "misplaced", 2
    """A reply to something that was not said in this call, or not yet."""
    LEFT_OUT = "left_out", 3
    """A sentence of a reply that was never heard, with others of it heard."""
    LATE = "late", 3
    """A reply, or the human in its place, that came after its bound."""
    LATE_TAKEOVER = "late_takeover", 3
    DROPPED = "dropped", 4
    """The call was ended by an error, or the caller gave up."""
    FALLEN = "fallen", 4
    """A process ended that nobody had struck."""
    SAID_AGAIN = "said_again", 5
    """More of an unfinished reply than the sentence that broke off is heard again."""
    FORGOTTEN = "forgotten", 5
    """A reply by somebody who did not know what had been said before; a second greeting."""
    POISON = "poison", 6
    """A turn that kills its workers did not end at a human, or went on killing."""
    SILENCE = "silence", 7
    LEAK = "leak", 8


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
    """One thing that must not happen and has. `at_s` counts from the beginning of the run; `detail`
    is a sentence with numbers and without anybody's words."""

    at_s: float
    kind: FaultKind
    call_sid: str | None
    detail: str

    @property
    def promise(self) -> int:
        return self.kind.promise

    def __str__(self) -> str:
        where = "" if self.call_sid is None else f" call {self.call_sid}:"
        return f"promise {self.promise}, {self.kind}:{where} {self.detail} (at {self.at_s:.1f} s)"


LONGEST_SILENCE_S: Final = 4.0
"""A promise: so long may a caller hear nothing, and no longer."""

PHRASE_S: Final = 3.5
"""How long the longest holding phrase takes to say, at speed 1."""

HUMAN_S: Final = 15.0
"""For a human to be rung, to hear what it is about and to press the key."""

HOLDING_ROUNDS: Final = 3
"""Two holding phrases, and the one that tells of a human."""

POISON_COSTS: Final = 4
"""So many workers may one turn cost, and then it is a human's."""

DEATH_S: Final = 1.5
FREEZE_MORE_S: Final = 1.0
"""Above the age at which a silent lease is taken back."""

LINGERS_S: Final = {Harm.TIMER: 2.0, Harm.MESSAGE: 3.0, Harm.SERVER: 3.0}
"""By so much later is anything noticed where the sweep is struck too, a message was lost, or a
server is back again."""


def takeover_bound_s(kind: str, conditions: RunConditions) -> float:
    """How long from a strike of this kind, and nothing else, until the next worker has the call."""
    match KINDS[kind].harm:
        case Harm.DEATH | Harm.LEAVE | Harm.POISON:
            return DEATH_S
        case Harm.FREEZE:
            return conditions.stale_after_s + FREEZE_MORE_S
        case Harm.LINE:
            return 0.0
        case harm:
            return LINGERS_S[harm]


def added_s(strikes: Iterable[Strike], from_s: float, to_s: float) -> float:
    """What strikes at the sweep, the messages and the server between two moments (s since the run
    began) may add to a bound."""
    timers = messages = away_s = 0.0
    for strike in strikes:
        harm = KINDS[strike.kind].harm
        lingers_s = LINGERS_S.get(harm, 0.0)
        if strike.at_s > to_s or strike.until_s + lingers_s < from_s:
            continue
        if harm is Harm.TIMER:
            timers = lingers_s
        elif lingers_s:
            messages = max(messages, lingers_s)
            away_s += max(0.0, strike.until_s - max(strike.at_s, from_s))
    return timers + messages + away_s


def reply_bound_s(conditions: RunConditions) -> float:
    """How long until an utterance is answered by somebody: two holding phrases, a third that tells
    of a human, and the human. At each rung below it a worker may still come first."""
    round_s = conditions.reply_wait_s + PHRASE_S / conditions.speed
    return HOLDING_ROUNDS * round_s + HUMAN_S
