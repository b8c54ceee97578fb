"""`python -m benchmarks telephone`: one web process with many calls that wait, and its sockets.

Gather: so many calls speak at once and wait in `/voice/turn`; then all replies are committed, back
to back, by this process, which plays the worker. Relay: this process notes the first words of a
reply and waits for them at the caller's end of the socket. All requests are signed. Callers,
worker and clock are in this process, so what they take is part of every time that is reported.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import socket
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks import machine
from benchmarks.lines import (
    BEGINNING,
    PUBLIC_URL,
    REPLY,
    SAID,
    TOKEN,
    Request,
    Socket,
    Worker,
    ask_all,
    new_sid,
)
from benchmarks.meter import tree_cpu_s
from benchmarks.waiting import wait_until
from callflow.lab.embedded_server import EmbeddedServer
from callflow.lab.percentiles import nearest_rank
from callflow.lab.stack import LocalStack, StackProcess, free_port
from callflow.redis.client import connect
from callflow.redis.scripts import Scripts
from callflow.settings import Settings
from callflow.store.calls import CallStore

SPREAD_S = 1.0
"""Fifty first tokens of fifty real calls do not come at one moment."""

_BARE = """
import sys, uvicorn
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route
async def turn(request):
    await request.body()
    return Response("<Response><Say>{said}</Say></Response>", media_type="text/xml")
app = Starlette(routes=[Route("/voice/turn", turn, methods=["POST"])])
uvicorn.run(app, port=int(sys.argv[1]), log_level="warning", access_log=False, backlog=2048)
""".replace("{said}", REPLY)
"""A process that imports nothing of ours: its memory is that of Starlette and uvicorn."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is measured. `hold_s`: how long the Gather calls wait before the first reply."""

    calls: int = 500
    sockets: int = 50
    rounds: int = 3
    turns: int = 10
    hold_s: float = 2.0


@dataclass(frozen=True, slots=True)
class Size:
    """A process now: resident memory in MB, threads, CPU seconds since its start."""

    rss_mb: float
    threads: int
    cpu_s: float

    @classmethod
    def of(cls, process: StackProcess) -> Size:
        """Read from /proc."""
        lines = Path(f"/proc/{process.pid}/status").read_text(encoding="utf-8").splitlines()
        status = dict(line.split(":", 1) for line in lines)
        rss_kb = int(status["VmRSS"].split()[0])
        return cls(rss_kb / 1000, int(status["Threads"]), tree_cpu_s(process.pid))


def spread(times_s: Sequence[float]) -> dict[str, float]:
    """p50, p99 (nearest rank) and max, in ms."""
    ranked = sorted(times_s)
    ranks = {"p50_ms": 50, "p99_ms": 99, "max_ms": 100}
    return {name: round(1000 * nearest_rank(ranked, rank), 2) for name, rank in ranks.items()}


async def gather_round(worker: Worker, web: StackProcess, port: int, plan: Plan) -> dict[str, Any]:
    """One round of calls that arrive, speak at once, wait, and are answered at once."""
    sids = [new_sid() for _ in range(plan.calls)]
    started = Size.of(web)
    await ask_all(port, [Request.of(sid, "/voice/inbound") for sid in sids])
    turns = [Request.of(sid, "/voice/turn?n=1", SpeechResult=SAID) for sid in sids]
    opened, began_at = Size.of(web), time.monotonic()
    asking = asyncio.create_task(ask_all(port, turns))
    leases = await asyncio.to_thread(worker.claim_all, sids)
    taken_s, taken = time.monotonic() - began_at, Size.of(web)
    await asyncio.sleep(max(0.0, plan.hold_s - taken_s))
    waiting, waited_s = Size.of(web), time.monotonic() - began_at - taken_s
    released_at = time.monotonic()
    await asyncio.to_thread(worker.commit_all, leases, 1, REPLY)
    release_s = time.monotonic() - released_at
    answers = await asking
    told = [one for one in answers if "I have understood" in one.text]
    after_s = [one.came_at - worker.produced_at[one.sid] for one in told]
    for sid in sids:
        worker.store.end(sid, "hung_up")
    return {
        "answered": len(told),
        "held": len(answers) - len(told),
        "after_commit_s": after_s,
        "stored_and_claimed_ms": round(1000 * taken_s),
        "committed_ms": round(1000 * release_s),
        "rss_mb": [round(one.rss_mb, 1) for one in (started, opened, waiting)],
        "threads": [one.threads for one in (started, opened, waiting)],
        "cpu_s": round(Size.of(web).cpu_s - opened.cpu_s, 2),
        "cpu_waiting_share": round((waiting.cpu_s - taken.cpu_s) / max(waited_s, 0.01), 3),
    }


async def bare_round(bare: StackProcess, port: int, plan: Plan) -> dict[str, Any]:
    """The same turns at once, to a route that answers at once."""
    began = Size.of(bare)
    sids = [new_sid() for _ in range(plan.calls)]
    turns = [Request.of(sid, "/voice/turn?n=1", SpeechResult=SAID) for sid in sids]
    answers = await ask_all(port, turns)
    done = Size.of(bare)
    return {
        "answer_s": [one.came_at - one.began_at for one in answers],
        "rss_mb": [round(began.rss_mb, 1), round(done.rss_mb, 1)],
        "threads": [began.threads, done.threads],
        "cpu_s": round(done.cpu_s - began.cpu_s, 2),
    }


