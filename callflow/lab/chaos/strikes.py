"""Carries out strikes: at processes, at servers and at the ways to them.

A strike at processes kills, freezes, ends or confuses one and waits until it is of use again; one
at servers has the stack to itself. `Striker` makes those of a plan one after another, within the
fault model of `chaos_plan`.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Final

from callflow.call.record import CallRecord
from callflow.call.state import LEASED
from callflow.lab.chaos.chaos_plan import KINDS, SERVERS, PlannedStrike, plan_strikes
from callflow.lab.chaos.chaos_servers import freeze, thaw
from callflow.lab.chaos.environment import LOOK_AGAIN_S, WATCHDOG, ChaosEnvironment, node
from callflow.lab.chaos.network_proxy import Endpoint
from callflow.lab.chaos.run_evidence import Strike
from callflow.lab.chaos.simulated_callers import POISON
from callflow.lab.embedded_server import EmbeddedServer
from callflow.redis.client import translated
from callflow.store.reader import CallReader

CALLS: Final = "server"
BROKER: Final = "broker"

AGAIN_AFTER_S: Final = (0.2, 1.2)
"""An orchestrator's moment between the end of a process and the start of the next."""

END_WITHIN_S: Final = 40.0
"""From SIGTERM to the end: `drain_s` is half of it."""

POISON_WITHIN_S: Final = 60.0
"""For a call of two turns, of which one kills whoever takes it up."""

GONE_S: Final = (0.3, 2.5)
"""Until a server that died is started again, or another takes its place."""

STILL_S: Final = (1.0, 6.0)
"""So long is a server frozen, or its network silent."""

AT_THE_BROKER: Final = 0.3
"""Share of the strikes at either server that are at the broker."""


@dataclass
class StrikeLog:
    """Writes one strike down while it is made. `began`: of the run, monotonic, s."""

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

    def result(self) -> Strike | None:
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


StrikeFunction = Callable[[ChaosEnvironment, StrikeLog, Random], Awaitable[None]]
"""Makes one strike, and returns when what it struck is of use again."""

STRIKES: Final[dict[str, StrikeFunction]] = {}
"""What each kind of `chaos_plan.KINDS` does."""


def _makes(kind: str) -> Callable[[StrikeFunction], StrikeFunction]:
    def register(function: StrikeFunction) -> StrikeFunction:
        STRIKES[kind] = function
        return function

    return register


async def _for_a_while(
    length_s: float, begin: Callable[[], object], end: Callable[[], object]
) -> None:
    await asyncio.to_thread(begin)
    await asyncio.sleep(length_s)
    await asyncio.to_thread(end)


# Strikes at processes.


@_makes("worker-kill")
async def kill_worker(env: ChaosEnvironment, log: StrikeLog, dice: Random) -> None:
    name = await env.find_worker(dice)
    log.strike(node(name))
    await _replace(env, name, dice)
    await env.wait_for(name)


@_makes("worker-freeze")
async def freeze_worker(env: ChaosEnvironment, log: StrikeLog, dice: Random) -> None:
    """A machine pauses: at times for longer than anybody waits for it, at times not."""
    length_s = dice.uniform(1.0, env.plan.stale_after_s + 2.0)
    name = await env.find_worker(dice)
    log.details = f"{length_s:.1f} s"
    log.strike(node(name))
    await _for_a_while(length_s, env.processes[name].freeze, env.processes[name].thaw)
    log.over()
    await env.wait_for(name)


@_makes("worker-cut")
async def cut_off_worker(env: ChaosEnvironment, log: StrikeLog, dice: Random) -> None:
    """A machine loses its way to the calls, and still gets messages: it lives, and knows less and
    less. At times for longer than anybody waits for it, at times not."""
    length_s = dice.uniform(1.0, env.plan.stale_after_s + 2.0)
    name = await env.find_worker(dice)
    log.details = f"{length_s:.1f} s"
    log.strike(node(name))
    way = env.servers.ways[name]
    await _for_a_while(length_s, way.mute, way.heal)
    log.over()
    await env.wait_for(name)


@_makes("worker-term")
async def end_worker(env: ChaosEnvironment, log: StrikeLog, dice: Random) -> None:
    name = await env.find_worker(dice)
    await _end(env, log, name, node(name))
    await env.wait_for(name)


@_makes("child-kill")
async def kill_child(env: ChaosEnvironment, log: StrikeLog, dice: Random) -> None:
    record = await env.find_victim(dice)
    if record is None or record.assigned_worker is None:
        return
    log.strike(record.assigned_worker)
    kill_process_of(record)
    await env.wait_for(record.assigned_worker.partition("@")[0])


