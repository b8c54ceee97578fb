"""Simulated callers: they speak a line, wait until they have heard the reply, and go on.

They are the demo's outside view: what they were told was accepted and what they heard is compared
with the record afterwards. Like a carrier they know nothing of workers.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from importlib import resources

from callflow.intake import Intake
from callflow.store.replies import Expected, Replies
from callflow.store.snapshot import Snapshots

PATIENCE_S = 60.0
"""A caller who has heard nothing for so long counts as lost."""

REFILL_S = 0.25

THINK_S = (0.5, 4.0)
"""Between hearing a reply and having spoken again."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """What one caller says, line by line."""

    language: str
    scenario: str
    lines: tuple[str, ...]


def conversations() -> list[Conversation]:
    """The lines that come with callflow."""
    text = (resources.files("callflow.demo") / "conversations.jsonl").read_text(encoding="utf-8")
    return [
        Conversation(one["language"], one["scenario"], tuple(one["lines"]))
        for one in map(json.loads, text.splitlines())
    ]


@dataclass(slots=True)
class SpokenTurn:
    """One turn as the caller saw it; times are monotonic, s."""

    turn: int
    said: str
    accepted_at: float
    heard: list[str] = field(default_factory=list)
    """The reply as it grew in the caller's ear; the last one is the whole of it."""
    replied_at: float | None = None

    @property
    def pause_s(self) -> float | None:
        """From the utterance's acceptance to the whole reply."""
        return None if self.replied_at is None else self.replied_at - self.accepted_at


@dataclass(slots=True)
class Caller:
    """One person in one lift."""

    call_sid: str
    conversation: Conversation
    arrives_s: float
    random: random.Random
    turns: list[SpokenTurn] = field(default_factory=list)
    with_human: bool = False
    gave_up: bool = False

    async def call(self, intake: Intake, replies: Replies, turns: int, threads: Executor) -> None:
        """The whole call, from the alarm button to hanging up."""
        await asyncio.sleep(self.arrives_s)
        loop = asyncio.get_running_loop()
        language = self.conversation.language
        await loop.run_in_executor(
            threads, lambda: intake.open(self.call_sid, site="demo", language=language)
        )
        for number in range(1, turns + 1):
            said = self.conversation.lines[(number - 1) % len(self.conversation.lines)]
            with replies.expect(self.call_sid, number) as reply:
                await loop.run_in_executor(threads, intake.hear, self.call_sid, number, said)
                spoken = SpokenTurn(number, said, accepted_at=time.monotonic())
                self.turns.append(spoken)
                if not await self._listen(reply, spoken):
                    break
            await asyncio.sleep(self.random.uniform(*THINK_S))
        await loop.run_in_executor(threads, intake.end, self.call_sid, "hung_up")

    async def _listen(self, expected: Expected, spoken: SpokenTurn) -> bool:
        """Hear the reply to the end. False when the conversation with us is over."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                async for reply in expected.follow():
                    if reply.text:
                        spoken.heard.append(reply.text)
                    if reply.done:
                        spoken.replied_at = time.monotonic()
                    elif reply.over and reply.standing is not None:
                        self.with_human = reply.standing.handling == "human"
        except TimeoutError:
            self.gave_up = True
        return spoken.replied_at is not None


class Backlog:
    """Turns of other calls that wait in the queue for as long as the demo runs, so that takeovers
    must pass them. Nobody listens to their replies."""

    def __init__(self, intake: Intake, snapshots: Snapshots, size: int) -> None:
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
    return [
        Caller(
            call_sid=f"CA{chance.getrandbits(128):032x}",
            conversation=chance.choice(spoken),
            arrives_s=chance.uniform(0, over_s),
            random=random.Random(chance.getrandbits(64)),
        )
        for _ in range(count)
    ]
