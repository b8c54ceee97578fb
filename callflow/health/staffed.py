"""Who is there to answer calls, and whether anybody looks after them: the lamps of the board."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from callflow.celery import CALLS, WATCHDOG
from callflow.health.rounds import UNDERSTUDY
from callflow.health.vitals import Vitals
from callflow.health.workers import Staff
from callflow.store.leases import Leases

Lamp = Literal["ok", "understudy", "bad", "unknown"]


@dataclass(frozen=True, slots=True)
class Staffed:
    """What the store tells of the processes around it; before it was asked, nothing."""

    workers: int = 0
    """that take calls"""
    processes: int = 0
    """that run turns, by their open subscriptions"""
    slots: int = 0
    """turns at once"""
    busy: int = 0
    """of these, in work"""
    watchdog: Lamp = "unknown"
    """ok: a watchdog worker sweeps; understudy: another worker in its stead; bad: nobody does"""
    beat: Lamp = "unknown"
    """bad: a watchdog worker is there, and nobody asks it for sweeps; unknown: there is none, so
    nobody can tell"""
    swept_by: str = ""
    swept_ms: int | None = None
    """how long ago; None: longer than a second"""


def staffed(vitals: Vitals, leases: Leases) -> Staffed:
    """Ask. Raises StoreError."""
    staff = Staff(vitals.call_roll(), {}, CALLS, {}, in_work=0, unclaimed=0)
    swept = leases.last_sweep()
    dogs = any(WATCHDOG in one.queues for one in staff.working)
    # What is swept on time is swept by the task that beat has sent.
    on_time = swept is not None and not swept[0].endswith(UNDERSTUDY)
    return Staffed(
        workers=len(staff.serving),
        processes=len(leases.present_now()),
        slots=staff.slots,
        busy=sum(one.busy for one in staff.serving),
        watchdog="bad" if swept is None else "ok" if on_time else "understudy",
        beat="ok" if on_time else "bad" if dogs else "unknown",
        swept_by="" if swept is None else swept[0],
        swept_ms=None if swept is None else swept[1],
    )