@_makes("clock-step")
async def step_clock(env: ChaosEnvironment, log: StrikeLog, dice: Random) -> None:
    ahead_s = dice.choice((-1, 1)) * dice.uniform(5.0, 3600.0)
    length_s = dice.uniform(2.0, 5.0)
    name = await env.find_worker(dice)
    log.details = f"{ahead_s:+.0f} s for {length_s:.1f} s"
    log.strike(node(name))
    set_clock = partial(env.processes.set_clock, name)
    await _for_a_while(length_s, lambda: set_clock(ahead_s), lambda: set_clock(0.0))


@_makes("poison")
async def poison(env: ChaosEnvironment, log: StrikeLog, dice: Random) -> None:
    """Whoever takes up one utterance of one caller dies: `dice` decide after how long."""
    placed = env.generator.place(poison=True)
    log.call_sid = placed.call.call_sid
    deadline = time.monotonic() + POISON_WITHIN_S
    while not placed.over and time.monotonic() < deadline:
        record = await asyncio.to_thread(CallReader(env.client()).find, placed.call.call_sid)
        if record is not None and _has_new_worker(record, log) and _is_poisoned(record):
            await asyncio.sleep(dice.uniform(0.0, 2 * env.plan.pace_s))
            log.strike(record.assigned_worker or "")
            kill_process_of(record)
        elif log.victims and record is not None and not _is_poisoned(record):
            break
        await asyncio.sleep(LOOK_AGAIN_S)
    log.over()
    await env.wait_for_all()


@_makes("web-kill")
async def kill_web(env: ChaosEnvironment, log: StrikeLog, dice: Random) -> None:
    name = dice.choice(sorted(env.processes.ports))
    log.strike(name)
    await _replace(env, name, dice)
    await env.wait_for(name)


@_makes("web-term")
async def end_web(env: ChaosEnvironment, log: StrikeLog, dice: Random) -> None:
    name = dice.choice(sorted(env.processes.ports))
    await _end(env, log, name, name)
    await env.wait_for(name)


@_makes("beat-kill")
async def kill_beats(env: ChaosEnvironment, log: StrikeLog, dice: Random) -> None:
    names = env.plan.beat_names
    if dice.random() < 0.5:
        names = (dice.choice(names),)
    await _stay_away(env, log, names, dice)


@_makes("watchdog-kill")
async def kill_watchdog(env: ChaosEnvironment, log: StrikeLog, dice: Random) -> None:
    await _stay_away(env, log, (WATCHDOG,), dice)
    if all(env.processes[name].alive for name in env.plan.beat_names):
        await env.wait_for(WATCHDOG)


async def _stay_away(
    env: ChaosEnvironment, log: StrikeLog, names: tuple[str, ...], dice: Random
) -> None:
    away_s = dice.uniform(0.5, 4.0)
    log.details = f"away for {away_s:.1f} s"
    with env.processes.struck(*names):
        log.strike(*names)
        for name in names:
            env.processes[name].kill()
        await asyncio.sleep(away_s)
        for name in names:
            env.processes.start(name)


async def _replace(env: ChaosEnvironment, name: str, dice: Random) -> None:
    with env.processes.struck(name):
        env.processes[name].kill()
        await asyncio.sleep(dice.uniform(*AGAIN_AFTER_S))
        env.processes.start(name)


async def _end(env: ChaosEnvironment, log: StrikeLog, name: str, victim: str) -> None:
    """Tell a process to end, as an orchestrator does, and start it again. One that does not end in
    time has fallen."""
    process = env.processes[name]
    with env.processes.struck(name):
        log.strike(victim)
        process.end()
        deadline = time.monotonic() + END_WITHIN_S
        while process.alive:
            if time.monotonic() > deadline:
                env.processes.fallen.append(
                    f"{name} had not ended {END_WITHIN_S:g} s after SIGTERM: "
                    + env.processes.log_end(name)
                )
                process.kill()
            await asyncio.sleep(LOOK_AGAIN_S)
        env.processes.start(name)


def _has_new_worker(record: CallRecord, log: StrikeLog) -> bool:
    """True when a process works on the call that has not been killed for it yet."""
    return record.call_state in LEASED and record.assigned_worker not in log.victims


def _is_poisoned(record: CallRecord) -> bool:
    """True while the utterance that is owed a reply is the one that kills."""
    turn = record.answered + 1
    said = (entry for entry in record.conversation_thread if entry.role == "caller")
    return any(entry.turn == turn and POISON in entry.text for entry in said)


