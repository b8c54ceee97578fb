"""One run from start to end: servers, processes, callers, strikes, and what they can tell."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any, Final

from callflow.errors import CallflowError
from callflow.lab.carrier.background import cancelled
from callflow.lab.carrier.carrier import Carrier
from callflow.lab.carrier.human import HumanBehaviour
from callflow.lab.chaos import servers as chaos_servers
from callflow.lab.chaos.callers import Crowd
from callflow.lab.chaos.plan import Plan
from callflow.lab.chaos.processes import WATCHDOG, Processes, clock_env, node
from callflow.lab.chaos.scene import Eyes, Scene
from callflow.lab.chaos.servers import Servers
from callflow.lab.chaos.strikes import Striker
from callflow.lab.chaos.witness import Conditions, Strike, Testimony
from callflow.lab.demo.run import LETTERS_PER_S
from callflow.lab.demo.web import Line, WebProcesses
from callflow.lab.leaks import keys_without_lifetime
from callflow.lab.stack import LocalStack
from callflow.settings import Settings, load
from callflow.store.reader import CallReader
from callflow.twilio.rest import wanted_settings

READY_S: Final = 60.0
LAST_CALLS_S: Final = 120.0
"""For the calls that are going on when the time is over; then they are hung up."""

ENDED_S: Final = 15.0
"""For the record of every call to be complete once its caller has gone."""

LINE_CHECK_S: Final = 5.0
"""A failover may take the end of a call with it: found well before that."""

TICK_S: Final = 0.25

STALL_S: Final = 0.5
"""The callers share one event loop: when it stood still for so long, a silence that they felt may
have been ours."""

BUSY_SHARE: Final = 0.5
"""Of the time in which some process waits for a processor; above it the machine tells so."""

_PRESSURE: Final = Path("/proc/pressure/cpu")

_HUMAN: Final = HumanBehaviour(after_s=0.5, talks_s=2.0)


class ChaosFailed(CallflowError):
    """The machine itself could not do its work: it says nothing about callflow."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a run stands."""

    at_s: float
    calls: int
    answered: int
    strikes: int


@dataclass(slots=True)
class Watcher:
    """Where a run tells what it sees."""

    on_event: Callable[[str], None] = field(default=lambda _: None)
    on_progress: Callable[[Progress], None] = field(default=lambda _: None)


@dataclass
class Machine:
    """A plan being carried out on a stack that is there already."""

    plan: Plan
    settings: Settings
    servers: Servers
    processes: Processes
    line: Line
    watcher: Watcher

    async def run(self) -> Testimony:
        """Let callers call while the striker strikes; everything that can be told about it."""
        eyes = Eyes(self.servers, self.settings)
        web = WebProcesses(self.processes.stack, dict(self.line.ports))
        await self._ready(eyes, web)
        began_at, began = time.time(), time.monotonic()
        waited_s = _waited_for_cpu_s()
        until = began + self.plan.seconds
        async with self._carrier(web) as carrier:
            crowd = Crowd(self.plan, carrier)
            scene = Scene(self.plan, self.servers, self.processes, web, crowd, eyes)
            striker = Striker(scene, began, self._told)
            beside = [
                asyncio.create_task(work)
                for work in (
                    self.processes.watch(),
                    self._feel_stalls(),
                    self._tell(crowd, striker, began),
                )
            ]
            try:
                await _together(striker.run(until), self._calls(crowd, until), beside)
                await carrier.settle()
            finally:
                await cancelled(*beside)
        self._tell_if_busy((_waited_for_cpu_s() - waited_s) / (time.monotonic() - began))
        return await asyncio.to_thread(self._testimony, crowd, striker, began_at)

    async def _calls(self, crowd: Crowd, until: float) -> None:
        late_s = until + LAST_CALLS_S - time.monotonic()
        try:
            async with asyncio.timeout(late_s):
                await crowd.keep_calling(until)
        except TimeoutError:
            self.watcher.on_event(f"{crowd.going} calls would not end: they are hung up")

    def _carrier(self, web: WebProcesses) -> Carrier:
        line, number = self.line, wanted_settings(self.line.public_url)
        return Carrier(
            web.addresses,
            line.public_url,
            line.account_sid,
            line.auth_token,
            api_port=line.api_port,
            speed=self.plan.speed,
            seed=self.plan.seed,
            human=_HUMAN,
            voice_url=number.voice_url,
            status_url=number.status_callback,
            fallback=number.voice_fallback_url,
        )

    async def _ready(self, eyes: Eyes, web: WebProcesses) -> None:
        """Wait until every process is there."""
        deadline = time.monotonic() + READY_S
        while not await self._all_there(eyes, web):
            dead = [name for name in self.processes.names if not self.processes[name].alive]
            if dead or time.monotonic() > deadline:
                words = "\n".join(f"{name}: {self.processes.words(name)}" for name in dead)
                raise ChaosFailed(f"the processes did not come up within {READY_S:g} s\n{words}")
            await asyncio.sleep(0.1)

    async def _all_there(self, eyes: Eyes, web: WebProcesses) -> bool:
        for name in self.processes.workers:
            if await asyncio.to_thread(eyes.present, name) < self.plan.slots:
                return False
        sweeper = await asyncio.to_thread(eyes.sweeper) or ""
        return sweeper.startswith(node(WATCHDOG)) and await web.all_answer()

    def _told(self, strike: Strike) -> None:
        where = ", ".join(strike.victims)
        self.watcher.on_event(f"{strike.at_s:6.1f} s  {strike.kind}: {strike.name} [{where}]")

    async def _tell(self, crowd: Crowd, striker: Striker, began: float) -> None:
        fallen = 0
        while True:
            for words in self.processes.fallen[fallen:]:
                self.watcher.on_event(f"{time.monotonic() - began:6.1f} s  FALLEN: {words}")
                fallen += 1
            self.watcher.on_progress(
                Progress(
                    time.monotonic() - began, crowd.going, crowd.answered, len(striker.strikes)
                )
            )
            await asyncio.sleep(TICK_S)

    def _tell_if_busy(self, share: float) -> None:
        if share > BUSY_SHARE:
            self.watcher.on_event(
                f"for {share:.0%} of the time processes waited for a processor of this machine: "
                "a silence, or a late takeover, may be its doing"
            )

    async def _feel_stalls(self) -> None:
        while True:
            before = time.monotonic()
            await asyncio.sleep(0.02)
            stall_s = time.monotonic() - before - 0.02
            if stall_s > STALL_S:
                self.watcher.on_event(f"the machine itself stood still for {stall_s:.2f} s")

    def _testimony(self, crowd: Crowd, striker: Striker, began_at: float) -> Testimony:
        client = self.servers.client
        deadline = time.monotonic() + ENDED_S
        while CallReader(client).counts()["active"] and time.monotonic() < deadline:
            time.sleep(0.1)
        callers = crowd.witnesses()
        journals = CallReader(client).journals([one.call_sid for one in callers])
        return Testimony(
            conditions=Conditions(
                seed=self.plan.seed,
                seconds=self.plan.seconds,
                command=self.plan.command,
                min_replicas=self.plan.min_replicas,
                kinds=self.plan.strikes,
                speed=self.plan.speed,
                letters_per_s=LETTERS_PER_S,
                reply_wait_s=self.settings.reply_wait_s,
                stale_after_s=self.settings.stale_after_s,
                turn_deadline_s=self.settings.turn_deadline_s,
                sweep_interval_s=self.settings.sweep_interval_s,
            ),
            began_at=began_at,
            callers=callers,
            strikes=tuple(striker.strikes),
            leaked=tuple(keys_without_lifetime(client)),
            fallen=tuple(self.processes.fallen),
            journals={sid: tuple(entries) for sid, entries in journals.items()},
        )