async def relay_turns(worker: Worker, port: int, plan: Plan, over_s: float) -> list[float]:
    """Seconds from a reply's first words at the worker to the caller, for every turn of every call.

    `over_s`: the calls' first words come evenly within so many seconds; 0: all at one moment.
    """
    sockets = [await Socket.open(port) for _ in range(plan.sockets)]
    found: list[float] = []
    try:
        for turn in range(1, plan.turns + 1):
            for one in sockets:
                await one.send(type="prompt", voicePrompt=f"{SAID}, {turn}", last=True)
            leases = await asyncio.to_thread(worker.claim_all, [one.sid for one in sockets])
            hearing = [asyncio.create_task(one.first_token()) for one in sockets]
            await asyncio.to_thread(worker.draft_all, leases, turn, BEGINNING, over_s)
            came_at = await asyncio.gather(*hearing)
            pairs = zip(sockets, came_at, strict=True)
            found += [at - worker.produced_at[one.sid] for one, at in pairs]
            await asyncio.to_thread(worker.commit_all, leases, turn, REPLY)
            await asyncio.gather(*(one.rest() for one in sockets))
    finally:
        await asyncio.gather(*(one.connection.close() for one in sockets))
    return found


def run(plan: Plan, scratch: Path) -> dict[str, Any]:
    """Measure all of it against a server and processes of its own."""
    with EmbeddedServer.start() as server, connect(server.url) as client:
        worker = Worker(CallStore(Scripts(client), Settings().timing), client)
        with _web(server.url, scratch) as (web, port, bare, bare_port):
            asyncio.run(bare_round(bare, bare_port, Plan(calls=5)))  # Both are warm from here on.
            asyncio.run(gather_round(worker, web, port, Plan(calls=5, hold_s=0)))
            gathers, bares = [], []
            for _ in range(plan.rounds):
                bares.append(asyncio.run(bare_round(bare, bare_port, plan)))
                gathers.append(asyncio.run(gather_round(worker, web, port, plan)))
            relays = {
                name: asyncio.run(relay_turns(worker, port, plan, over_s))
                for name, over_s in (("at_once", 0.0), ("over_1_s", SPREAD_S))
            }
    return {
        "gather": _summary(gathers, "after_commit_s"),
        "bare": _summary(bares, "answer_s"),
        "relay": {name: {"tokens": len(found), **spread(found)} for name, found in relays.items()},
    }


def _summary(rounds: list[dict[str, Any]], times: str) -> dict[str, Any]:
    every = [one.pop(times) for one in rounds]
    each = [{**one, **spread(found)} for one, found in zip(rounds, every, strict=True) if found]
    return {**spread([time_s for found in every for time_s in found]), "rounds": each}


@contextmanager
def _web(url: str, scratch: Path) -> Iterator[tuple[StackProcess, int, StackProcess, int]]:
    env = {
        "CALLFLOW_REDIS_URL": url,
        "CALLFLOW_BROKER_URL": "",
        "CALLFLOW_PUBLIC_URL": PUBLIC_URL,
        "CALLFLOW_TWILIO_AUTH_TOKEN": TOKEN,
        "CALLFLOW_SITES": str(resources.files("callflow.lab.chaos") / "demo_sites.yaml"),
    }
    with LocalStack(env, scratch / "logs") as stack:
        port, bare_port = free_port(), free_port()
        web = stack.start_web(port)
        bare = stack.start("bare", [sys.executable, "-c", _BARE, str(bare_port)])
        for process, at in ((web, port), (bare, bare_port)):
            wait_until(lambda at=at: listens(at), f"{process.name} listens", 30)  # type: ignore[misc]
        yield web, port, bare, bare_port


def listens(port: int) -> bool:
    """Whether anybody listens there, on loopback."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def main(arguments: list[str] | None = None) -> int:
    """Measure and print. With `--json` the last line of stdout is the whole result."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks telephone", description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON object on the last line")
    whats = {
        "calls": "Gather calls at once",
        "sockets": "relay sockets",
        "rounds": "rounds of Gather calls",
        "turns": "turns of a relay call",
        "hold_s": "seconds that Gather calls wait",
    }
    for name, what in whats.items():
        usual = Plan.__dataclass_fields__[name].default
        flag = f"--{name.removesuffix('_s')}"
        parser.add_argument(
            flag, dest=name, type=type(usual), default=usual, help=f"{what} (default: {usual})"
        )
    asked = parser.parse_args(arguments)
    result: dict[str, Any] = {"machine": machine.describe()}
    with tempfile.TemporaryDirectory(prefix="callflow-benchmarks-") as scratch:
        result |= run(Plan(**{name: getattr(asked, name) for name in whats}), Path(scratch))
    if asked.json:
        print(json.dumps(result))
    else:
        show(result)
    return 0


def show(result: dict[str, Any]) -> None:
    """Print everything."""
    console = Console(width=120)
    console.print(" · ".join(f"{name} {value}" for name, value in result["machine"].items()))
    table = Table(title="ms until the caller has it", title_justify="left")
    for heading in ("", "p50", "p99", "max"):
        table.add_column(heading, justify="right" if heading else "left")
    rows = {
        "Gather: complete answer, after the commit": result["gather"],
        "bare route: complete answer, after the request": result["bare"],
        "relay: first token, all at one moment": result["relay"]["at_once"],
        "relay: first token, evenly over 1 s": result["relay"]["over_1_s"],
    }
    for name, row in rows.items():
        table.add_row(name, *(f"{row[f'{q}_ms']:.1f}" for q in ("p50", "p99", "max")))
    console.print(table)
    for name in ("gather", "bare"):
        rounds = Table(title=f"{name}, round by round", title_justify="left")
        for heading in result[name]["rounds"][0]:
            rounds.add_column(heading.replace("_", " "), justify="right")
        for one in result[name]["rounds"]:
            rounds.add_row(*(str(value).strip("[]") for value in one.values()))
        console.print(rounds)