def kill_process_of(record: CallRecord) -> None:
    pid = (record.assigned_worker or "").partition("/")[2].partition("-")[0]
    try:
        os.kill(int(pid), signal.SIGKILL)
    except ProcessLookupError:
        """It ended between being looked up and being struck; its parent has replaced it."""


# Strikes at servers, and at the ways to them.


@_makes("server-kill")
async def kill_server(env: ChaosEnvironment, log: StrikeLog, dice: Random) -> None:
    servers, gone_s = env.servers, dice.uniform(*GONE_S)
    log.details = f"gone for {gone_s:.1f} s"
    log.strike(CALLS)
    await asyncio.to_thread(servers.primary.kill)
    await asyncio.sleep(gone_s)
    await asyncio.to_thread(servers.primary.restart)
    log.over()
    await asyncio.to_thread(servers.wait_until_in_step)


@_makes("server-freeze")
async def freeze_server(env: ChaosEnvironment, log: StrikeLog, dice: Random) -> None:
    await _freeze(env.servers.primary, log, CALLS, dice)


@_makes("server-restarts")
async def restart_server(env: ChaosEnvironment, log: StrikeLog, dice: Random) -> None:
    servers = env.servers
    log.strike(CALLS)
    for _ in range(3):
        await asyncio.to_thread(servers.primary.restart)
        await asyncio.sleep(dice.uniform(0.0, 0.6))
    log.over()
    await asyncio.to_thread(servers.wait_until_in_step)


@_makes("client-kill")
async def drop_clients(env: ChaosEnvironment, log: StrikeLog, dice: Random) -> None:
    which, _, server = _either(env, dice)
    log.strike(which)
    for _ in range(10):
        await asyncio.to_thread(env.servers.drop_clients, server)
        await asyncio.sleep(0.1)


@_makes("failover")
async def fail_over(env: ChaosEnvironment, log: StrikeLog, dice: Random) -> None:
    servers, gone_s = env.servers, dice.uniform(*GONE_S)

    def lose_the_primary() -> None:
        with servers.writes_held():
            log.strike(CALLS)
            servers.primary.kill()

    await asyncio.to_thread(lose_the_primary)
    await _promote(env, log, gone_s)


@_makes("failover-lossy")
async def fail_over_lossy(env: ChaosEnvironment, log: StrikeLog, dice: Random) -> None:
    servers, gone_s, behind_s = env.servers, dice.uniform(*GONE_S), dice.uniform(0.1, 1.0)
    log.loses_writes = True
    log.strike(CALLS)
    await asyncio.to_thread(servers.cut_off_replica)
    await asyncio.sleep(behind_s)
    await asyncio.to_thread(servers.primary.kill)
    log.details = f"{behind_s:.1f} s lost"
    await _promote(env, log, gone_s)


async def _promote(env: ChaosEnvironment, log: StrikeLog, gone_s: float) -> None:
    servers = env.servers
    log.details = "; ".join(filter(None, (log.details, f"gone for {gone_s:.1f} s")))
    await asyncio.sleep(gone_s)
    await asyncio.to_thread(servers.promote)
    await asyncio.to_thread(servers.lead_clients)
    log.over()
    await asyncio.to_thread(servers.follow)
    await asyncio.to_thread(servers.wait_until_in_step)


@_makes("demote")
async def demote(env: ChaosEnvironment, log: StrikeLog, dice: Random) -> None:
    servers = env.servers

    def change_roles() -> None:
        with servers.writes_held():
            log.strike(CALLS)
            servers.promote()
            servers.lead_clients(keep_open=True)
            servers.follow()

    await asyncio.to_thread(change_roles)
    log.over()
    await asyncio.sleep(dice.uniform(1.0, 4.0))
    await asyncio.to_thread(servers.wait_until_in_step)


@_makes("disk-full")
async def fill_disk(env: ChaosEnvironment, log: StrikeLog, dice: Random) -> None:
    full_s = dice.uniform(1.0, 4.0)
    log.details = f"full for {full_s:.1f} s"
    log.strike(CALLS)
    await _for_a_while(full_s, env.servers.fill_disk, env.servers.empty_disk)


@_makes("slow-net")
async def slow_down(env: ChaosEnvironment, log: StrikeLog, dice: Random) -> None:
    which, endpoint, _ = _either(env, dice)
    delay_ms, length_s = dice.randint(10, 80), dice.uniform(2.0, 5.0)
    log.details = f"{delay_ms} ms each way to the {which} for {length_s:.1f} s"
    log.strike(which)
    await _for_a_while(length_s, lambda: endpoint.delay(delay_ms), endpoint.heal)


