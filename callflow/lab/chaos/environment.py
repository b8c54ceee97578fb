"""Runs the processes that callers need, and sees how they are: of the demo as of a run of chaos.

`Processes` starts them again, as an orchestrator does, and notices what falls without having been
struck. `Environment` reads the records past whatever stands in front of the servers, and waits
until processes are ready.
"""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from random import Random
from typing import Final

from callflow.call.record import CallRecord
from callflow.call.state import LEASED
from callflow.errors import CallflowError
from callflow.lab.chaos.chaos_plan import DemoPlan, Plan
from callflow.lab.chaos.chaos_servers import Servers
from callflow.lab.chaos.simulated_callers import CallGenerator
from callflow.lab.stack import LocalStack, StackProcess, free_port
from callflow.redis.client import Client
from callflow.redis.scripts import Scripts
from callflow.settings import Settings
from callflow.store.leases import Leases
from callflow.store.reader import CallReader

LOOK_EVERY_S: Final = 0.2
LOOK_AGAIN_S: Final = 0.02

WATCHDOG: Final = "watchdog"

WEB_PROCESSES: Final = 2
"""One may be killed while the other answers."""

SPARED_FROM: Final = 2
"""A call whose turn has been hit so often is spared: three in a row are the business of `poison`,
and end at a human."""

VICTIM_WITHIN_S: Final = 4.0
"""In a pause of all callers a worker that does nothing is as good a victim as any."""

BACK_WITHIN_S: Final = 20.0
"""What a process may take to be of use again; it takes three on an idle laptop."""

_LAST_LINES: Final = 12
_BANNER: Final = re.compile(r" *[-*.]")


class RunFailed(CallflowError):
    """The run itself could not do its work: it says nothing about callflow."""


@dataclass(frozen=True, slots=True)
class PhoneSetup:
    """The account, the secrets and the ports of one run's telephone."""

    public_url: str
    account_sid: str
    auth_token: str
    api_port: int
    ports: dict[str, int]

    @classmethod
    def create(cls) -> PhoneSetup:
        return cls(
            "https://demo.callflow.example",
            f"AC{secrets.token_hex(16)}",
            secrets.token_hex(16),
            free_port(),
            {f"web{number}": free_port() for number in range(1, WEB_PROCESSES + 1)},
        )

    @property
    def env(self) -> dict[str, str]:
        return {
            "CALLFLOW_PUBLIC_URL": self.public_url,
            "CALLFLOW_TWILIO_ACCOUNT_SID": self.account_sid,
            "CALLFLOW_TWILIO_AUTH_TOKEN": self.auth_token,
            "CALLFLOW_TWILIO_API_URL": f"http://127.0.0.1:{self.api_port}",
            "CALLFLOW_SITES": str(resources.files("callflow.lab.chaos") / "demo_sites.yaml"),
        }


@dataclass(frozen=True, slots=True)
class WebProcesses:
    """The web processes of a stack: their ports by name."""

    stack: LocalStack
    ports: Mapping[str, int]

    @property
    def addresses(self) -> tuple[str, ...]:
        """Where the carrier's load balancer finds them."""
        return tuple(f"http://127.0.0.1:{port}" for port in self.ports.values())

    async def answering(self) -> list[str]:
        """The names of those that take connections now."""
        return [name for name, port in self.ports.items() if await _listens(port)]

    async def all_answer(self) -> bool:
        return len(await self.answering()) == len(self.ports)

    def replace(self, name: str) -> None:
        """Kill one, and start another in its place."""
        self.stack.processes[name].kill()
        self.stack.start_web(self.ports[name], name)


@dataclass
class Processes:
    """The processes of a stack by name: `w1` and so on, `watchdog`, `beat1`, `web1`.

    `redis_urls`: where the calls are, for workers that have a way of their own; `clocks`: where the
    clocks of processes are set, see `clock/sitecustomize.py`. Use it from one thread.
    """

    stack: LocalStack
    plan: Plan | DemoPlan
    ports: Mapping[str, int]
    redis_urls: Mapping[str, str] = field(default_factory=dict)
    clocks: Path = Path()
    fallen: list[str] = field(default_factory=list)
    """What ended, or never came back, although nobody had struck it, with the end of its log."""
    _struck: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.workers = self.plan.worker_names
        self.names = [*self.workers, WATCHDOG, *self.plan.beat_names, *self.ports]

    def __getitem__(self, name: str) -> StackProcess:
        return self.stack.processes[name]

    def start(self, name: str) -> StackProcess:
        if name in self.workers:
            shared = self.stack.env
            if name in self.redis_urls:
                self.stack.env = {**shared, "CALLFLOW_REDIS_URL": self.redis_urls[name]}
            try:
                return self.stack.start_worker(name, slots=self.plan.slots)
            finally:
                self.stack.env = shared
        if name == WATCHDOG:
            return self.stack.start_watchdog(name)
        if name in self.ports:
            return self.stack.start_web(self.ports[name], name)
        return self.stack.start_beat(name)

    @contextmanager
    def struck(self, *names: str) -> Iterator[None]:
        """Within this block these end because they were struck, and whoever struck them starts
        them again."""
        self._struck.update(names)
        yield
        self._struck.difference_update(names)

    def set_clock(self, name: str, ahead_s: float) -> None:
        """Let the wall clock of a process and its children jump."""
        (self.clocks / str(self[name].pid)).write_text(f"{ahead_s}")

    async def watch(self) -> None:
        """Until cancelled: notice what falls, and start it again."""
        while True:
            for name in self.names:
                if name not in self._struck and not self[name].alive:
                    code = self[name].popen.returncode
                    self.fallen.append(f"{name} ended by itself ({code}): {self.log_end(name)}")
                    self.start(name)
            await asyncio.sleep(LOOK_EVERY_S)

    def give_up(self, name: str, why: str) -> None:
        """It is alive and of no use: that counts as fallen. Start another in its place."""
        self.fallen.append(f"{name} {why}: {self.log_end(name)}")
        self[name].kill()
        self.start(name)

    def log_end(self, name: str) -> str:
        """The end of its log, without the banner with which a worker begins."""
        lines = self[name].last_lines(_LAST_LINES).splitlines()
        left = [line for line in lines if line.strip() and not _BANNER.match(line)]
        return "\n".join(left) or "it said nothing"


