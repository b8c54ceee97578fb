"""What surrounds the calls: workers, sweeps and queues, asked for beside the looks at the calls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from callflow.call.deadline import Timing
from callflow.celery import CALLS, waiting
from callflow.health.deployment_checks import UNDERSTUDY
from callflow.health.worker_checks import Workforce
from callflow.health.worker_reports import ReportStore, WorkerReports
from callflow.metrics.catalogue import PHASES, SILENT
from callflow.redis.scripts import Scripts
from callflow.store.leases import Leases
from callflow.store.unarchived import Unarchived

EVERY_S: Final = 2.0
"""How often it is asked for; workers speak once a second."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What was found at one moment. `queues`: None where the broker could not be asked; `swept`: by
    whom and how many ms ago, None where that is more than a second ago."""

    queues: Mapping[str, int] | None
    roll: WorkerReports
    swept: tuple[str, int] | None
    unarchived: tuple[int, int] | None = None
    """how many complete calls wait to be archived, and since how many ms the first; None where no
    records are kept"""

    @property
    def by_understudy(self) -> bool:
        """A worker's parent swept, since no watchdog did."""
        return self.swept is not None and self.swept[0].endswith(UNDERSTUDY)

    @property
    def phases(self) -> dict[str, int]:
        """How many workers are in which phase of their life, or silent."""
        found = dict.fromkeys(PHASES, 0)
        for one in self.roll.reports:
            found[SILENT if self.roll.silent_ms(one) else str(one.phase)] += 1
        return found

    @property
    def slots(self) -> tuple[int, int]:
        """Of the workers that take calls: how many turns they can run at once, how many they do."""
        workforce = Workforce(self.roll, {}, CALLS, {})
        return workforce.slots, workforce.busy


class Survey:
    """Asks the store and the broker; blocking, a few round trips. `keeps`: records are kept."""

    def __init__(self, scripts: Scripts, timing: Timing, *, keeps: bool = False) -> None:
        self._unarchived = Unarchived(scripts, timing.completed_ttl_ms) if keeps else None
        self._vitals = ReportStore(scripts)
        self._leases = Leases(scripts, timing)

    def look(self) -> Surroundings:
        """What there is now. Raises StoreError; without the broker there are no queues."""
        found = None if self._unarchived is None else self._unarchived.look(1)
        return Surroundings(
            waiting(),
            self._vitals.read(),
            self._leases.last_sweep(),
            None if found is None else (found.count, found.oldest_ms),
        )
