"""The striker: carries out a plan's strikes one after another, within the fault model of `plan`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Final

from callflow.lab.chaos import on_processes, on_servers
from callflow.lab.chaos.plan import KINDS, SERVERS, Planned, strikes
from callflow.lab.chaos.scene import Note, Scene
from callflow.lab.chaos.witness import Strike

Act = Callable[[Scene, Note, Random], Awaitable[None]]
"""Carries out one strike, and returns when what it struck is of use again."""

ACTS: Final[Mapping[str, Act]] = {
    "worker-kill": on_processes.kill_worker,
    "worker-freeze": on_processes.freeze_worker,
    "worker-cut": on_processes.cut_worker,
    "worker-term": on_processes.term_worker,
    "child-kill": on_processes.kill_child,
    "clock-step": on_processes.step_clock,
    "poison": on_processes.poison,
    "web-kill": on_processes.kill_web,
    "web-term": on_processes.term_web,
    "beat-kill": on_processes.kill_beats,
    "watchdog-kill": on_processes.kill_watchdog,
    "server-kill": on_servers.kill_server,
    "server-freeze": on_servers.freeze_server,
    "server-restarts": on_servers.restart_server,
    "client-kill": on_servers.kill_clients,
    "failover": on_servers.fail_over,
    "failover-lossy": on_servers.fail_over_lossy,
    "demote": on_servers.demote,
    "disk-full": on_servers.fill_disk,
    "slow-net": on_servers.slow_down,
    "drop-replies": on_servers.drop_replies,
    "reset-net": on_servers.reset_net,
    "mute-net": on_servers.mute_net,
    "broker-empty": on_servers.empty_broker,
    "broker-kill": on_servers.kill_broker,
    "broker-freeze": on_servers.freeze_broker,
}
"""What each kind of `plan.KINDS` does."""


@dataclass
class Striker:
    """Strikes until the time is over, and then waits for what is still being undone.

    `began`: of the run, monotonic, s. `tell`: hears of every strike, when it is over.
    """

    scene: Scene
    began: float
    tell: Callable[[Strike], None]
    strikes: list[Strike] = field(default_factory=list)
    _going: dict[str, asyncio.Task[None]] = field(default_factory=dict)

    async def run(self, until: float) -> None:
        """Strike until then (monotonic, s)."""
        try:
            for planned in strikes(self.scene.plan):
                await asyncio.sleep(planned.pause_s)
                await self._room_for(KINDS[planned.kind].at)
                if time.monotonic() >= until:
                    break
                self._going[KINDS[planned.kind].at] = asyncio.create_task(self._strike(planned))
            await self._over(list(self._going))
        finally:
            for task in self._going.values():
                task.cancel()

    async def _room_for(self, at: str) -> None:
        """Wait for what must not be struck at the same time as something at `at`."""
        await self._over(list(self._going) if at == SERVERS else [at, SERVERS])

    async def _over(self, groups: list[str]) -> None:
        for group in groups:
            if (task := self._going.pop(group, None)) is not None:
                await task

    async def _strike(self, planned: Planned) -> None:
        note = Note(planned.kind, self.began)
        await ACTS[planned.kind](self.scene, note, planned.dice())
        note.over()
        if (strike := note.written()) is not None:
            self.strikes.append(strike)
            self.tell(strike)
        if KINDS[planned.kind].at == SERVERS:
            await self.scene.whole()