def _waited_for_cpu_s() -> float:
    """For how long, since this machine started, some process has waited for a processor, as Linux
    tells; 0 where nobody tells."""
    if not _PRESSURE.exists():
        return 0.0
    some = _PRESSURE.read_text(encoding="ascii").splitlines()[0]
    return int(some.rpartition("total=")[2]) / 1e6


async def _together(
    striking: Coroutine[Any, Any, None],
    calling: Coroutine[Any, Any, None],
    beside: list[asyncio.Task[None]],
) -> None:
    """Return when both have ended; raise as soon as any of them, or of those beside, fails."""
    both = {asyncio.create_task(striking), asyncio.create_task(calling)}
    try:
        while both:
            done, _ = await asyncio.wait({*both, *beside}, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
            both -= done
    finally:
        await cancelled(*both)


def _env(plan: Plan, servers: Servers, line: Line, clocks: Path) -> dict[str, str]:
    env = {
        "CALLFLOW_REDIS_URL": servers.calls_url,
        "CALLFLOW_BROKER_URL": servers.broker_url,
        "CALLFLOW_RECORDS_URL": "",  # What callers heard is judged by the working records.
        "CALLFLOW_RESPONDER": "counted",
        "CALLFLOW_PACE_S": str(plan.pace_s),
        "CALLFLOW_RETRIEVAL": "lexical",
        "CALLFLOW_STALE_AFTER_S": str(plan.stale_after_s),
        "CALLFLOW_LINE_CHECK_S": str(LINE_CHECK_S),
        "CALLFLOW_SPEECH_LETTERS_PER_S": str(LETTERS_PER_S * plan.speed),
        **line.env,
        "CALLFLOW_SITES": str(resources.files("callflow.lab.chaos") / "sites.yaml"),
    }
    if plan.min_replicas:
        env["CALLFLOW_MIN_REPLICAS"] = str(plan.min_replicas)
    return env | clock_env(clocks)


@contextmanager
def machine(plan: Plan, watcher: Watcher) -> Iterator[Machine]:
    """Start everything that `plan` needs; nothing of it is left behind the block."""
    line = Line.of_its_own()
    with chaos_servers.running(plan.worker_names) as servers:
        clocks = servers.scratch / "clocks"
        clocks.mkdir()
        env = _env(plan, servers, line, clocks)
        with LocalStack(env, plan.logs or servers.scratch / "logs") as stack:
            ways = {name: servers.calls_url_of(name) for name in plan.worker_names}
            processes = Processes(stack, plan, line.ports, ways, clocks)
            for name in processes.names:
                processes.start(name)
            settings = load({**os.environ, **env})
            yield Machine(plan, settings, servers, processes, line, watcher)


def run(plan: Plan, watcher: Watcher) -> Testimony:
    """Carry out `plan`, and return what was seen and heard of it.

    Raises CallflowError where the machine could not do its work.
    """
    with machine(plan, watcher) as built:
        return asyncio.run(built.run())
