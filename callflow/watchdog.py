"""One sweep: find the calls whose callers have waited for too long, and give them to somebody.

It may be run by anybody at any time, twice at once or by nobody for a while; each thing it does is
a compare-and-set on the record. What it may get wrong: a worker that is alive but cut off from the
server loses its call. Its turn is then done twice and said once, because its fence is too small.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from callflow.celery import wake, wake_ring
from callflow.store.calls import CallStore
from callflow.store.leases import Findings, Leases, Suspect
from callflow.store.outcome import Finish, Release
from callflow.transfer import PassedTo, pass_on

GONE = "gone"
"""The holder's process is dead: its subscription has vanished."""

SILENT = "silent"
"""The holder has not beaten for `stale_after_s`, whatever else seems alive: frozen, or cut off."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """How many calls one sweep gave to whom."""

    reclaimed: int = 0
    """taken back from a dead or silent worker (all of the next two lines)"""
    to_worker: int = 0
    to_human: int = 0
    woken: int = 0
    """owed turns whose message was lost"""
    rung: int = 0
    """calls whose ladder of humans was to go on"""
    abandoned: int = 0
    """ended because nothing has happened for very long"""

    def __str__(self) -> str:
        return " ".join(f"{name}={count}" for name, count in asdict(self).items())


@dataclass(frozen=True, slots=True)
class Watchdog:
    """What a sweep needs; built once per process by `bootstrap`."""

    store: CallStore
    leases: Leases

    def sweep(self, by: str, *, now_ms: int | None = None) -> Sweep:
        """One round over all calls. `by`: who sweeps, for people who look."""
        self.leases.mark_sweep(by)
        return self._round(now_ms)

    def sweep_if_missed(self, by: str) -> Sweep | None:
        """The same, if nobody else has swept for a second; None otherwise."""
        return self._round(None) if self.leases.take_missed_sweep(by) else None

    def _round(self, now_ms: int | None) -> Sweep:
        found = self.leases.look(now_ms=now_ms)
        passed = [
            who
            for suspect, reason in self._fallen(found)
            if (who := self._take_back(suspect, reason, now_ms)) is not None
        ]
        unclaimed = self.leases.take_unclaimed(found.unclaimed, now_ms=now_ms)
        for call_sid, attempts in unclaimed:
            # Behind a backlog nothing is lost: only a call that was taken over jumps the queue.
            wake(call_sid, takeover=attempts > 0)
        for call_sid in found.rings:
            wake_ring(call_sid)
        ended = [
            self.store.end(call_sid, "abandoned", now_ms=now_ms) for call_sid in found.abandoned
        ]
        return Sweep(
            reclaimed=len(passed),
            to_worker=passed.count(PassedTo.WORKER),
            to_human=passed.count(PassedTo.HUMAN),
            woken=len(unclaimed),
            rung=len(found.rings),
            abandoned=ended.count(Finish.FINISHED),
        )

    def _fallen(self, found: Findings) -> list[tuple[Suspect, str]]:
        """The suspects whose holders are not coming back, with the reason."""
        stale_ms = self.store.timing.stale_ms
        silent = [s for s in found.suspects if found.now_ms - s.last_beat >= stale_ms]
        late = [s for s in found.suspects if found.now_ms - s.last_beat < stale_ms]
        fallen = [(suspect, SILENT) for suspect in silent]
        if late and found.presence_counts:
            present = self.leases.present(sorted({suspect.worker for suspect in late}))
            fallen += [(suspect, GONE) for suspect in late if suspect.worker not in present]
        return fallen

    def _take_back(self, suspect: Suspect, reason: str, now_ms: int | None) -> PassedTo | None:
        released = self.store.reclaim(
            suspect.call_sid, suspect.fence, suspect.last_beat, reason, now_ms=now_ms
        )
        if released.word is not Release.RELEASED:
            return None
        return pass_on(self.store, suspect.call_sid, released.attempts)