@dataclass
class Environment:
    """A run in progress. `client`: the run's own way to the calls, which a failover changes."""

    plan: Plan | DemoPlan
    settings: Settings
    processes: Processes
    web: WebProcesses
    client: Callable[[], Client]

    async def wait_until_ready(self, within_s: float) -> None:
        """Return when every process is there. Raises RunFailed, with the logs of the dead."""
        deadline = time.monotonic() + within_s
        while not await self._all_ready():
            dead = [name for name in self.processes.names if not self.processes[name].alive]
            if dead or time.monotonic() > deadline:
                logs = "\n".join(f"{name}: {self.processes.log_end(name)}" for name in dead)
                raise RunFailed(f"the processes did not come up within {within_s:g} s\n{logs}")
            await asyncio.sleep(0.1)

    async def _all_ready(self) -> bool:
        ready = await asyncio.to_thread(self.ready_slots)
        if any(ready[node(name)] < self.plan.slots for name in self.processes.workers):
            return False
        return await self.watchdog_sweeps() and await self.web.all_answer()

    def ready_slots(self) -> Counter[str]:
        """How many pool processes of each node are ready to run turns. Waits for Redis."""
        return Counter(name.partition("/")[0] for name in self._leases().present_now())

    async def watchdog_sweeps(self) -> bool:
        """True when it was the watchdog's worker that swept last."""
        swept = await asyncio.to_thread(lambda: self._leases().last_sweep())
        return swept is not None and swept[0].startswith(node(WATCHDOG))

    def standing_workers(self) -> set[str]:
        """The nodes that are ready to run turns. Waits for Redis."""
        slots, processes = self.ready_slots(), self.processes
        return {
            node(name)
            for name in processes.workers
            if slots[node(name)] and processes[name].alive and not processes[name].frozen
        }

    def victims(self) -> list[CallRecord]:
        """The calls that ready workers are at work on, without those whose worker has a call that
        was hit too often. Waits for Redis."""
        ready = self.standing_workers()
        held = [one for one in CallReader(self.client()).active() if one.call_state in LEASED]
        spared = {node_of(one) for one in held if one.attempts >= SPARED_FROM}
        found = [one for one in held if node_of(one) in ready - spared]
        return sorted(found, key=lambda one: one.call_sid)

    def _leases(self) -> Leases:
        return Leases(Scripts(self.client()), self.settings.timing)


@dataclass
class ChaosEnvironment(Environment):
    """The same with all that strikes of chaos reach."""

    plan: Plan
    servers: Servers
    generator: CallGenerator

    async def find_victim(self, dice: Random) -> CallRecord | None:
        """A call that a ready worker is at work on; None when there is none for a while."""
        deadline = time.monotonic() + VICTIM_WITHIN_S
        while time.monotonic() < deadline:
            if found := await asyncio.to_thread(self.victims):
                return dice.choice(found)
            await asyncio.sleep(LOOK_AGAIN_S)
        return None

    async def find_worker(self, dice: Random) -> str:
        """The name of a worker that may be struck, in the middle of turns if there are any."""
        record = await self.find_victim(dice)
        if record is None:
            return dice.choice(self.processes.workers)
        return node_of(record).partition("@")[0]

    async def wait_for(self, name: str) -> None:
        """Return when a process is of use. One that is not in time has fallen."""
        deadline = time.monotonic() + BACK_WITHIN_S
        while not await self._is_of_use(name):
            if time.monotonic() > deadline:
                self.processes.give_up(name, f"was of no use for {BACK_WITHIN_S:g} s")
                return
            await asyncio.sleep(LOOK_AGAIN_S)

    async def _is_of_use(self, name: str) -> bool:
        if name in self.processes.ports:
            return name in await self.web.answering()
        if name == WATCHDOG:
            return await self.watchdog_sweeps()
        return (await asyncio.to_thread(self.ready_slots))[node(name)] >= self.plan.slots

    async def wait_for_all(self) -> None:
        """Return when all that callers need is there."""
        names = [*self.processes.workers, *self.processes.ports]
        await asyncio.gather(*map(self.wait_for, names))


def node(name: str) -> str:
    return f"{name}@{socket.gethostname()}"


def node_of(record: CallRecord) -> str:
    return (record.assigned_worker or "").partition("/")[0]


def clock_env(clocks: Path) -> dict[str, str]:
    """What processes need in their environment so that their clocks can be set."""
    folder = str(resources.files("callflow.lab.chaos") / "clock")
    path = os.environ.get("PYTHONPATH")
    return {
        "CHAOS_CLOCKS": str(clocks),
        "PYTHONPATH": folder if not path else f"{folder}{os.pathsep}{path}",
    }


async def _listens(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    await writer.wait_closed()
    return True
