"""`python -m benchmarks overload`: more calls than the workers can serve, then as many as they can.

Real processes, real webhooks. Every turn takes a fixed time, so that what the workers can do is
known; calls come in at a fixed rate whatever becomes of them. Who is not answered in time has a
human rung, who picks up, talks for a moment and leaves.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from benchmarks import machine
from callflow.celery import CALLS, use_broker
from callflow.lab.carrier.call_report import CallReport, LoadResult
from callflow.lab.carrier.carrier import Carrier, load
from callflow.lab.carrier.simulated_people import Behaviour, HumanBehaviour
from callflow.lab.chaos.audio_checks import HOLDING_PHRASES
from callflow.lab.chaos.environment import PhoneSetup, WebProcesses
from callflow.lab.embedded_server import EmbeddedServer
from callflow.lab.percentiles import Percentiles
from callflow.lab.stack import LocalStack, StackProcess
from callflow.redis.client import Client, connect
from callflow.redis.scripts import Scripts
from callflow.responder.phrases import generic
from callflow.settings import load as settings
from callflow.store.leases import Leases
from callflow.store.reader import CallReader
from callflow.twilio.rest import wanted_settings

LIFT: Final = "+441632960010"
SITES: Final = f"""
sites:
  - id: tower
    called: ["{LIFT}"]
    lift: Lift 4
    address: 1 High Street, Leeds
    mode: agent_only
    humans:
      - {{number: "+441632960101", name: Control, ring_s: 20}}
"""

ORDINARY, DANGER, TEST = "ordinary", "danger", "test"
SAYS: Final = {
    ORDINARY: ("we are stuck in the lift", "it has stopped between floors", "please hurry"),
    DANGER: ("there is smoke in here it is burning", "the smoke is getting thick", "please hurry"),
    TEST: ("this is an automatic test call", "test call unit ok", "test call unit ok"),
}
SHARES: Final = (TEST, DANGER, *[ORDINARY] * 8)
"""Of ten callers in a row."""

SPEED: Final = 16.0
WAITED_S: Final = 1.5
"""A first reply that took so much longer than a turn was kept waiting by others."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How much, for how long. `over` and `normal` are shares of what the workers can do."""

    seconds: float = 300.0
    after_s: float = 30.0
    slots: int = 4
    over: float = 2.0
    normal: float = 0.5
    turns: int = 3
    turn_s: float = 0.5
    """How long a turn is worked on, without the few milliseconds that it costs besides."""

    @property
    def capacity_per_s(self) -> float:
        """Turns that all slots together can answer in a second."""
        return self.slots / self.turn_s


@dataclass(slots=True)
class Samples:
    """What was seen every second while calls went on."""

    memory_mb: dict[str, list[float]] = field(default_factory=dict)
    queued: list[dict[str, int]] = field(default_factory=list)


def run(plan: Plan, folder: Path) -> dict[str, Any]:
    """Both phases, and what came of them. Every process ends with it."""
    with _stack(plan, folder) as (stack, line, client):
        return asyncio.run(_measured(plan, stack, line, client))


