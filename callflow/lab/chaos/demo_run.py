"""Carries out a demo: a plan of chaos on one server, whose kills and takeovers are shown.

It shows every call and who has it while it runs, and afterwards what it came to.

Callers in three languages talk with callflow as it is, while every second a process that is at
work is killed, or frozen, and replaced.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from random import Random
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from callflow.call.history import PASSED_TO_HUMAN, TAKEN_FROM_WORKER
from callflow.call.record import CallRecord, Word, last_words, word
from callflow.celery import use_broker
from callflow.intake import Intake
from callflow.lab.carrier.simulated_people import HumanBehaviour
from callflow.lab.chaos.chaos_plan import DemoPlan, Kill
from callflow.lab.chaos.chaos_run import carrier_for, run_conditions, run_until_done, stack_env
from callflow.lab.chaos.environment import (
    LOOK_AGAIN_S,
    Environment,
    PhoneSetup,
    Processes,
    WebProcesses,
    node_of,
)
from callflow.lab.chaos.judge import Verdict, judge
from callflow.lab.chaos.promises import FaultKind
from callflow.lab.chaos.run_evidence import CallEvidence, RunEvidence, Strike
from callflow.lab.chaos.simulated_callers import Backlog, demo_callers
from callflow.lab.chaos.strikes import kill_process_of
from callflow.lab.embedded_server import EmbeddedServer, keys_without_lifetime
from callflow.lab.percentiles import Percentiles
from callflow.lab.stack import LocalStack, StackProcess
from callflow.redis.client import Client, connect
from callflow.redis.scripts import Scripts
from callflow.settings import Settings
from callflow.store.calls import CallStore
from callflow.store.leases import Leases
from callflow.store.reader import CallReader

COLOUR: Final = {
    Word.LISTENING: "green",
    Word.QUEUED: "yellow",
    Word.ANSWERING: "cyan",
    Word.RECOVERING: "bold red",
    Word.WITH_A_HUMAN: "magenta",
    Word.ENDED: "dim",
}

EVENTS_SHOWN: Final = 6


class DemoScreen:
    """Draws the state of a running demo; asks nothing itself."""

    def __init__(self, call_sids: Sequence[str], kill: Kill, turns: int) -> None:
        self._call_sids = call_sids
        self._kill = kill
        self._turns = turns
        self._events: deque[Text] = deque(maxlen=EVENTS_SHOWN)
        self._began = time.monotonic()

    def add_event(self, sentence: str, style: str) -> None:
        """A strike or a takeover, to be shown among the last ones."""
        self._events.append(
            Text.assemble((f"{time.monotonic() - self._began:6.1f} s  ", "dim"), (sentence, style))
        )

    def frame(self, records: Mapping[str, CallRecord], workers: Sequence[str]) -> RenderableType:
        body = Group(*self._events) if self._events else Text("no kill yet", "dim")
        log = Panel(body, title="what happened", title_align="left", height=EVENTS_SHOWN + 2)
        return Group(self._head(records, workers), self._table(records), log)

    def _head(self, records: Mapping[str, CallRecord], workers: Sequence[str]) -> Text:
        answered = sum(record.answered for record in records.values())
        nodes = sorted({worker.partition("@")[0] for worker in workers})
        calls = len(self._call_sids)
        return Text.assemble(
            (f"{calls} people in lifts", "bold"),
            f" · {answered} of {calls * self._turns} turns answered · workers up: ",
            (" ".join(nodes) or "none", "bold"),
            f" · kill: {self._kill}",
        )

    def _table(self, records: Mapping[str, CallRecord]) -> Table:
        table = Table(expand=True, box=None, header_style="dim", padding=(0, 1))
        for name, width in (("call", 10), ("now", 12), ("turn", 6), ("worker", 18), ("fence", 5)):
            table.add_column(name, width=width, no_wrap=True)
        table.add_column("last words", no_wrap=True, overflow="ellipsis", ratio=1)
        for call_sid in self._call_sids:
            if (record := records.get(call_sid)) is not None:
                table.add_row(*_row(record))
        return table


def _row(record: CallRecord) -> tuple[RenderableType, ...]:
    now = word(record)
    who, text = last_words(record) or ("", "")
    return (
        f"{record.call_sid[:8]}…",
        Text(str(now), COLOUR[now]),
        f"{record.answered}/{record.heard}",
        (record.assigned_worker or "—").replace("@", " ").split("-")[0],
        str(record.fence),
        Text.assemble((f"{who}: ", "dim"), text.replace("\n", " ")),
    )


FAULT_WORDS: Final = {
    "lost": (FaultKind.LOST, FaultKind.LEFT_OUT, FaultKind.DROPPED),
    "repeated": (FaultKind.REPEATED, FaultKind.SAID_AGAIN, FaultKind.DOUBLED),
    "out of order": (FaultKind.OUT_OF_ORDER, FaultKind.MISPLACED),
    "silent": (FaultKind.SILENCE,),
    "leaked": (FaultKind.LEAK,),
}
"""What a demo calls the faults of a call, in the order in which it lists them."""


@dataclass(frozen=True, slots=True)
class DemoResult:
    """What one demo showed, field by field as programs get it with `--json`."""

    calls: int
    turns: int
    kills: int
    takeovers: int
    takeover_s: Percentiles
    pause_s: Percentiles
    turn_ms: Percentiles
    silence_s: Percentiles
    """What callers had to bear between their own words, or ours, and the next thing they heard."""
    too_silent: int
    lost: int
    repeated: int
    out_of_order: int
    fenced_writes: int
    leaked_keys: int
    to_human: int
    faults: list[str] = field(default_factory=list)
    """A sentence for everything that must not happen."""

    @classmethod
    def of(cls, evidence: RunEvidence, verdict: Verdict) -> DemoResult:
        """What is shown of a verdict, and of the times between the callers' words and replies."""
        entries = [(sid, entry) for sid, journal in evidence.journals.items() for entry in journal]
        hit = {(sid, entry.turn) for sid, entry in entries if entry.event in TAKEN_FROM_WORKER}
        reports = [caller.report for caller in evidence.callers]

        def replies(of_hit_turns: bool) -> Iterable[float]:
            for report in reports:
                for turn in report.turns:
                    if ((report.call_sid, turn.number) in hit) is of_hit_turns:
                        yield from [] if turn.reply_s is None else [turn.reply_s]

        counts = {name: verdict.count(*kinds) for name, kinds in FAULT_WORDS.items()}
        return cls(
            calls=verdict.calls,
            turns=verdict.turns,
            kills=verdict.strikes,
            takeovers=sum(entry.event == "reclaimed" for _, entry in entries),
            takeover_s=verdict.takeover_s,
            pause_s=Percentiles.of(replies(True)),
            turn_ms=Percentiles.of((time_s * 1000 for time_s in replies(False)), 1),
            silence_s=verdict.silence_s,
            too_silent=counts["silent"],
            lost=counts["lost"],
            repeated=counts["repeated"],
            out_of_order=counts["out of order"],
            fenced_writes=sum(
                entry.event == "refused" and entry.reason == "fenced" for _, entry in entries
            ),
            leaked_keys=counts["leaked"],
            to_human=sum(entry.event in PASSED_TO_HUMAN for _, entry in entries),
            faults=[
                f"{name}: " + (f"call {fault.call_sid}: " if fault.call_sid else "") + fault.detail
                for name, kinds in FAULT_WORDS.items()
                for fault in verdict.faults
                if fault.kind in kinds
            ],
        )

    @property
    def good(self) -> bool:
        """True when nothing was lost, repeated, out of order or leaked, and nobody heard nothing
        for too long."""
        return not self.faults

    def as_dict(self) -> dict[str, Any]:
        times = {
            name: getattr(self, name).pick("p50", "p95", "p99", "max")
            for name in ("takeover_s", "pause_s", "turn_ms", "silence_s")
        }
        return asdict(self) | times


