"""Carries out a demo: a plan of chaos on one server, whose kills and takeovers are shown.

Callers in three languages talk with callflow as it is, while every second a process that is at
work is killed, or frozen, and replaced.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Final

from callflow.call.record import CallRecord
from callflow.celery import use_broker
from callflow.intake import Intake
from callflow.lab.carrier.simulated_people import HumanBehaviour
from callflow.lab.chaos.chaos_plan import DemoPlan, Kill
from callflow.lab.chaos.chaos_run import carrier_for, run_conditions, run_until_done, stack_env
from callflow.lab.chaos.demo_report import DemoResult, DemoScreen
from callflow.lab.chaos.environment import (
    LOOK_AGAIN_S,
    Environment,
    PhoneSetup,
    Processes,
    WebProcesses,
    node_of,
)
from callflow.lab.chaos.judge import judge
from callflow.lab.chaos.run_evidence import CallEvidence, RunEvidence, Strike
from callflow.lab.chaos.simulated_callers import Backlog, demo_callers
from callflow.lab.chaos.strikes import kill_process_of
from callflow.lab.embedded_server import EmbeddedServer
from callflow.lab.leaks import keys_without_lifetime
from callflow.lab.stack import LocalStack, StackProcess
from callflow.redis.client import Client, connect
from callflow.redis.scripts import Scripts
from callflow.settings import Settings
from callflow.store.calls import CallStore
from callflow.store.leases import Leases
from callflow.store.reader import CallReader

READY_S: Final = 30.0
FRAME_S: Final = 0.25


@dataclass(slots=True)
class DemoWatcher:
    """Where a running demo tells what it sees."""

    on_frame: Callable[[DemoScreen, dict[str, CallRecord], list[str]], None]
    on_event: Callable[[str], None]


def run_demo(plan: DemoPlan, settings: Settings, watcher: DemoWatcher) -> DemoResult:
    """Carry out `plan` on a server of its own, and leave nothing behind. Raises RunFailed."""
    line = PhoneSetup.create()
    with EmbeddedServer.start() as server:
        use_broker(server.url)
        own = settings.model_copy(update={"redis_url": server.url, "broker_url": None})
        env = stack_env(plan, line) | {
            "CALLFLOW_REDIS_URL": server.url,
            "CALLFLOW_BROKER_URL": "",
            "CALLFLOW_STALE_AFTER_S": str(own.stale_after_s),
        }
        if own.retrieval:
            env["CALLFLOW_RETRIEVAL"] = own.retrieval
        # The server's scratch directory goes when the server goes, however this process ends.
        with LocalStack(env, plan.logs or server.data_dir / "logs") as stack:
            processes = Processes(stack, plan, line.ports)
            for name in processes.names:
                processes.start(name)
            with connect(server.url) as client:
                return asyncio.run(DemoRun(plan, own, client, processes, line, watcher).run())


class DemoRun:
    """A plan being carried out against a server and processes that are already there."""

    def __init__(
        self,
        plan: DemoPlan,
        settings: Settings,
        client: Client,
        processes: Processes,
        line: PhoneSetup,
        watcher: DemoWatcher,
    ) -> None:
        self._plan = plan
        self._settings = settings
        self._client = client
        self._line = line
        self._watcher = watcher
        self._web = WebProcesses(processes.stack, line.ports)
        self._environment = Environment(plan, settings, processes, self._web, lambda: client)
        self._calls = CallReader(client)
        self._callers = demo_callers(plan.calls, plan.seed, over_s=min(8.0, plan.calls * 0.4))
        self._screen = DemoScreen([one.call_sid for one in self._callers], plan.kill, plan.turns)
        self._told: set[tuple[str, int]] = set()
        self._last_strike_ms = 0

    async def run(self) -> DemoResult:
        """Let the callers call while the striker strikes, and judge."""
        await self._environment.wait_until_ready(READY_S)
        began_at = time.time()
        striker = DemoStriker(self._plan, self._environment, self._calls, self._tell_strike)
        intake = Intake(CallStore(Scripts(self._client), self._settings.timing))
        backlog = Backlog(intake, self._calls, self._plan.backlog)
        await asyncio.to_thread(backlog.fill)

        async def call_and_settle() -> None:
            await self._all_calls()
            await striker.settle()

        try:
            beside = [striker.run(), self._keep_showing(), backlog.keep_full()]
            await run_until_done([call_and_settle()], beside)
        finally:
            await asyncio.to_thread(backlog.end)
        return await asyncio.to_thread(self._result, striker.strikes, backlog.call_sids, began_at)

    async def _all_calls(self) -> None:
        # The agent is what is shown: the humans who are rung are all busy elsewhere.
        nobody = HumanBehaviour(answer="never")
        async with carrier_for(self._plan, self._line, self._web, nobody) as carrier:
            await asyncio.gather(*(one.call(carrier, self._plan.turns) for one in self._callers))
            await carrier.settle()

    async def _keep_showing(self) -> None:
        sids = [caller.call_sid for caller in self._callers]
        leases = Leases(Scripts(self._client), self._settings.timing)
        while True:
            records = await asyncio.to_thread(self._calls.find_all, sids)
            await asyncio.to_thread(self._tell_takeovers, records)
            present = await asyncio.to_thread(leases.present_now)
            self._watcher.on_frame(self._screen, records, present)
            await asyncio.sleep(FRAME_S)

    def _tell_strike(self, strike: Strike) -> None:
        self._last_strike_ms = strike.at_ms
        self._screen.add_event(strike.name, "red")
        self._watcher.on_event(strike.name)

    def _tell_takeovers(self, records: dict[str, CallRecord]) -> None:
        """Say who has gone on with which call since the last strike."""
        for sid, record in records.items():
            mark = (sid, record.fence)
            if record.attempts and record.assigned_worker and mark not in self._told:
                self._told.add(mark)
                claimed = [e for e in self._calls.journal(sid) if e.event == "claimed"][-1]
                seconds = max(0.0, (claimed.at - self._last_strike_ms) / 1000)
                worker = record.assigned_worker.partition("@")[0]
                sentence = f"{worker} goes on with {sid[:8]}… after {seconds:.2f} s"
                self._screen.add_event(sentence, "green")
                self._watcher.on_event(sentence)

    def _result(self, strikes: list[Strike], bystanders: list[str], began_at: float) -> DemoResult:
        sids = [caller.call_sid for caller in self._callers]
        journals = self._calls.journals([*sids, *bystanders])
        evidence = RunEvidence(
            conditions=run_conditions(self._plan, self._settings, time.time() - began_at),
            began_at=began_at,
            callers=tuple(
                CallEvidence(one.report, one.line) for one in self._callers if one.report
            ),
            strikes=tuple(strikes),
            leaked=tuple(keys_without_lifetime(self._client)),
            journals={sid: tuple(entries) for sid, entries in journals.items()},
        )
        verdict = judge(evidence, self._calls.find_all(sids))
        return DemoResult.of(evidence, verdict)


@dataclass
class DemoStriker:
    """Strikes every `every_s` seconds, but never the last worker that is ready."""

    plan: DemoPlan
    environment: Environment
    calls: CallReader
    on_strike: Callable[[Strike], None]
    strikes: list[Strike] = field(default_factory=list)
    _began: float = field(default_factory=time.monotonic)
    _thaws: set[asyncio.Task[None]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._dice = Random(self.plan.seed)

    async def run(self) -> None:
        """Strike until cancelled; then see to it that nobody stays frozen."""
        try:
            while self.plan.kill is not Kill.NONE:
                await asyncio.sleep(self.plan.every_s)
                if self.plan.kill is Kill.WEB:
                    await self._strike_web()
                else:
                    await self._strike_worker()
        finally:
            for thaw in self._thaws:
                thaw.cancel()
            for process in self.environment.processes.stack.processes.values():
                if process.frozen:
                    process.thaw()

    async def settle(self) -> None:
        """Return when every frozen worker has been let go again."""
        while self._thaws:
            await asyncio.gather(*self._thaws)

    async def _strike_web(self) -> None:
        """Kill one that answers calls, while another one answers too: no load balancer helps a
        caller when there is none."""
        web = self.environment.web
        while len(answering := await web.answering()) < 2:  # noqa: ASYNC110
            await asyncio.sleep(LOOK_AGAIN_S)
        name = self._dice.choice(answering)
        strike = await asyncio.to_thread(self._write_down, name, "killed web process", "calls")
        await asyncio.to_thread(web.replace, name)
        self._made(strike)

    async def _strike_worker(self) -> None:
        # The workers are other processes, so we must ask.
        while not (choice := await asyncio.to_thread(self._choice)):  # noqa: ASYNC110
            await asyncio.sleep(LOOK_AGAIN_S)
        record = self._dice.choice(choice)
        node, processes = node_of(record), self.environment.processes
        process = processes[node.partition("@")[0]]
        match self.plan.kill:
            case Kill.CHILD:
                worker = record.assigned_worker or ""
                strike = self._write_down(worker, "killed pool process", "a turn")
                kill_process_of(record)
            case Kill.WORKER:
                strike = self._write_down(node, "killed worker", "a turn")
                process.kill()
                processes.start(process.name)
            case _:
                strike = self._write_down(node, "froze worker", "a turn")
                process.freeze()
                self._thaws.add(asyncio.create_task(self._thaw_later(process)))
        self._made(strike)

    def _choice(self) -> list[CallRecord]:
        """Calls whose worker may be struck: never those of the last worker."""
        standing = self.environment.standing_workers()
        if self.plan.kill is not Kill.CHILD and len(standing) < 2:
            return []
        return self.environment.victims()

    def _write_down(self, victim: str, verb: str, of_what: str) -> Strike:
        at_s = time.monotonic() - self._began
        name = f"{verb} {victim} in the middle of {of_what}"
        now_ms = self.calls.now_ms()
        return Strike(self.plan.kill.kind, name, (victim,), at_s, at_s, now_ms)

    def _made(self, strike: Strike) -> None:
        self.strikes.append(strike)
        self.on_strike(strike)

    async def _thaw_later(self, process: StackProcess) -> None:
        await asyncio.sleep(self.environment.settings.stale_after_s + 1.5)
        process.thaw()
        self._thaws.discard(asyncio.current_task())