@contextmanager
def _stack(plan: Plan, folder: Path) -> Iterator[tuple[LocalStack, PhoneSetup, Client]]:
    line = PhoneSetup.create()
    sites = folder / "sites.yaml"
    sites.write_text(SITES, encoding="utf-8")
    with EmbeddedServer.start() as server:
        env = line.env | {
            "CALLFLOW_REDIS_URL": server.url,
            "CALLFLOW_BROKER_URL": "",
            "CALLFLOW_SITES": str(sites),
            "CALLFLOW_RESPONDER": "echo",
            "CALLFLOW_RETRIEVAL": "lexical",
            "CALLFLOW_PACE_S": str(plan.turn_s),
        }
        use_broker(server.url)
        with LocalStack(env, folder) as stack, connect(server.url) as client:
            for number in (1, 2):
                stack.start_worker(f"worker{number}", slots=plan.slots // 2)
            stack.start_watchdog()
            stack.start_beat()
            for name, port in line.ports.items():
                stack.start_web(port, name)
            leases = Leases(Scripts(client), settings(env).timing)
            asyncio.run(_ready(plan, leases, WebProcesses(stack, line.ports)))
            yield stack, line, client


async def _ready(plan: Plan, leases: Leases, web: WebProcesses) -> None:
    async with asyncio.timeout(60):
        while len(leases.present_now()) < plan.slots or not await web.all_answer():  # noqa: ASYNC110
            await asyncio.sleep(0.1)


async def _measured(
    plan: Plan, stack: LocalStack, line: PhoneSetup, client: Client
) -> dict[str, Any]:
    number = wanted_settings(line.public_url)
    carrier = Carrier(
        WebProcesses(stack, line.ports).addresses,
        line.public_url,
        line.account_sid,
        line.auth_token,
        api_port=line.api_port,
        speed=SPEED,
        seed=1,
        human=HumanBehaviour(after_s=0.5, talks_s=2.0),
        voice_url=number.voice_url,
        status_url=number.status_callback,
        fallback=number.voice_fallback_url,
    )
    samples = Samples()
    async with carrier:
        await _calls(carrier, plan, plan.normal, 5.0)
        sampling = asyncio.create_task(_sample(samples, stack, client))
        began_at = time.time()
        flooded = await _calls(carrier, plan, plan.over, plan.seconds)
        # Who has come in has more to say. From now on nobody of them waits any more, and whatever
        # they have left in the queues must not be in the way of others.
        ended_at = time.time()
        after = await _calls(carrier, plan, plan.normal, plan.after_s)
        await carrier.settle()
        sampling.cancel()
    result = _result(plan, samples, flooded, after, ended_at)
    ebbed = {"ebbed_s": round(ended_at - began_at - plan.seconds, 1)}
    return result | ebbed | _by_workers(client, plan, flooded, began_at + plan.seconds)


async def _calls(carrier: Carrier, plan: Plan, share: float, seconds: float) -> list[CallReport]:
    """Calls at `share` of what the workers can do, for so long; returns when all have ended."""
    rate_per_s = share * plan.capacity_per_s / plan.turns
    return await load(
        carrier,
        lambda number: _person(number, plan.turns),
        calls=max(1, round(rate_per_s * seconds)),
        rate_per_s=rate_per_s,
        to=LIFT,
    )


def _person(number: int, turns: int) -> Behaviour:
    return Behaviour(
        SAYS[SHARES[number % len(SHARES)]],
        turns=turns,
        think_s=(0.1, 0.3),
        fillers=tuple(generic("en")[name] for name in HOLDING_PHRASES),
        with_human_s=3.0,
    )


async def _sample(samples: Samples, stack: LocalStack, client: Client) -> None:
    while True:
        for process in list(stack.processes.values()):
            samples.memory_mb.setdefault(process.name, []).append(memory_mb(process))
        samples.queued.append({queue: client.llen(queue) for queue in CALLS})
        await asyncio.sleep(1)


def memory_mb(process: StackProcess) -> float:
    """Of a process and its children, which are of its group."""
    pages = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text(encoding="utf-8").rpartition(")")[2].split()
        except OSError:
            continue  # It has ended meanwhile.
        if int(fields[2]) == process.pid:
            pages += int(fields[21])
    return round(pages * 4096 / 1e6, 1)


def _kind(report: CallReport) -> str:
    first = report.turns[0].said if report.turns else ""
    return next((kind for kind, lines in SAYS.items() if first == lines[0]), ORDINARY)


def _first_reply_s(report: CallReport) -> float | None:
    return report.turns[0].reply_s if report.turns else None


def _by_workers(
    client: Client, plan: Plan, flooded: Sequence[CallReport], until: float
) -> dict[str, Any]:
    """What the workers did in the overload, by the journals: on a machine that others use as well
    they do less than their slots would let them."""
    journals = CallReader(client).journals([one.call_sid for one in flooded]).values()
    answered, took_ms = 0, []
    for journal in journals:
        claimed_at: dict[int | None, int] = {}
        for line in journal:
            if line.event == "claimed":
                claimed_at[line.fence] = line.at
            elif line.event == "committed" and line.at <= until * 1000:
                answered += 1
                took_ms.append(line.at - claimed_at[line.fence])
    return {
        "answered_turns_per_s": round(answered / plan.seconds, 2),
        "turn_ms": asdict(Percentiles.of(took_ms)),
    }


def _result(
    plan: Plan,
    samples: Samples,
    flooded: Sequence[CallReport],
    after: Sequence[CallReport],
    ended_at: float,
) -> dict[str, Any]:
    calls = [*flooded, *after]
    slow_s = plan.turn_s + WAITED_S
    slow = [one.began_at - ended_at for one in after if (_first_reply_s(one) or 99) > slow_s]
    return {
        "plan": asdict(plan),
        "capacity_turns_per_s": plan.capacity_per_s,
        "overload": LoadResult.of(flooded).as_dict(),
        "after": LoadResult.of(after).as_dict(),
        "unserved": [one.call_sid for one in calls if one.lost and not one.with_human],
        "failed": [one.call_sid for one in calls if one.failed],
        "longest_silence_s": max(one.longest_silence_s for one in calls),
        "first_reply_s": {
            kind: asdict(
                Percentiles.of(_first_reply_s(one) for one in flooded if _kind(one) == kind)
            )
            for kind in SAYS
        },
        "with_human": {
            kind: sum(one.with_human for one in flooded if _kind(one) == kind) for kind in SAYS
        },
        "recovery_s": round(max([0.0, *slow]), 1),
        "queued_most": {queue: max(seen[queue] for seen in samples.queued) for queue in CALLS},
        "memory_mb": {
            name: {"first": seen[0], "most": max(seen), "last": seen[-1]}
            for name, seen in samples.memory_mb.items()
        },
    }


def main(arguments: Sequence[str]) -> int:
    """Print a table, or with `--json` one object on the last line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks overload", description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON object on the last line")
    parser.add_argument("--seconds", type=float, default=300, help="of overload (default: 300)")
    parser.add_argument("--turn", type=float, default=0.5, help="seconds of work (default: 0.5)")
    parser.add_argument("--over", type=float, default=2, help="times capacity (default: 2)")
    asked = parser.parse_args(list(arguments))
    plan = Plan(asked.seconds, over=asked.over, turn_s=asked.turn)
    with tempfile.TemporaryDirectory(prefix="callflow-overload-") as folder:
        result = {"machine": machine.describe(), **run(plan, Path(folder))}
    print(json.dumps(result)) if asked.json else _show(result)
    return 1 if result["unserved"] or result["failed"] else 0


def _show(result: dict[str, Any]) -> None:
    print(result["machine"])
    for phase in ("overload", "after"):
        seen = result[phase]
        print(
            f"{phase}: {seen['calls']} calls, {seen['turns']} turns, "
            f"{seen['with_human']} with a human, answer ms {seen['answer_ms']}"
        )
    for name in (
        *("unserved", "failed"),
        *("capacity_turns_per_s", "answered_turns_per_s", "turn_ms", "first_reply_s", "with_human"),
        *("longest_silence_s", "ebbed_s", "recovery_s", "queued_most"),
    ):
        print(f"{name}: {result[name]}")
    for name, seen in result["memory_mb"].items():
        print(f"memory of {name}, MB: {seen}")
