"""One sweep: find the calls whose callers have waited for too long, and give them to somebody.

It may be run by anybody at any time, twice at once or by nobody for a while; each thing it does is
a compare-and-set on the record. What it may get wrong: a worker that is alive but cut off from the
server loses its call. Its turn is then done twice and said once, because its fence is too small.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from callflow import logs, tracing
from callflow.call.limits import Escalation
from callflow.handover import hand_on
from callflow.messages import any_waits, discard, next_turns, wake, wake_fetch, wake_ring
from callflow.store.calls import CallStore
from callflow.store.leases import Findings, Leases, Suspect
from callflow.store.result import Result

GONE = "gone"
"""The holder's process is dead: its subscription has vanished."""

SILENT = "silent"
"""The holder has not beaten for `stale_after_s`, whatever else seems alive: frozen, or cut off."""

STALE_BATCH = 50
"""Messages that are looked at together: some milliseconds, as one task costs that does nothing."""


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
    fetched: int = 0
    """calls whose callers no web process listened to any more"""
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

    def discard_stale(self, queue: str) -> int:
        """Throw away what is next in `queue` and asks for nothing, as long as that is most of it.

        For a worker that was just woken for nothing: after a flood of hang-ups, or an overload that
        humans have answered, thousands of such messages may stand before a caller who waits, and
        each costs a whole task. A message that is thrown away wrongly would be made good as any
        lost one; but a call that is owed anew has a newer one.
        """
        discarded = 0
        while True:
            waiting = next_turns(queue, STALE_BATCH)
            unserved = set(self.leases.unserved([call_sid for _, call_sid in waiting]))
            stale = []
            for message, call_sid in waiting:
                if call_sid in unserved:
                    # One is enough for each.
                    unserved.discard(call_sid)
                else:
                    stale.append(message)
            discard(queue, stale)
            discarded += len(stale)
            if len(stale) <= STALE_BATCH // 2:
                return discarded

    def _round(self, now_ms: int | None) -> Sweep:
        found = self.leases.look(now_ms=now_ms)
        passed = [
            who
            for suspect, reason in self._fallen(found)
            if (who := self._take_back(suspect, reason, now_ms)) is not None
        ]
        # Where nothing waits in the queues its message is lost, however long ago it was sent.
        backlog = bool(found.unclaimed) and any_waits()
        unclaimed = self.leases.take_unclaimed(found.unclaimed, backlog=backlog, now_ms=now_ms)
        for lost in unclaimed:
            # Behind a backlog nothing is lost: only a call that was taken over jumps the queue.
            wake(lost.call_sid, takeover=lost.attempts > 0, urgency=lost.urgency)
        for call_sid in found.rings:
            wake_ring(call_sid)
        for call_sid in found.lines:
            wake_fetch(call_sid)
        ended = [
            self.store.end(call_sid, "abandoned", now_ms=now_ms) for call_sid in found.abandoned
        ]
        if found.failure is not None:
            raise found.failure  # After all that could be done.
        return Sweep(
            reclaimed=len(passed),
            to_worker=len(passed) - passed.count(Escalation.HUMAN),
            to_human=passed.count(Escalation.HUMAN),
            woken=len(unclaimed),
            rung=len(found.rings),
            fetched=len(found.lines),
            abandoned=ended.count(Result.OK),
        )

    def _fallen(self, found: Findings) -> list[tuple[Suspect, str]]:
        """The suspects whose holders are not coming back, with the reason."""
        stale_ms = self.store.timing.stale_ms
        silent = [s for s in found.suspects if s.silent_ms >= stale_ms]
        late = [s for s in found.suspects if s.silent_ms < stale_ms]
        fallen = [(suspect, SILENT) for suspect in silent]
        if late and found.presence_counts:
            present = self.leases.present(sorted({suspect.worker for suspect in late}))
            fallen += [(suspect, GONE) for suspect in late if suspect.worker not in present]
        return fallen

    def _take_back(self, suspect: Suspect, reason: str, now_ms: int | None) -> Escalation | None:
        call_sid, fence = suspect.call_sid, suspect.fence
        with (
            logs.bound(call_sid=call_sid, fence=fence),
            tracing.span("reclaim", call_sid=call_sid, fence=fence, lost=suspect.worker) as span,
        ):
            released = self.store.reclaim(call_sid, fence, suspect.last_beat, reason, now_ms=now_ms)
            tracing.note(span, reason=reason, outcome=released.result, attempts=released.attempts)
            if released.result is not Result.OK:
                return None
            return hand_on(self.store, call_sid, released.attempts)
