"""Simulates the people in lifts: callers of a run of chaos, and those of the demo.

They make real calls by the carrier simulator, and like a carrier they know nothing of servers and
workers. What they said and heard is the outside view that the judge believes.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from random import Random
from typing import Final, Literal

from callflow.intake import Intake
from callflow.lab.carrier.call_report import CallReport
from callflow.lab.carrier.carrier import Carrier
from callflow.lab.carrier.carrier_call import Call
from callflow.lab.carrier.simulated_people import Behaviour
from callflow.lab.chaos.audio_checks import HOLDING_PHRASES
from callflow.lab.chaos.chaos_plan import Plan
from callflow.lab.chaos.run_evidence import CallEvidence
from callflow.responder.phrases import generic
from callflow.store.reader import CallReader

Line = Literal["gather", "relay"]

LIFTS: Final[dict[str, dict[Line, str]]] = {
    "en": {"gather": "+441632960010", "relay": "+441632960020"},
    "zh": {"gather": "+441632960030"},
    "es": {"relay": "+441632960040"},
}
"""The numbers of `demo_sites.yaml`, and of them the English ones of `sites.yaml`."""

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
"""Phrases after which a caller of chaos goes on waiting. That a person has left is none: they speak
on."""

POISON: Final = "nightshade"
"""Stands in the one utterance that kills whoever takes it up."""

TURNS: Final = (2, 6)
THINK_S: Final = (0.4, 2.0)
ARRIVE_WITHIN_S: Final = 3.0
"""The first ones; afterwards one rings when another has ended."""

DEMO_THINK_S: Final = (0.5, 4.0)
"""Between having been asked and speaking: below the five seconds after which a Gather hears
silence."""

REFILL_S: Final = 0.25


@dataclass(frozen=True, slots=True)
class GeneratedCall:
    """A call of chaos that was placed."""

    call: Call
    line: Line
    poison: bool

    @property
    def over(self) -> bool:
        return self.call.line.over


class CallGenerator:
    """Places the calls of a run of chaos. The same seed gives the same callers in the same order.

    Every utterance ends in three code words that no other one of the run has, so that whoever hears
    a reply knows what it is to.
    """

    def __init__(self, plan: Plan, carrier: Carrier) -> None:
        self._plan = plan
        self._carrier = carrier
        self._codes = _codes(plan.seed)
        self.placed: list[GeneratedCall] = []

    async def keep_calling(self, until: float) -> None:
        """As many calls as are planned, all the time until then (monotonic, s); returns when the
        last ones have ended by themselves."""
        lines = (self._call_one_after_another(number, until) for number in range(self._plan.calls))
        await asyncio.gather(*lines)

    def place(self, *, poison: bool = False) -> GeneratedCall:
        dice = Random(f"{self._plan.seed}/caller/{len(self.placed)}")
        line: Line = "relay" if dice.random() < self._plan.relay_share else "gather"
        words = [
            f"{dice.choice(OPENINGS)} {next(self._codes)}" for _ in range(dice.randint(*TURNS))
        ]
        if poison:
            words[1] = f"{POISON} {words[1]}"
        behaviour = _behaviour("en", tuple(words), THINK_S, FILLERS)
        call = self._carrier.place(behaviour, to=LIFTS["en"][line])
        self.placed.append(GeneratedCall(call, line, poison))
        return self.placed[-1]

    @property
    def going(self) -> int:
        return sum(not placed.over for placed in self.placed)

    @property
    def answered(self) -> int:
        return sum(turn.answered for one in self.placed for turn in one.call.report.turns)

    def evidence(self) -> tuple[CallEvidence, ...]:
        """What each caller can tell."""
        return tuple(CallEvidence(one.call.report, one.line, one.poison) for one in self.placed)

    async def _call_one_after_another(self, number: int, until: float) -> None:
        await asyncio.sleep(ARRIVE_WITHIN_S * number / self._plan.calls)
        while time.monotonic() < until:
            await self.place().call.ended()


def _codes(seed: int) -> Iterator[str]:
    """Three words, another three, and so on: none twice in 64,000."""
    number = Random(f"{seed}/codes").randrange(len(CODE_WORDS) ** 3)
    while True:
        low, rest = number % len(CODE_WORDS), number // len(CODE_WORDS)
        middle, high = rest % len(CODE_WORDS), rest // len(CODE_WORDS) % len(CODE_WORDS)
        yield f"{CODE_WORDS[low]} {CODE_WORDS[middle]} {CODE_WORDS[high]}"
        number += 1


@dataclass(frozen=True, slots=True)
class CallScript:
    """What one caller of the demo says, line by line."""

    language: str
    scenario: str
    lines: tuple[str, ...]


@dataclass(slots=True)
class DemoCaller:
    """One person in one lift of the demo. `report`: what the call was like, once it is over."""

    call_sid: str
    script: CallScript
    line: Line
    called: str
    arrives_s: float
    report: CallReport | None = None

    async def call(self, carrier: Carrier, turns: int) -> None:
        """The whole call, from the alarm button to hanging up."""
        await asyncio.sleep(self.arrives_s)
        script = self.script
        behaviour = _behaviour(script.language, script.lines, DEMO_THINK_S, HOLDING_PHRASES, turns)
        self.report = await carrier.call(behaviour, to=self.called, call_sid=self.call_sid)


def load_scripts() -> list[CallScript]:
    path = resources.files("callflow.lab.chaos") / "conversations.jsonl"
    return [
        CallScript(one["language"], one["scenario"], tuple(one["lines"]))
        for one in map(json.loads, path.read_text(encoding="utf-8").splitlines())
    ]


def demo_callers(count: int, seed: int, over_s: float) -> list[DemoCaller]:
    """`count` callers that arrive within `over_s`, the same ones for the same seed."""
    dice = Random(seed)
    scripts = load_scripts()
    callers = []
    for number in range(count):
        script = dice.choice(scripts)
        lifts = list(LIFTS[script.language].items())
        line, called = lifts[number % len(lifts)]
        call_sid = f"CA{dice.getrandbits(128):032x}"
        callers.append(DemoCaller(call_sid, script, line, called, dice.uniform(0, over_s)))
    return callers


class Backlog:
    """Turns of other calls that wait in the queue for as long as the demo runs, so that takeovers
    must pass them. Nobody listens to their replies."""

    def __init__(self, intake: Intake, calls: CallReader, size: int) -> None:
        self._intake = intake
        self._calls = calls
        self._size = size
        self.call_sids: list[str] = []

    def fill(self) -> None:
        """Let calls speak until `size` turns wait."""
        missing = self._size - self._calls.counts()["owed"] if self._size else 0
        for _ in range(missing):
            call_sid = f"CAbacklog{len(self.call_sids):023d}"
            self.call_sids.append(call_sid)
            self._intake.open(call_sid, site="backlog")
            self._intake.hear(call_sid, 1, "we are stuck between two floors")

    async def keep_full(self) -> None:
        """Until cancelled: whatever was answered is followed by new ones."""
        while self._size:
            await asyncio.sleep(REFILL_S)
            await asyncio.to_thread(self.fill)

    def end(self) -> None:
        for call_sid in self.call_sids:
            self._intake.end(call_sid, "hung_up")


def _behaviour(
    language: str,
    lines: tuple[str, ...],
    think_s: tuple[float, float],
    fillers: Sequence[str],
    turns: int | None = None,
) -> Behaviour:
    phrases = generic(language)
    return Behaviour(
        lines,
        turns=turns,
        language=language,
        think_s=think_s,
        fillers=tuple(phrases[name] for name in fillers),
        say_again=(phrases["say_again"],),
    )
