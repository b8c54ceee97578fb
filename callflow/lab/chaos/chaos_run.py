"""Carries out a run of chaos: servers, processes, callers, strikes, and the evidence of them."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Final

from callflow.lab.carrier.background_tasks import cancelled
from callflow.lab.carrier.carrier import Carrier
from callflow.lab.carrier.phone_account import PhoneAccount
from callflow.lab.carrier.simulated_people import HumanBehaviour
from callflow.lab.chaos.chaos_plan import DemoPlan, Plan
from callflow.lab.chaos.chaos_servers import Servers, running_servers
from callflow.lab.chaos.environment import (
    ChaosEnvironment,
    PhoneSetup,
    Processes,
    WebProcesses,
    clock_env,
)
from callflow.lab.chaos.run_evidence import RunConditions, RunEvidence, Strike
from callflow.lab.chaos.simulated_callers import CallGenerator
from callflow.lab.chaos.strikes import Striker
from callflow.lab.embedded_server import keys_without_lifetime
from callflow.lab.stack import LocalStack
from callflow.settings import Settings, load
from callflow.store.reader import CallReader

LETTERS_PER_S: Final = 15.0
"""How fast the simulated voices speak at speed 1."""

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
"""Of the time in which some process waits for a processor; above it the run tells so."""

_PRESSURE: Final = Path("/proc/pressure/cpu")


@dataclass(frozen=True, slots=True)
class RunProgress:
    at_s: float
    calls: int
    answered: int
    strikes: int


@dataclass(slots=True)
class RunWatcher:
    """Where a run tells what it sees."""

    on_event: Callable[[str], None] = field(default=lambda _: None)
    on_progress: Callable[[RunProgress], None] = field(default=lambda _: None)


def run(plan: Plan, watcher: RunWatcher) -> RunEvidence:
    """Carry out `plan`; what was seen and heard of it. Raises CallflowError where the run could
    not do its work."""
    with started(plan, watcher) as chaos_run:
        return asyncio.run(chaos_run.run())


@contextmanager
def started(plan: Plan, watcher: RunWatcher) -> Iterator[ChaosRun]:
    """Start everything that `plan` needs; nothing of it is left behind the block."""
    line = PhoneSetup.create()
    with running_servers(plan.worker_names) as servers:
        clocks = servers.scratch / "clocks"
        clocks.mkdir()
        env = _env(plan, servers, line) | clock_env(clocks)
        with LocalStack(env, plan.logs or servers.scratch / "logs") as stack:
            ways = {name: servers.url_of(name) for name in plan.worker_names}
            processes = Processes(stack, plan, line.ports, ways, clocks)
            for name in processes.names:
                processes.start(name)
            yield ChaosRun(plan, load({**os.environ, **env}), servers, processes, line, watcher)


@dataclass
class ChaosRun:
    """A plan being carried out on a stack that is there already."""

    plan: Plan
    settings: Settings
    servers: Servers
    processes: Processes
    line: PhoneSetup
    watcher: RunWatcher

    async def run(self) -> RunEvidence:
        """Let callers call while the striker strikes; everything that can be told about it."""
        web = WebProcesses(self.processes.stack, self.line.ports)
        human = HumanBehaviour(after_s=0.5, talks_s=2.0)
        async with carrier_for(self.plan, self.line, web, human) as carrier:
            generator = CallGenerator(self.plan, carrier)
            environment = ChaosEnvironment(
                plan=self.plan,
                settings=self.settings,
                processes=self.processes,
                web=web,
                client=lambda: self.servers.client,
                servers=self.servers,
                generator=generator,
            )
            await environment.wait_until_ready(READY_S)
            began_at, began = time.time(), time.monotonic()
            waited_s = _waited_for_cpu_s()
            striker = Striker(environment, began, self._tell_strike)

            async def strike_and_call() -> None:
                until = began + self.plan.seconds
                await run_until_done([striker.run(until), self._calls(generator, until)])
                await carrier.settle()

            beside = [self.processes.watch(), self._feel_stalls(), self._tell(generator, striker)]
            await run_until_done([strike_and_call()], beside)
        self._tell_if_busy((_waited_for_cpu_s() - waited_s) / (time.monotonic() - began))
        return await asyncio.to_thread(self._evidence, generator, striker, began_at)

    async def _calls(self, generator: CallGenerator, until: float) -> None:
        try:
            async with asyncio.timeout(until + LAST_CALLS_S - time.monotonic()):
                await generator.keep_calling(until)
        except TimeoutError:
            self.watcher.on_event(f"{generator.going} calls would not end: they are hung up")

    def _tell_strike(self, strike: Strike) -> None:
        where = ", ".join(strike.victims)
        self.watcher.on_event(f"{strike.at_s:6.1f} s  {strike.kind}: {strike.name} [{where}]")

    async def _tell(self, generator: CallGenerator, striker: Striker) -> None:
        told = 0
        while True:
            at_s = time.monotonic() - striker.began
            for log in self.processes.fallen[told:]:
                self.watcher.on_event(f"{at_s:6.1f} s  FALLEN: {log}")
                told += 1
            self.watcher.on_progress(
                RunProgress(at_s, generator.going, generator.answered, len(striker.strikes))
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

    def _evidence(self, generator: CallGenerator, striker: Striker, began_at: float) -> RunEvidence:
        client = self.servers.client
        deadline = time.monotonic() + ENDED_S
        while CallReader(client).counts()["active"] and time.monotonic() < deadline:
            time.sleep(0.1)
        callers = generator.evidence()
        journals = CallReader(client).journals([one.call_sid for one in callers])
        plan = self.plan
        conditions = run_conditions(
            plan, self.settings, plan.seconds, plan.command, plan.strikes, plan.min_replicas
        )
        return RunEvidence(
            conditions=conditions,
            began_at=began_at,
            callers=callers,
            strikes=tuple(striker.strikes),
            leaked=tuple(keys_without_lifetime(client)),
            fallen=tuple(self.processes.fallen),
            journals={sid: tuple(entries) for sid, entries in journals.items()},
        )


def run_conditions(
    plan: Plan | DemoPlan,
    settings: Settings,
    seconds: float,
    command: str = "",
    kinds: tuple[str, ...] = (),
    min_replicas: int = 0,
) -> RunConditions:
    """What the judge must know of a run."""
    return RunConditions(
        seed=plan.seed,
        seconds=seconds,
        command=command,
        min_replicas=min_replicas,
        kinds=kinds,
        speed=plan.speed,
        letters_per_s=LETTERS_PER_S,
        reply_wait_s=settings.reply_wait_s,
        stale_after_s=settings.stale_after_s,
        turn_deadline_s=settings.turn_deadline_s,
        sweep_interval_s=settings.sweep_interval_s,
    )


def carrier_for(
    plan: Plan | DemoPlan, line: PhoneSetup, web: WebProcesses, human: HumanBehaviour
) -> Carrier:
    account = PhoneAccount(
        line.public_url, web.addresses, line.account_sid, line.auth_token, line.api_port
    )
    return Carrier.for_account(account, speed=plan.speed, seed=plan.seed, human=human)


async def run_until_done(
    work: Iterable[Awaitable[None]], beside: Iterable[Awaitable[None]] = ()
) -> None:
    """Return when all of `work` has ended, and end what goes on beside it; raise as soon as any of
    them fails."""
    needed = {asyncio.ensure_future(one) for one in work}
    running = needed | {asyncio.ensure_future(one) for one in beside}
    tasks = set(running)
    try:
        while needed & running:
            done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
    finally:
        await cancelled(*tasks)


def _waited_for_cpu_s() -> float:
    """For how long, since this machine started, some process has waited for a processor, as Linux
    tells; 0 where nobody tells."""
    if not _PRESSURE.exists():
        return 0.0
    some = _PRESSURE.read_text(encoding="ascii").splitlines()[0]
    return int(some.rpartition("total=")[2]) / 1e6


def stack_env(plan: Plan | DemoPlan, line: PhoneSetup) -> dict[str, str]:
    """The settings that the stacks of all runs share."""
    return {
        "CALLFLOW_RECORDS_URL": "",  # A rehearsal is no record: working records are judged.
        "CALLFLOW_PACE_S": str(plan.pace_s),
        "CALLFLOW_RETRIEVAL": "lexical",
        "CALLFLOW_SPEECH_LETTERS_PER_S": str(LETTERS_PER_S * plan.speed),
        **line.env,
    }


def _env(plan: Plan, servers: Servers, line: PhoneSetup) -> dict[str, str]:
    env = stack_env(plan, line) | {
        "CALLFLOW_REDIS_URL": servers.url,
        "CALLFLOW_BROKER_URL": servers.broker_url,
        "CALLFLOW_RESPONDER": "counted",
        "CALLFLOW_STALE_AFTER_S": str(plan.stale_after_s),
        "CALLFLOW_LINE_CHECK_S": str(LINE_CHECK_S),
        "CALLFLOW_SITES": str(resources.files("callflow.lab.chaos") / "sites.yaml"),
    }
    if plan.min_replicas:
        env["CALLFLOW_MIN_REPLICAS"] = str(plan.min_replicas)
    return env
