"""Kills, or freezes, a worker in the middle of a turn, and starts a replacement."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections.abc import Callable
from dataclasses import dataclass, field

from callflow.call.record import CallRecord
from callflow.call.state import LEASED
from callflow.lab.demo.plan import Kill
from callflow.lab.demo.web import WebProcesses
from callflow.lab.stack import LocalStack, StackProcess
from callflow.store.leases import Leases
from callflow.store.reader import CallReader

SPARE_AFTER_ATTEMPTS = 2
"""Calls whose turn has been hit so often are spared: three in a row are what `poison` tests are
for, and would end at a human."""

LOOK_AGAIN_S = 0.02


@dataclass(frozen=True, slots=True)
class Strike:
    """One kill. `at_ms`: server clock just before the signal."""

    kill: Kill
    victim: str
    """The Celery node (`w1@host`), or for a child its whole name (`w1@host/pid-nonce`)."""
    at_ms: int

    def hit(self, worker: str | None) -> bool:
        """True when a process of this name was among the victims."""
        if worker is None:
            return False
        return worker == self.victim or worker.startswith(f"{self.victim}/")


@dataclass
class Striker:
    """Strikes every `every_s` seconds, but never the last worker that is ready."""

    stack: LocalStack
    snapshots: CallReader
    leases: Leases
    kill: Kill
    every_s: float
    slots: int
    stale_s: float
    random: random.Random
    on_strike: Callable[[Strike], None]
    web: WebProcesses
    strikes: list[Strike] = field(default_factory=list)
    _thaws: set[asyncio.Task[None]] = field(default_factory=set)

    async def run(self) -> None:
        """Strike until cancelled; then see to it that nobody stays frozen."""
        try:
            while self.kill is not Kill.NONE:
                await asyncio.sleep(self.every_s)
                if self.kill is Kill.WEB:
                    await self._strike_web()
                else:
                    self._strike(await self._next_victim())
        finally:
            for thaw in self._thaws:
                thaw.cancel()
            for process in self.stack.processes.values():
                if process.frozen:
                    process.thaw()

    async def _strike_web(self) -> None:
        """Kill one that answers calls, while another one answers too: no load balancer helps a
        caller when there is none."""
        while len(answering := await self.web.answering()) < 2:  # noqa: ASYNC110
            await asyncio.sleep(LOOK_AGAIN_S)
        name = self.random.choice(answering)
        strike = Strike(self.kill, name, await asyncio.to_thread(self.snapshots.now_ms))
        await asyncio.to_thread(self.web.replace, name)
        self.strikes.append(strike)
        self.on_strike(strike)

    async def _next_victim(self) -> CallRecord:
        """The first call that may be struck: the workers are other processes, so we must ask."""
        while (victim := await asyncio.to_thread(self._victim)) is None:  # noqa: ASYNC110
            await asyncio.sleep(LOOK_AGAIN_S)
        return victim

    async def settled(self) -> None:
        """Return when every frozen worker has been let go again."""
        while self._thaws:
            await asyncio.gather(*self._thaws)

    def _victim(self) -> CallRecord | None:
        """A call that is being answered by a worker which may be struck now."""
        active = self.snapshots.active()
        ready = {name.partition("@")[0] for name in self.leases.present_now()}
        standing = {
            name
            for name, process in self.stack.processes.items()
            if name in ready and process.alive and not process.frozen
        }
        if self.kill is not Kill.CHILD and len(standing) < 2:
            return None
        spared = {
            record.assigned_worker.partition("@")[0]
            for record in active
            if record.assigned_worker and record.attempts >= SPARE_AFTER_ATTEMPTS
        }
        choice = [
            record
            for record in active
            if record.call_state in LEASED
            and record.assigned_worker
            and record.assigned_worker.partition("@")[0] in standing - spared
        ]
        return self.random.choice(choice) if choice else None

    def _strike(self, record: CallRecord) -> None:
        worker = record.assigned_worker or ""
        node, _, rest = worker.partition("/")
        process = self.stack.processes[node.partition("@")[0]]
        victim = worker if self.kill is Kill.CHILD else node
        strike = Strike(self.kill, victim, self.snapshots.now_ms())
        match self.kill:
            case Kill.CHILD:
                _kill_child(int(rest.partition("-")[0]))
            case Kill.WORKER:
                process.kill()
                self.stack.start_worker(process.name, slots=self.slots)
            case _:
                process.freeze()
                self._thaws.add(asyncio.create_task(self._thaw_later(process)))
        self.strikes.append(strike)
        self.on_strike(strike)

    async def _thaw_later(self, process: StackProcess) -> None:
        await asyncio.sleep(self.stale_s + 1.5)
        process.thaw()
        self._thaws.discard(asyncio.current_task())


def _kill_child(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        """It ended between being looked up and being struck; its parent has replaced it."""
