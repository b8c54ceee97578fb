"""Keeps what the parent process of each worker reports of itself, about once a second.

It reports from the loop that takes the messages, so one whose loop is wedged, frozen or without its
broker falls silent. Silence is told from a death by the good-bye that a worker says when it ends,
so a silent one is remembered for a minute. All of it lies in one hash slot and ends by itself.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from typing import Any

from callflow.redis.client import translated
from callflow.redis.scripts import Scripts, invoke
from callflow.store.keys import PREFIX

REPORTS_KEY = f"{PREFIX}:{{vitals}}:signs"
UNTIL_KEY = f"{PREFIX}:{{vitals}}:until"
PROBE_KEY = f"{PREFIX}:{{vitals}}:probe"
"""Written to see whether anything can be."""

REMEMBERED_MS = 60_000
"""For so long after its silence was noticed one is remembered: longer than an operator needs to
look, and a machine that was replaced under a new name is not complained of for ever."""


class Phase(StrEnum):
    """Where in its life a worker is."""

    STARTING = "starting"
    """It has no connection to its broker yet."""
    WORKING = "working"
    DRAINING = "draining"
    """It was told to end, takes nothing more and need not speak again."""


@dataclass(frozen=True, slots=True)
class WorkerReport:
    """What one parent process has reported. A newer or older release's report is read, too."""

    node: str  # the worker's name, as its processes call themselves
    at: int = 0  # when, ms on the server's clock; 0 until it is kept
    patience_ms: int = 5_000  # silent for longer it is not well
    phase: Phase = Phase.WORKING
    pool: str = ""  # `prefork`, `threads`, `solo` …
    slots: int = 0  # turns at once
    children: int = 0  # of the slots, those whose processes live and have come up
    short_ms: int = 0  # for how long fewer than all of them have been ready
    lost: int = 0  # children that were lost in the last minute
    busy: int = 0  # messages taken and not done with
    oldest_ms: int = 0  # for how long the oldest of those has been in its hands
    turn_ms: int = 0  # the longest that a turn may take, as it is configured
    taken: int = 0  # messages taken since it started
    idle_ms: int = 0  # since it took the last one, or since it started
    queues: tuple[str, ...] = ()  # that it consumes
    up_ms: int = 0  # since it started
    version: str = ""

    @property
    def free(self) -> int:
        """How many turns more it could run at this moment."""
        return max(0, min(self.slots, self.children) - self.busy)

    @property
    def kept_ms(self) -> int:
        """For how long it is remembered."""
        return self.patience_ms + REMEMBERED_MS


@dataclass(frozen=True, slots=True)
class WorkerReports:
    """All that was reported, as it was known at one moment of the server's clock, ms."""

    now_ms: int
    reports: tuple[WorkerReport, ...]

    def silent_ms(self, report: WorkerReport) -> int:
        """For how long it has said nothing; 0 while that is no matter."""
        age_ms = self.now_ms - report.at
        return age_ms if age_ms > report.patience_ms else 0


class ReportStore:
    """Keeps and reads reports. All raise StoreUnavailable when the server is gone."""

    def __init__(self, scripts: Scripts) -> None:
        self._scripts = scripts

    def save(self, report: WorkerReport, *, now_ms: int | None = None) -> None:
        """Keep a report in place of the one before of the same node."""
        said = asdict(report)
        del said["at"]
        self._scripts.run(
            invoke(
                "save_worker_report",
                {"reports": REPORTS_KEY, "remembered": UNTIL_KEY},
                node=report.node,
                said=json.dumps(said),
                kept_ms=report.kept_ms,
                now_ms=now_ms,
            )
        )

    def forget(self, node: str) -> None:
        """Forget a node that has ended as it should. Twice is once."""
        client = self._scripts.client
        with translated(self._scripts.where), client.pipeline(transaction=False) as pipe:
            pipe.hdel(REPORTS_KEY, node)
            pipe.zrem(UNTIL_KEY, node)
            pipe.execute()

    def prove_writable(self) -> bool:
        """Write something that is gone in a moment; False where too few replicas have it in time.
        Raises StoreReadOnly and StoreFull, too."""
        least, wait_ms = self._scripts.replicas
        with translated(self._scripts.where), self._scripts.client.pipeline(False) as pipe:
            pipe.set(PROBE_KEY, "", px=1_000)
            if least:
                pipe.wait(least, wait_ms)
            answers = pipe.execute()
        return not least or int(answers[-1]) >= least

    def read(self, node: str = "", *, now_ms: int | None = None) -> WorkerReports:
        """The last reports of all nodes, by name, or that of `node`."""
        asked = invoke("read_worker_reports", {"reports": REPORTS_KEY}, node=node, now_ms=now_ms)
        facts = self._scripts.run(asked).facts
        now = int(facts["now"])
        found = [_report(json.loads(one)) for one in facts["said"]]
        kept = [one for one in found if now - one.at < one.kept_ms]
        return WorkerReports(now, tuple(sorted(kept, key=lambda one: one.node)))


_KNOWN = frozenset(field.name for field in fields(WorkerReport))


def _report(said: dict[str, Any]) -> WorkerReport:
    given = {name: value for name, value in said.items() if name in _KNOWN}
    if given.get("phase") not in list(Phase):
        given["phase"] = Phase.WORKING
    given["phase"] = Phase(given["phase"])
    given["queues"] = tuple(given.get("queues", ()))
    return WorkerReport(**given)