@_makes("drop-replies")
async def drop_replies(env: ChaosEnvironment, log: StrikeLog, dice: Random) -> None:
    which, endpoint, _ = _either(env, dice)
    count = dice.randint(2, 10)
    log.details = f"{count} answers of the {which}"
    log.strike(which)
    await asyncio.to_thread(endpoint.drop_replies, count, "EVALSHA" if which == CALLS else "")
    await asyncio.sleep(dice.uniform(1.0, 3.0))
    await asyncio.to_thread(endpoint.heal)


@_makes("reset-net")
async def reset_net(env: ChaosEnvironment, log: StrikeLog, dice: Random) -> None:
    log.strike(CALLS, BROKER)
    for _ in range(dice.randint(1, 4)):
        await asyncio.to_thread(env.servers.endpoint.reset)
        await asyncio.to_thread(env.servers.broker_endpoint.reset)
        await asyncio.sleep(dice.uniform(0.05, 0.5))


@_makes("mute-net")
async def mute_net(env: ChaosEnvironment, log: StrikeLog, dice: Random) -> None:
    which, endpoint, _ = _either(env, dice)
    length_s = dice.uniform(*STILL_S)
    log.details = f"{length_s:.1f} s to the {which}"
    log.strike(which)
    await _for_a_while(length_s, endpoint.mute, endpoint.heal)


@_makes("broker-empty")
async def empty_broker(env: ChaosEnvironment, log: StrikeLog, _: Random) -> None:
    log.strike(BROKER)
    await asyncio.to_thread(_flush_broker, env)


@_makes("broker-kill")
async def kill_broker(env: ChaosEnvironment, log: StrikeLog, dice: Random) -> None:
    broker, gone_s = env.servers.broker, dice.uniform(*GONE_S)
    empty = dice.random() < 0.5
    log.details = f"gone for {gone_s:.1f} s, back {'empty' if empty else 'full'}"
    log.strike(BROKER)
    await asyncio.to_thread(broker.kill)
    await asyncio.sleep(gone_s)
    await asyncio.to_thread(broker.restart)
    if empty:
        await asyncio.to_thread(_flush_broker, env)


@_makes("broker-freeze")
async def freeze_broker(env: ChaosEnvironment, log: StrikeLog, dice: Random) -> None:
    await _freeze(env.servers.broker, log, BROKER, dice)


def _flush_broker(env: ChaosEnvironment) -> None:
    with translated(BROKER):
        env.servers.client_of(env.servers.broker).flushall()


async def _freeze(server: EmbeddedServer, log: StrikeLog, which: str, dice: Random) -> None:
    length_s = dice.uniform(*STILL_S)
    log.details = f"{length_s:.1f} s"
    log.strike(which)
    await _for_a_while(length_s, lambda: freeze(server), lambda: thaw(server))


def _either(env: ChaosEnvironment, dice: Random) -> tuple[str, Endpoint, EmbeddedServer]:
    servers = env.servers
    if dice.random() < AT_THE_BROKER:
        return BROKER, servers.broker_endpoint, servers.broker
    return CALLS, servers.endpoint, servers.primary


@dataclass
class Striker:
    """Strikes until the time is over, and then waits for what is still being undone.

    `began`: of the run, monotonic, s. `on_strike` is told of every strike, when it is over.
    """

    env: ChaosEnvironment
    began: float
    on_strike: Callable[[Strike], None]
    strikes: list[Strike] = field(default_factory=list)
    _going: dict[str, asyncio.Task[None]] = field(default_factory=dict)

    async def run(self, until: float) -> None:
        """Strike until then (monotonic, s)."""
        try:
            for planned in plan_strikes(self.env.plan):
                at = KINDS[planned.kind].at
                await asyncio.sleep(planned.pause_s)
                # What must not be struck at the same time is waited for.
                await self._finish(list(self._going) if at == SERVERS else [at, SERVERS])
                if time.monotonic() >= until:
                    break
                self._going[at] = asyncio.create_task(self._strike(planned))
            await self._finish(list(self._going))
        finally:
            for task in self._going.values():
                task.cancel()

    async def _finish(self, groups: list[str]) -> None:
        for group in groups:
            if (task := self._going.pop(group, None)) is not None:
                await task

    async def _strike(self, planned: PlannedStrike) -> None:
        log = StrikeLog(planned.kind, self.began)
        await STRIKES[planned.kind](self.env, log, planned.dice())
        log.over()
        if (strike := log.result()) is not None:
            self.strikes.append(strike)
            self.on_strike(strike)
        if KINDS[planned.kind].at == SERVERS:
            await self.env.wait_for_all()
