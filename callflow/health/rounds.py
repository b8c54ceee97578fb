"""A doctor's round: are the calls looked after? Who takes them, who sweeps, and who has to wait?"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from callflow.call.deadline import Timing
from callflow.call.record import CallRecord
from callflow.call.words import waiting_since
from callflow.health.check import Check, Grade
from callflow.health.vitals import Vitals, VitalSigns
from callflow.health.workers import UNTAKEN_MS, Staff, Trouble, findings, troubles
from callflow.redis.client import translated
from callflow.redis.scripts import Scripts
from callflow.store.keys import ALL_SHARDS
from callflow.store.leases import Leases
from callflow.store.reader import CallReader

OWED_TOO_LONG_MS = 10_000
"""No turn waits so long on a deployment that works: the ladder has reached a human before."""

LOOK_AGAIN_S = 1.2
"""Before a second look every parent has spoken once more."""

UNDERSTUDY = " (understudy)"
"""How the name of a worker ends that swept because no watchdog did."""

SWEEP_SAMPLES_S = (0.0, 0.5, 0.6)
"""Pauses before each look for a sweep: one may just have run out, and the next be on its way."""

START_WATCHDOG = "start `celery -A callflow worker -Q watchdog -P solo -c 1`"
START_BEAT = "start `celery -A callflow beat`"
WATCHDOG_WAY_OUT = f"{START_WATCHDOG} and `celery -A callflow beat`"

SAMPLED = 100
"""Of each index, for a doctor."""

SAMPLED_OFTEN = 1
"""And where anybody may ask, several times a second: who waits longest stands at an end of it."""


class Rounds:
    """Looks at the workers and the calls of one deployment.

    `calls` are the queues into which calls are sent, `sweeps` is that for sweeps; `waiting()` tells
    how many messages are in each, or nothing where the broker cannot be asked.
    """

    def __init__(
        self,
        scripts: Scripts,
        timing: Timing,
        *,
        calls: Sequence[str],
        sweeps: str,
        waiting: Callable[[], Mapping[str, int]],
    ) -> None:
        self._scripts = scripts
        self._timing = timing
        self._calls = calls
        self._watchdog = sweeps
        self._waiting = waiting
        self._leases = Leases(scripts, timing)
        self._snapshots = CallReader(scripts.client)
        self._vitals = Vitals(scripts)

    def checks(self) -> Iterator[Check]:
        """One finding after the other. Raises StoreError when it is cut off."""
        staff, found = findings(self.look, lambda: time.sleep(LOOK_AGAIN_S))
        yield from found
        yield self._sweeps(staff)
        yield self._owed(staff, SAMPLED)

    def troubles(self) -> tuple[Staff, list[Trouble]]:
        """All workers at this moment, and what keeps callers from being answered: what a doctor
        calls a failure, after one look, for whoever asks often. Raises StoreError."""
        staff = self.look()
        found = [one for one in troubles(staff) if one.grade is Grade.FAILURE]
        try:
            owed = self._owed(staff, SAMPLED_OFTEN)
        except ValueError as error:
            # It ends no web process's service: its callers are those that can be read.
            told = f"the record of a call that waits cannot be read: {type(error).__name__}"
            owed = Check("owed turns", Grade.FAILURE, told, "see `callflow calls ls`")
        if owed.grade is Grade.FAILURE:
            found.append(Trouble(owed.name, "", owed.grade, owed.sentence, owed.way_out))
        return staff, found

    def look(self) -> Staff:
        """All workers at this moment."""
        present: dict[str, int] = {}
        for name in self._leases.present_now():
            node = name.partition("/")[0]
            present[node] = present.get(node, 0) + 1
        counts = self._snapshots.counts()
        # What waits is asked for first: who takes it at this moment says so afterwards.
        waiting = self._waiting()
        return Staff(
            self._vitals.call_roll(),
            present,
            self._calls,
            waiting,
            in_work=counts["leased"],
            unclaimed=counts["owed"],
        )

    def _sweeps(self, staff: Staff) -> Check:
        understudy = ""
        for pause_s in SWEEP_SAMPLES_S:
            time.sleep(pause_s)
            by, ago_ms = self._leases.last_sweep() or ("", 0)
            if by.endswith(UNDERSTUDY):
                understudy = by.removesuffix(UNDERSTUDY)
            elif by:
                return Check("watchdog", Grade.OK, f"{by} swept {max(0, ago_ms)} ms ago")
        if understudy:
            cause, way_out = self._why_missed(staff)
            told = f"swept by an understudy of {understudy}: {cause}"
            return Check("watchdog", Grade.WARNING, told, way_out)
        return Check(
            "watchdog",
            Grade.FAILURE,
            "nobody has swept for a second: the call of a dead worker would not be taken over",
            "start workers (each is an understudy), `celery -A callflow beat` and a worker -Q "
            "watchdog; `callflow sweep` does one round by hand",
        )

    def _why_missed(self, staff: Staff) -> tuple[str, str]:
        """Why sweeps are left to understudies, and what can be done about it."""
        idle = [one for one in staff.working if self._watchdog in one.queues]
        if not idle:
            return "no watchdog worker takes sweeps", WATCHDOG_WAY_OUT
        if staff.waiting.get(self._watchdog):
            return f"{_names(idle)} takes no sweeps although some wait", START_WATCHDOG
        told = (
            f"{_names(idle)} waits for sweeps and no beat asks for them, or its clock is so far "
            "off that they have expired when they arrive"
        )
        return told, START_BEAT

    def _owed(self, staff: Staff, sampled: int) -> Check:
        owed = self._oldest(sampled)
        now_ms = self._snapshots.now_ms()
        oldest_ms = max((now_ms - at for at, _ in owed), default=0)
        unclaimed_ms = max((now_ms - at for at, record in owed if _unclaimed(record)), default=0)
        counts = self._snapshots.counts()
        told = (
            f"{counts['owed'] + counts['leased']} of {counts['active']} calls wait for a reply: "
            f"{counts['leased']} in work, {counts['owed']} unclaimed"
        )
        if owed:
            told += f"; the longest waits {oldest_ms / 1000:.1f} s"
        # Past its deadline it was woken again.
        if staff.free and unclaimed_ms > self._timing.owed_ms + UNTAKEN_MS:
            return Check(
                "owed turns",
                Grade.FAILURE,
                f"{told}; {staff.free} slots are free, and nobody takes what has been "
                f"unclaimed for {unclaimed_ms / 1000:.1f} s",
                "restart the workers that do not take it; see `callflow calls watch`",
            )
        if not staff.free and oldest_ms > self._timing.turn_ms:
            told += "; no slot is free, and no turn may take so long"
        elif oldest_ms <= OWED_TOO_LONG_MS:
            return Check("owed turns", Grade.OK, told)
        return Check(
            "owed turns",
            Grade.FAILURE,
            told,
            "look at `callflow calls watch`; add workers if they are all busy",
        )

    def _oldest(self, sampled: int) -> list[tuple[int, CallRecord]]:
        """Calls that wait for a reply, each with the time since when (server's clock, ms): of each
        index so many from both ends. The longer one has waited for a worker, the further its
        deadline was set on; without sweeps it is the other way round."""
        client = self._scripts.client
        with translated(self._scripts.where), client.pipeline(transaction=False) as pipe:
            for shard in ALL_SHARDS:
                pipe.zrange(shard.owed, 0, sampled - 1)
                pipe.zrange(shard.owed, -sampled, -1)
                pipe.zrange(shard.leases, 0, sampled - 1)
            sids = sorted({sid for found in pipe.execute() for sid in found})
        return [
            (at, record)
            for record in self._snapshots.find_all(sids).values()
            if (at := waiting_since(record)) is not None
        ]


def _unclaimed(record: CallRecord) -> bool:
    return record.assigned_worker is None


def _names(found: Sequence[VitalSigns]) -> str:
    return ", ".join(one.node for one in found)
