"""The people of a demo: real calls by the carrier simulator, each a lift with something to say.

They are the demo's outside view: what they said and what they heard is compared with the record
afterwards. Like a carrier they know nothing of workers.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources

from callflow.intake import Intake
from callflow.lab.carrier.caller import Behaviour
from callflow.lab.carrier.carrier import Carrier
from callflow.lab.carrier.report import CallReport
from callflow.responder.phrases import generic
from callflow.store.reader import CallReader

REFILL_S = 0.25

THINK_S = (0.5, 4.0)
"""Between having been asked and speaking: below the five seconds after which a Gather hears
silence."""

LIFTS = {
    "en": ("+441632960010", "+441632960020"),
    "zh": ("+441632960030",),
    "es": ("+441632960040",),
}
"""The numbers of `sites.yaml` by language: webhooks first, then relay sockets."""

FILLERS = (
    *("hold_1", "hold_2", "getting_person", "still_here", "nobody_yet", "person_left", "say_again"),
)
"""What is said while a reply is awaited: no reply itself."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """What one caller says, line by line."""

    language: str
    scenario: str
    lines: tuple[str, ...]


def conversations() -> list[Conversation]:
    """The lines that come with callflow."""
    text = (resources.files("callflow.lab.demo") / "conversations.jsonl").read_text(
        encoding="utf-8"
    )
    return [
        Conversation(one["language"], one["scenario"], tuple(one["lines"]))
        for one in map(json.loads, text.splitlines())
    ]


@dataclass(slots=True)
class Caller:
    """One person in one lift. `report`: what the call was like, once it is over."""

    call_sid: str
    conversation: Conversation
    called: str
    arrives_s: float
    report: CallReport | None = None

    @property
    def fillers(self) -> tuple[str, ...]:
        """What is said while a reply is awaited, in this caller's language."""
        phrases = generic(self.conversation.language)
        return tuple(phrases[name] for name in FILLERS)

    @property
    def no_replies(self) -> tuple[str, ...]:
        """The same, and what gives the floor back without being a reply."""
        return (*self.fillers, generic(self.conversation.language)["go_on"])

    async def call(self, carrier: Carrier, turns: int) -> None:
        """The whole call, from the alarm button to hanging up."""
        await asyncio.sleep(self.arrives_s)
        phrases = generic(self.conversation.language)
        behaviour = Behaviour(
            self.conversation.lines,
            turns=turns,
            language=self.conversation.language,
            think_s=THINK_S,
            fillers=self.fillers,
            say_again=(phrases["say_again"],),
        )
        self.report = await carrier.call(behaviour, to=self.called, call_sid=self.call_sid)


class Backlog:
    """Turns of other calls that wait in the queue for as long as the demo runs, so that takeovers
    must pass them. Nobody listens to their replies."""

    def __init__(self, intake: Intake, snapshots: CallReader, size: int) -> None:
        self._intake = intake
        self._snapshots = snapshots
        self._size = size
        self.call_sids: list[str] = []

    def fill(self) -> None:
        """Let calls speak until `size` turns wait."""
        missing = self._size - self._snapshots.counts()["owed"]
        for _ in range(missing if self._size else 0):
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
        """All of them hang up."""
        for call_sid in self.call_sids:
            self._intake.end(call_sid, "hung_up")


def crowd(count: int, seed: int, over_s: float) -> list[Caller]:
    """`count` callers that arrive within `over_s`, the same ones for the same seed."""
    chance = random.Random(seed)
    spoken: Sequence[Conversation] = conversations()
    callers = []
    for number in range(count):
        conversation = chance.choice(spoken)
        lifts = LIFTS[conversation.language]
        callers.append(
            Caller(
                call_sid=f"CA{chance.getrandbits(128):032x}",
                conversation=conversation,
                called=lifts[number % len(lifts)],
                arrives_s=chance.uniform(0, over_s),
            )
        )
    return callers
