"""What a strike can see and reach, and what it writes down about itself."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from random import Random
from typing import Final

from callflow.call.record import CallRecord
from callflow.call.state import LEASED
from callflow.lab.chaos.callers import Crowd
from callflow.lab.chaos.plan import KINDS, Plan
from callflow.lab.chaos.processes import Processes, node
from callflow.lab.chaos.servers import Servers
from callflow.lab.chaos.witness import Strike
from callflow.lab.demo.web import WebProcesses
from callflow.redis.scripts import Scripts
from callflow.settings import Settings
from callflow.store.leases import Leases
from callflow.store.reader import CallReader

LOOK_AGAIN_S: Final = 0.02

SPARED_FROM: Final = 2
"""A call whose turn has been hit so often is spared by what strikes workers."""

VICTIM_WITHIN_S: Final = 4.0
"""In a pause of all callers a worker that does nothing is as good a victim as any."""

BACK_WITHIN_S: Final = 20.0
"""What a process may take to be of use again; it takes three on an idle laptop."""


class Eyes:
    """Reads the records past the endpoints. Every method waits: not for the event loop."""

    def __init__(self, servers: Servers, settings: Settings) -> None:
        self._servers = servers
        self._timing = settings.timing

    def present(self, name: str) -> int:
        """How many processes of a worker are ready to run turns."""
        leases = Leases(Scripts(self._servers.client), self._timing)
        return sum(one.startswith(f"{node(name)}/") for one in leases.present_now())

    def sweeper(self) -> str | None:
        """Who swept last; None when that is a second ago."""
        swept = Leases(Scripts(self._servers.client), self._timing).last_sweep()
        return None if swept is None else swept[0]

    def active(self) -> list[CallRecord]:
        """The calls that are not complete."""
        return CallReader(self._servers.client).active()

    def record(self, call_sid: str) -> CallRecord | None:
        """One call."""
        return CallReader(self._servers.client).find(call_sid)


@dataclass
class Scene:
    """A run in progress."""

    plan: Plan
    servers: Servers
    processes: Processes
    web: WebProcesses
    crowd: Crowd
    eyes: Eyes

    async def being_answered(self, dice: Random, spare: bool = True) -> CallRecord | None:
        """A call that a ready worker is at work on, one that may be struck; None when there is
        none for a while."""
        deadline = time.monotonic() + VICTIM_WITHIN_S
        while time.monotonic() < deadline:
            if (found := await asyncio.to_thread(self._being_answered, dice, spare)) is not None:
                return found
            await asyncio.sleep(LOOK_AGAIN_S)
        return None

    def _being_answered(self, dice: Random, spare: bool) -> CallRecord | None:
        ready = {node(name) for name in self.processes.workers if self.eyes.present(name)}
        held = [one for one in self.eyes.active() if one.call_state in LEASED]
        tired = {_node_of(one) for one in held if one.attempts >= SPARED_FROM} if spare else set()
        choice = [one for one in held if _node_of(one) in ready - tired]
        return dice.choice(sorted(choice, key=lambda one: one.call_sid)) if choice else None

    async def worker(self, dice: Random) -> str:
        """The name of a worker that may be struck, in the middle of turns if there are any."""
        record = await self.being_answered(dice)
        if record is None:
            return dice.choice(self.processes.workers)
        return _node_of(record).partition("@")[0]

    async def worker_ready(self, name: str) -> None:
        """Return when every slot of a worker is there. One that does not come back has fallen."""
        await self.back(
            name,
            lambda: asyncio.to_thread(lambda: self.eyes.present(name) >= self.plan.slots),
        )

    async def back(self, name: str, ready: Callable[[], Awaitable[bool]]) -> None:
        """Return when a process is `ready`. One that is not in time has fallen."""
        deadline = time.monotonic() + BACK_WITHIN_S
        while not await ready():
            if time.monotonic() > deadline:
                self.processes.give_up(name, f"was of no use for {BACK_WITHIN_S:g} s")
                return
            await asyncio.sleep(LOOK_AGAIN_S)

    async def web_ready(self, name: str) -> None:
        """Return when a web process takes connections."""

        async def answers() -> bool:
            return name in await self.web.answering()

        await self.back(name, answers)

    async def whole(self) -> None:
        """Return when all that callers need is there."""
        await asyncio.gather(
            *(self.worker_ready(name) for name in self.processes.workers),
            *(self.web_ready(name) for name in self.processes.ports),
        )


def _node_of(record: CallRecord) -> str:
    return (record.assigned_worker or "").partition("/")[0]


@dataclass
class Note:
    """What is written down of one strike. `began`: of the run, monotonic, s."""

    kind: str
    began: float
    victims: list[str] = field(default_factory=list)
    call_sid: str | None = None
    loses_writes: bool = False
    details: str = ""
    """For people, behind the sentence that every strike of the kind has."""
    _at_s: float | None = None
    _at_ms: int = 0
    _until_s: float | None = None

    def strike(self, *victims: str) -> None:
        """Call it just before the signal. Later calls add victims."""
        if self._at_s is None:
            self._at_s = time.monotonic() - self.began
            # The servers are on this machine: their clock is this one.
            self._at_ms = round(time.time() * 1000)
        self.victims += victims

    def over(self) -> None:
        """The harm is undone. Where nobody says so, that is when the strike has returned."""
        if self._until_s is None:
            self._until_s = time.monotonic() - self.began

    def written(self) -> Strike | None:
        """For the judge; None when it found nothing to strike."""
        if self._at_s is None:
            return None
        sentence = KINDS[self.kind].sentence
        return Strike(
            kind=self.kind,
            name=f"{sentence} ({self.details})" if self.details else sentence,
            victims=tuple(self.victims),
            at_s=self._at_s,
            until_s=self._at_s if self._until_s is None else self._until_s,
            at_ms=self._at_ms,
            call_sid=self.call_sid,
            loses_writes=self.loses_writes,
        )
