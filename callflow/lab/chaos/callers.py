"""The callers of a run: so many at any time, of both kinds, each word of whom can be told apart.

Like a carrier they know nothing of servers and workers. Every utterance ends in three code words
that no other one of the run has, so that whoever hears a reply knows what it is to.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Final, Literal

from callflow.lab.carrier.caller import Behaviour
from callflow.lab.carrier.carrier import Call, Carrier
from callflow.lab.chaos.plan import Plan
from callflow.lab.chaos.witness import Caller
from callflow.responder.phrases import generic

LANGUAGE: Final = "en"

LIFTS: Final[dict[Literal["gather", "relay"], str]] = {
    "gather": "+441632960010",
    "relay": "+441632960020",
}
"""The numbers of `sites.yaml`."""

OPENINGS: Final = (
    "we are stuck in the lift",
    "the lift has stopped between two floors",
    "the cabin has stopped and we are inside",
    "we are in the lift and it has stopped",
    "the lift is stuck and we are inside",
)
"""Nobody is hurt, nobody tests anything, nobody wants a human: who is served first, and by whom,
has other reasons than what is said."""

CODE_WORDS: Final = (
    *("amber", "birch", "cedar", "coral", "cobalt", "daisy", "ebony", "fennel", "ginger", "hazel"),
    *("indigo", "ivory", "jasper", "juniper", "kelp", "lemon", "lilac", "larch", "maple", "mauve"),
    *("mint", "nutmeg", "olive", "opal", "orchid", "pebble", "pepper", "plum", "poppy", "quartz"),
    *("ruby", "saffron", "sage", "scarlet", "silver", "tulip", "vanilla", "violet", "walnut"),
    *("willow",),
)
"""Nothing that could be caught in a door, and nothing that burns."""

FILLERS: Final = ("hold_1", "hold_2", "getting_person", "still_here", "nobody_yet", "say_again")
"""Phrases after which a caller goes on waiting. That a person has left is none: they speak on."""

POISON: Final = "nightshade"
"""Stands in the one utterance that kills whoever takes it up."""

TURNS: Final = (2, 6)
THINK_S: Final = (0.4, 2.0)
ARRIVE_WITHIN_S: Final = 3.0
"""The first ones; afterwards one rings when another has ended."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A call that was placed."""

    call: Call
    line: Literal["gather", "relay"]
    poison: bool

    @property
    def over(self) -> bool:
        """True once the line is closed."""
        return self.call.line.over


class Crowd:
    """Places calls. The same seed gives the same callers in the same order."""

    def __init__(self, plan: Plan, carrier: Carrier) -> None:
        self._plan = plan
        self._carrier = carrier
        self._codes = _codes(plan.seed)
        self.placed: list[Placed] = []

    async def keep_calling(self, until: float) -> None:
        """As many calls as are planned, all the time until then (monotonic, s); returns when the
        last ones have ended by themselves."""
        lines = (self._one_after_another(number, until) for number in range(self._plan.calls))
        await asyncio.gather(*lines)

    def place(self, *, poison: bool = False) -> Placed:
        """One more caller."""
        number = len(self.placed)
        dice = Random(f"{self._plan.seed}/caller/{number}")
        line: Literal["gather", "relay"] = (
            "relay" if dice.random() < self._plan.relay_share else "gather"
        )
        lines = [self._line(dice) for _ in range(dice.randint(*TURNS))]
        if poison:
            lines[1] = f"{POISON} {lines[1]}"
        phrases = generic(LANGUAGE)
        behaviour = Behaviour(
            tuple(lines),
            language=LANGUAGE,
            think_s=THINK_S,
            fillers=tuple(phrases[name] for name in FILLERS),
            say_again=(phrases["say_again"],),
        )
        placed = Placed(self._carrier.place(behaviour, to=LIFTS[line]), line, poison)
        self.placed.append(placed)
        return placed

    @property
    def going(self) -> int:
        """How many calls are going on."""
        return sum(not placed.over for placed in self.placed)

    @property
    def answered(self) -> int:
        """How many utterances have been answered."""
        return sum(turn.answered for one in self.placed for turn in one.call.report.turns)

    def witnesses(self) -> tuple[Caller, ...]:
        """What each of them can tell."""
        return tuple(Caller(one.call.report, one.line, one.poison) for one in self.placed)

    async def _one_after_another(self, number: int, until: float) -> None:
        await asyncio.sleep(ARRIVE_WITHIN_S * number / self._plan.calls)
        while time.monotonic() < until:
            await self.place().call.ended()

    def _line(self, dice: Random) -> str:
        return f"{dice.choice(OPENINGS)} {next(self._codes)}"


def _codes(seed: int) -> Iterator[str]:
    """Three words, another three, and so on: none twice in 64,000."""
    dice = Random(f"{seed}/codes")
    first = dice.randrange(len(CODE_WORDS) ** 3)
    number = first
    while True:
        low, rest = number % len(CODE_WORDS), number // len(CODE_WORDS)
        middle, high = rest % len(CODE_WORDS), rest // len(CODE_WORDS) % len(CODE_WORDS)
        yield f"{CODE_WORDS[low]} {CODE_WORDS[middle]} {CODE_WORDS[high]}"
        number += 1
