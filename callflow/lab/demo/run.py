"""One demo from start to end: its own server, real workers, callers, kills, and the verdict."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random

from callflow.call.record import CallRecord
from callflow.celery import use_broker
from callflow.errors import CallflowError
from callflow.intake import Intake
from callflow.lab.carrier.carrier import Carrier
from callflow.lab.carrier.human import HumanBehaviour
from callflow.lab.demo.callers import Backlog, crowd
from callflow.lab.demo.judge import Verdict, judge
from callflow.lab.demo.plan import Plan
from callflow.lab.demo.show import Show
from callflow.lab.demo.striker import Strike, Striker
from callflow.lab.demo.web import Line, WebProcesses
from callflow.lab.embedded_server import EmbeddedServer
from callflow.lab.leaks import keys_without_lifetime
from callflow.lab.stack import LocalStack
from callflow.redis.client import Client, connect
from callflow.redis.scripts import Scripts
from callflow.settings import Settings
from callflow.store.calls import CallStore
from callflow.store.leases import Leases
from callflow.store.reader import CallReader
from callflow.twilio.rest import wanted_settings

READY_S = 30.0
FRAME_S = 0.25

EARSHOT_S = 0.1
"""Nobody knows better where in a sentence a line broke."""

LETTERS_PER_S = 15.0
"""How fast the simulated voices speak at speed 1."""


class DemoFailed(CallflowError):
    """The demo itself could not run; it says nothing about the calls."""


@dataclass(slots=True)
class Watcher:
    """Where a running demo tells what it sees."""

    on_frame: Callable[[Show, dict[str, CallRecord], list[str]], None]
    on_event: Callable[[str], None]


class Demo:
    """A plan being carried out against a server that is already there."""

    def __init__(
        self,
        plan: Plan,
        settings: Settings,
        client: Client,
        stack: LocalStack,
        line: Line,
        watcher: Watcher,
    ) -> None:
        self._plan = plan
        self._line = line
        self._web = WebProcesses(stack, line.ports)
        self._settings = settings
        self._client = client
        self._stack = stack
        self._watcher = watcher
        scripts = Scripts(client)
        self._intake = Intake(CallStore(scripts, settings.timing))
        self._leases = Leases(scripts, settings.timing)
        self._snapshots = CallReader(client)
        self._callers = crowd(plan.calls, plan.seed, over_s=min(8.0, plan.calls * 0.4))
        self._show = Show(self._callers, plan.kill, plan.turns)
        self._told: set[tuple[str, int]] = set()
        self._last_strike_ms = 0

    async def run(self) -> Verdict:
        """Let the callers call while the striker strikes, and judge."""
        plan = self._plan
        await self._ready()
        striker = Striker(
            self._stack,
            self._snapshots,
            self._leases,
            plan.kill,
            plan.every_s,
            plan.slots,
            self._settings.stale_after_s,
            Random(plan.seed),
            self._struck,
            self._web,
        )
        backlog = Backlog(self._intake, self._snapshots, plan.backlog)
        await asyncio.to_thread(backlog.fill)
        filling = asyncio.create_task(backlog.keep_full())
        striking = asyncio.create_task(striker.run())
        showing = asyncio.create_task(self._keep_showing())
        try:
            await self._all_calls()
            await striker.settled()
        finally:
            for task in (striking, showing, filling):
                task.cancel()
            await asyncio.gather(striking, showing, filling, return_exceptions=True)
            await asyncio.to_thread(backlog.end)
        for task in (striking, showing, filling):
            if not task.cancelled() and (error := task.exception()) is not None:
                raise error
        return self._verdict(striker.strikes, backlog.call_sids)

    async def _all_calls(self) -> None:
        line, number = self._line, wanted_settings(self._line.public_url)
        async with Carrier(
            self._web.addresses,
            line.public_url,
            line.account_sid,
            line.auth_token,
            api_port=line.api_port,
            speed=self._plan.speed,
            seed=self._plan.seed,
            # The agent is what is shown: the humans who are rung are all busy elsewhere.
            human=HumanBehaviour(answer="never"),
            voice_url=number.voice_url,
            status_url=number.status_callback,
            fallback=number.voice_fallback_url,
        ) as carrier:
            await asyncio.gather(*(one.call(carrier, self._plan.turns) for one in self._callers))
            await carrier.settle()

    async def _ready(self) -> None:
        """Wait until every process is there."""
        wanted = self._plan.workers * self._plan.slots
        deadline = time.monotonic() + READY_S
        while len(self._leases.present_now()) < wanted or not await self._web.all_answer():
            dead = [one for one in self._stack.processes.values() if not one.alive]
            if dead or time.monotonic() > deadline:
                words = "\n".join(f"{one.name}: {one.last_lines()}" for one in dead)
                raise DemoFailed(f"the processes did not come up within {READY_S:.0f} s\n{words}")
            await asyncio.sleep(0.05)

    async def _keep_showing(self) -> None:
        sids = [caller.call_sid for caller in self._callers]
        while True:
            records = await asyncio.to_thread(self._snapshots.find_all, sids)
            await asyncio.to_thread(self._tell_takeovers, records)
            present = await asyncio.to_thread(self._leases.present_now)
            self._watcher.on_frame(self._show, records, present)
            await asyncio.sleep(FRAME_S)

    def _struck(self, strike: Strike) -> None:
        self._last_strike_ms = strike.at_ms
        self._watcher.on_event(self._show.struck(strike))

    def _tell_takeovers(self, records: dict[str, CallRecord]) -> None:
        """Say who has gone on with which call since the last strike."""
        for sid, record in records.items():
            mark = (sid, record.fence)
            if record.attempts and record.assigned_worker and mark not in self._told:
                self._told.add(mark)
                claimed = [e for e in self._snapshots.journal(sid) if e.event == "claimed"][-1]
                seconds = (claimed.at - self._last_strike_ms) / 1000
                worker = record.assigned_worker.partition("@")[0]
                self._watcher.on_event(self._show.resumed(sid, worker, max(0.0, seconds)))

    def _verdict(self, strikes: list[Strike], bystanders: list[str]) -> Verdict:
        sids = [caller.call_sid for caller in self._callers]
        return judge(
            self._callers,
            self._snapshots.find_all(sids),
            self._snapshots.journals([*sids, *bystanders]),
            strikes,
            keys_without_lifetime(self._client),
            slack=EARSHOT_S * LETTERS_PER_S * self._plan.speed,
        )


@contextmanager
def _stack(
    plan: Plan, settings: Settings, server: EmbeddedServer, line: Line
) -> Iterator[LocalStack]:
    env = {
        "CALLFLOW_REDIS_URL": server.url,
        "CALLFLOW_BROKER_URL": "",
        "CALLFLOW_RECORDS_URL": "",  # A rehearsal is no record, and no test of a lift.
        "CALLFLOW_PACE_S": str(plan.pace_s),
        # Workers die and start by the second here: what they cost at their start is not the matter.
        "CALLFLOW_RETRIEVAL": settings.retrieval or "lexical",
        "CALLFLOW_STALE_AFTER_S": str(settings.stale_after_s),
        "CALLFLOW_SPEECH_LETTERS_PER_S": str(LETTERS_PER_S * plan.speed),
        **line.env,
    }
    # The server's scratch directory goes when the server goes, however this process ends.
    with LocalStack(env, plan.logs or server.data_dir / "logs") as stack:
        for number in range(1, plan.workers + 1):
            stack.start_worker(f"w{number}", slots=plan.slots)
        stack.start_watchdog()
        stack.start_beat()
        for name, port in line.ports.items():
            stack.start_web(port, name)
        yield stack


def run(plan: Plan, settings: Settings, watcher: Watcher) -> Verdict:
    """Carry out `plan` on a server of its own, and leave nothing behind."""
    line = Line.of_its_own()
    with EmbeddedServer.start() as server:
        use_broker(server.url)
        own = settings.model_copy(update={"redis_url": server.url, "broker_url": None})
        with _stack(plan, own, server, line) as stack, connect(server.url) as client:
            return asyncio.run(Demo(plan, own, client, stack, line, watcher).run())