def demo_summary(result: DemoResult, seed: int) -> RenderableType:
    """What it came to, in one table and one sentence."""
    table = Table(box=None, show_header=False, padding=(0, 2))
    table.add_column(style="dim")
    table.add_column()
    table.add_row("calls, turns", f"{result.calls} calls, {result.turns} turns")
    table.add_row("kills, takeovers", f"{result.kills} kills, {result.takeovers} takeovers")
    table.add_row("kill → next worker", _times(result.takeover_s, "s"))
    table.add_row("caller waited, turns hit", _times(result.pause_s, "s"))
    table.add_row("caller waited, other turns", _times(result.turn_ms, "ms"))
    table.add_row("silence that callers heard", _times(result.silence_s, "s"))
    table.add_row("late writes refused", str(result.fenced_writes))
    table.add_row("passed to a human", str(result.to_human))
    table.add_row(
        "lost, repeated, out of order, leaked",
        Text(
            f"{result.lost}, {result.repeated}, {result.out_of_order}, {result.leaked_keys}",
            "bold green" if result.good else "bold red",
        ),
    )
    sentence = (
        Text("Nobody had to say anything twice, or wait in silence.", "bold green")
        if result.good
        else Text("Something that must not happen has happened:", "bold red")
    )
    return Group(table, sentence, *result.faults[:20], Text(f"again: --seed {seed}", "dim"))


def _times(found: Percentiles, unit: str) -> str:
    if found.p50 is None:
        return "—"
    return f"p50 {found.p50} {unit}   p95 {found.p95}   p99 {found.p99}   max {found.max}"


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
