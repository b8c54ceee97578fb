"""`python -m benchmarks slots`: what a worker costs before its first call, bare and with extras.

A prefork worker is started as in production: by words and without a model, by meaning, and by
meaning with a model's client. Measured from the command to the worker's readiness, and as memory
(proportional set size, so that what processes share is counted once) of its parent and per slot.
Needs Linux.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks import machine
from benchmarks.waiting import wait_until
from callflow.lab.embedded_server import EmbeddedServer
from callflow.lab.stack import LocalStack
from callflow.redis.client import connect

KINDS: dict[str, dict[str, str]] = {
    "words": {"CALLFLOW_RETRIEVAL": "lexical"},
    "meaning": {"CALLFLOW_RETRIEVAL": "semantic"},
    "meaning and a model": {
        "CALLFLOW_RETRIEVAL": "semantic",
        "CALLFLOW_MODEL": "openai:none",
        "CALLFLOW_MODEL_URL": "http://127.0.0.1:9/v1",
    },
}


@dataclass(frozen=True, slots=True)
class Cost:
    """One worker: seconds until it could take a call, MB of all its processes, and per slot."""

    ready_s: float
    all_mb: float
    slot_mb: float


def main(arguments: Sequence[str]) -> int:
    """Measure, and print a table, or one JSON object on the last line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks slots", description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON object on the last line")
    parser.add_argument("--slots", type=int, default=4, help="slots of the worker (default: 4)")
    parser.add_argument("--rounds", type=int, default=3, help="starts of each (default: 3)")
    asked = parser.parse_args(arguments)
    costs: dict[str, list[Cost]] = {kind: [] for kind in KINDS}
    for _ in range(asked.rounds):
        for kind, given in KINDS.items():
            costs[kind].append(_started(given, asked.slots))
    result = {"machine": machine.describe(), "slots": asked.slots}
    shown = {kind: [asdict(each) for each in found] for kind, found in costs.items()}
    if asked.json:
        sys.stdout.write(json.dumps(result | {"workers": shown}) + "\n")
    else:
        _show(costs, asked.slots)
    return 0


def _started(given: dict[str, str], slots: int) -> Cost:
    with (
        tempfile.TemporaryDirectory(prefix="callflow-benchmarks-") as scratch,
        EmbeddedServer.start(Path(scratch) / "server") as server,
        connect(server.url) as client,
    ):
        with LocalStack({"CALLFLOW_REDIS_URL": server.url, **given}, Path(scratch)) as stack:
            began = time.monotonic()
            worker = stack.start_worker("w1", slots=slots)
            ready = lambda: len(client.pubsub_channels("*w1@*")) >= slots  # noqa: E731
            wait_until(ready, "the worker is ready", 120)
            ready_s = time.monotonic() - began
            pids = _tree(worker.pid)
            sizes = {pid: _pss_mb(pid) for pid in pids}
            children = [size for pid, size in sizes.items() if pid != worker.pid]
            return Cost(
                round(ready_s, 2),
                round(sum(sizes.values()), 1),
                round(sum(children) / max(1, len(children)), 1),
            )


def _tree(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(one for child in children for one in _tree(int(child)))]


def _pss_mb(pid: int) -> float:
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    line = next(line for line in rollup.splitlines() if line.startswith("Pss:"))
    return int(line.split()[1]) / 1024


def _show(costs: dict[str, list[Cost]], slots: int) -> None:
    table = Table("worker", "ready, s", f"all of {slots} slots, MB", "per slot, MB")
    for kind, found in costs.items():
        table.add_row(
            kind,
            " ".join(f"{each.ready_s:.1f}" for each in found),
            " ".join(f"{each.all_mb:.0f}" for each in found),
            " ".join(f"{each.slot_mb:.0f}" for each in found),
        )
    Console().print(table)
