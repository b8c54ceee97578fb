"""What some work costs: CPU of the server and of the workers, commands, bytes, memory.

The server counts for itself (INFO). The workers' CPU is read from /proc, so this part needs Linux.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Self

import redis

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Cost:
    """Sums since some start; the difference of two is what lay between them."""

    server_cpu_s: float = 0.0
    worker_cpu_s: float = 0.0
    """of all processes of the stack: workers with their children, watchdog, scheduler"""
    commands: float = 0
    """as the server counts them: those that a script calls are counted as well"""
    bytes_in: float = 0
    bytes_out: float = 0

    def __sub__(self, other: Self) -> Self:
        return type(self)(*(getattr(self, f.name) - getattr(other, f.name) for f in fields(self)))

    def __add__(self, other: Self) -> Self:
        return type(self)(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))


def read(client: redis.Redis, roots: Iterable[int]) -> Cost:
    """The sums so far of one server and of the processes `roots` with all their descendants."""
    info = client.info("everything")
    return Cost(
        server_cpu_s=info["used_cpu_user"] + info["used_cpu_sys"],
        worker_cpu_s=sum(tree_cpu_s(root) for root in roots),
        commands=info["total_commands_processed"],
        bytes_in=info["total_net_input_bytes"],
        bytes_out=info["total_net_output_bytes"],
    )


def tree_cpu_s(root: int) -> float:
    """CPU seconds of a process and all its descendants, those that were reaped included."""
    stats = _all_stats()
    children: dict[int, list[int]] = {}
    for pid, (parent, _) in stats.items():
        children.setdefault(parent, []).append(pid)
    total, open_ends = 0, [root]
    while open_ends:
        pid = open_ends.pop()
        total += stats.get(pid, (0, 0))[1]
        open_ends += children.get(pid, ())
    return total / _TICKS_PER_S


def _all_stats() -> dict[int, tuple[int, int]]:
    """Every process: its parent, and its clock ticks with those of the children it has reaped."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except OSError:
                continue  # it ended while we looked
            # The name, in parentheses, may hold anything; the fields after it are fixed.
            after = stat.rpartition(")")[2].split()
            found[int(entry.name)] = int(after[1]), sum(int(ticks) for ticks in after[11:15])
    return found


def bytes_held(client: redis.Redis) -> int:
    """Bytes that all keys occupy, but for the broker's own few.

    The difference before and after some calls is what they leave behind: records, indexes, results.
    """
    keys = [key for key in client.scan_iter(count=1000) if not key.startswith(b"_kombu")]
    with client.pipeline(transaction=False) as pipe:
        for key in keys:
            pipe.memory_usage(key, samples=0)
        return sum(size or 0 for size in pipe.execute())
