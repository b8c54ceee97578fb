"""The rounds: in each, every contestant does the same work on a server and processes of its own.

Rounds alternate between the contestants, and each begins with another one, so that whatever else
the machine does hits all of them alike.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import redis

from benchmarks import meter, wire
from benchmarks.client import Client
from benchmarks.contestants import NAMES, contestant, pool_of
from benchmarks.crowd import Crowd
from benchmarks.meter import Cost
from benchmarks.waiting import wait_until
from callflow.lab.embedded_server import EmbeddedServer
from callflow.lab.percentiles import nearest_rank
from callflow.lab.stack import LocalStack

Say = Callable[[str], None]

WARM_UP_CALLS, WARM_UP_TURNS = 24, 4
"""Enough that every slot of every worker has worked and knows the scripts."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is run: levels of calls at once, turns of a call, rounds, slots of each worker."""

    calls: list[int]
    turns: int
    rounds: int
    slots: int
    at_least: int
    """turns of one measurement: few calls are repeated until it has so many"""

    def batches(self, calls: int) -> int:
        """How often `calls` calls at once are run in one measurement."""
        return max(1, -(-self.at_least // (calls * self.turns)))


@dataclass(slots=True)
class Level:
    """All rounds of one contestant with so many calls at once."""

    rounds: list[dict[str, float]] = field(default_factory=list)
    turn_s: list[float] = field(default_factory=list)
    client_cpu_s: float = 0.0
    failed: int = 0
    cost: Cost = field(default_factory=Cost)

    def add(self, crowd: Crowd, cost: Cost) -> None:
        """One more round."""
        turns = max(1, len(crowd.turn_s))
        self.rounds.append(
            {
                "turns_per_s": len(crowd.turn_s) / crowd.wall_s,
                "p50_ms": 1000 * _percentile(crowd.turn_s, 50),
                "cpu_s_per_1000": 1000 * (cost.server_cpu_s + cost.worker_cpu_s) / turns,
            }
        )
        self.turn_s += crowd.turn_s
        self.client_cpu_s += crowd.client_cpu_s
        self.failed += crowd.failed
        self.cost += cost

    def summary(self) -> dict[str, Any]:
        """Medians over the rounds, percentiles over all turns, costs per turn."""
        turns = max(1, len(self.turn_s))
        return {
            "turns": len(self.turn_s),
            "failed": self.failed,
            "turns_per_s": median(one["turns_per_s"] for one in self.rounds),
            "rounds": self.rounds,
            **{f"p{q}_ms": 1000 * _percentile(self.turn_s, q) for q in (50, 95, 99)},
            "server_cpu_s_per_1000": 1000 * self.cost.server_cpu_s / turns,
            "worker_cpu_s_per_1000": 1000 * self.cost.worker_cpu_s / turns,
            "client_cpu_s_per_1000": 1000 * self.client_cpu_s / turns,
            "commands_per_turn": self.cost.commands / turns,
            "bytes_per_turn": (self.cost.bytes_in + self.cost.bytes_out) / turns,
        }


@dataclass(slots=True)
class Score:
    """One contestant's results."""

    levels: dict[int, Level] = field(default_factory=dict)
    bytes_per_call: float = 0.0
    requests_per_turn: dict[str, float] = field(default_factory=dict)


def run(plan: Plan, scratch: Path, say: Say) -> dict[str, Any]:
    """All rounds of all contestants."""
    scores = {name: Score({calls: Level() for calls in plan.calls}) for name in NAMES}
    for number in range(plan.rounds):
        turn = number % len(NAMES)
        for name in NAMES[turn:] + NAMES[:turn]:
            say(f"round {number + 1} of {plan.rounds}: {name}")
            _round(name, plan, scratch / f"{number}-{name}", scores[name], say)
    return {
        "plan": asdict(plan),
        "contestants": {
            name: {
                "pool": pool_of(name),
                "levels": {str(calls): level.summary() for calls, level in score.levels.items()},
                "bytes_per_call": score.bytes_per_call,
                "requests_per_turn": score.requests_per_turn,
            }
            for name, score in scores.items()
        },
    }


def _round(name: str, plan: Plan, logs: Path, score: Score, say: Say) -> None:
    who, pool = contestant(name), pool_of(name)
    with EmbeddedServer.start() as server, redis.Redis.from_url(server.url) as info:
        env = who.env(server.url)
        most = max(*plan.calls, WARM_UP_CALLS)
        with LocalStack(env, logs) as stack:
            who.start(stack, pool, plan.slots)
            with Client(name, server.url, most, env) as client:
                wait_until(lambda: who.ready(info, pool, plan.slots), f"{name} is ready")
                # Whatever is not up to it yet keeps its callers waiting here and not below.
                client.talk(WARM_UP_CALLS, WARM_UP_TURNS)
                _measure(plan, client, info, stack, score, say)


def _measure(
    plan: Plan, client: Client, info: redis.Redis, stack: LocalStack, score: Score, say: Say
) -> None:
    roots = [process.pid for process in stack.processes.values()]
    for number, calls in enumerate(plan.calls):
        batches = plan.batches(calls)
        held, before = meter.bytes_held(info), meter.read(info, roots)
        crowd = client.talk(calls, plan.turns, batches)
        score.levels[calls].add(crowd, meter.read(info, roots) - before)
        if number == 0:
            score.bytes_per_call = (meter.bytes_held(info) - held) / (calls * batches)
        say(
            f"  {calls} at once: {len(crowd.turn_s) / crowd.wall_s:.0f} turns/s, "
            f"p50 {1000 * _percentile(crowd.turn_s, 50):.1f} ms, {crowd.failed} failed"
        )
    score.requests_per_turn = wire.requests_per_turn(info, lambda: client.talk(1, plan.turns, 5))


def _percentile(values: list[float], q: int) -> float:
    """The smallest value that `q` percent of them do not exceed; NaN of nothing."""
    return nearest_rank(sorted(values), q) if values else float("nan")
