"""One conversational turn: claim → analyse → respond → commit.

Everything it knows it reads from the record, and everything it learns it writes there under its
fence, so that at any line of this file the process may vanish: another worker runs the same file
from the same record. The caller hears a short pause, never a restart.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum

from callflow import logs, tracing
from callflow.call.facts import merged
from callflow.call.limits import Escalation, escalation
from callflow.call.record import CallRecord
from callflow.errors import CallflowError, LeaseLost
from callflow.handover import POISON, hand_on, hand_to_human
from callflow.heartbeat import DEADLINE, DRAINED, Heartbeat, LeaseGuard
from callflow.messages import wake, wake_ring
from callflow.responder import Piece, Responder
from callflow.store.calls import CallStore
from callflow.store.result import Claimed, Lease, Result
from callflow.understand import Understanding


class TurnOutcome(StrEnum):
    """What a worker that was woken made of it."""

    ANSWERED = "answered"
    IDLE = "idle"
    """Nothing was owed: the message was late or doubled."""
    HELD = "held"
    """Another worker has the call."""
    ENDED = "ended"
    UNKNOWN = "unknown"
    LOST = "lost"
    """The lease was taken from us in the middle: whoever has it now answers."""
    TRANSFERRED = "transferred"
    DRAINED = "drained"
    """This worker is to end and begins no turn: another one was woken."""


FOR_NOTHING = frozenset(
    (TurnOutcome.IDLE, TurnOutcome.HELD, TurnOutcome.ENDED, TurnOutcome.UNKNOWN)
)
"""What a worker made of a message that came late, or doubled."""

_OUTCOMES = {
    Result.IDLE: TurnOutcome.IDLE,
    Result.HELD: TurnOutcome.HELD,
    Result.ENDED: TurnOutcome.ENDED,
    Result.UNKNOWN: TurnOutcome.UNKNOWN,
    Result.FENCED: TurnOutcome.LOST,
}
"""What a refusal of the store makes of a turn."""


class UnfinishedReply(CallflowError):
    """A responder ended without saying that it had: a mistake in the responder."""


@dataclass(frozen=True, slots=True)
class Turns:
    """Runs the turns of a worker process; built once per process by `bootstrap`."""

    store: CallStore
    heartbeat: Heartbeat
    understanding: Understanding
    responder: Responder
    script: Responder
    """Words the reply of a turn that has cost too many workers: nothing in it can fail."""

    def run(self, call_sid: str) -> TurnOutcome:
        """Answer the oldest owed utterance of one call; woken twice, it is answered once.

        An exception of the responder gives the call to another worker and is raised.
        """
        worker = self.heartbeat.worker
        if self.heartbeat.drain.begun:
            wake(call_sid, takeover=True)
            return TurnOutcome.DRAINED
        with logs.bound(call_sid=call_sid, worker=worker):
            self.heartbeat.start()
            since, since_ns = time.monotonic(), tracing.now_ns()
            claimed = self.store.claim(call_sid, worker, secrets.token_hex(8))
            if isinstance(claimed, Result):
                return _OUTCOMES[claimed]
            with (
                _observed(claimed, since_ns) as span,
                self.heartbeat.guard(claimed.lease, since, self._hand_back_late) as guard,
            ):
                outcome = self._answer_or_hand_back(claimed.record, guard)
                tracing.note(span, outcome=outcome)
                return outcome

    def _answer_or_hand_back(self, record: CallRecord, guard: LeaseGuard) -> TurnOutcome:
        try:
            return self._answer(record, guard)
        except LeaseLost:
            return TurnOutcome.LOST
        except Exception as error:
            self._hand_back(guard.lease, type(error).__name__, costs=True)
            raise
        except BaseException:
            # SystemExit: Celery ends the process. The turn is as good as new.
            self._hand_back(guard.lease, DRAINED, costs=False)
            raise

    def _answer(self, record: CallRecord, guard: LeaseGuard) -> TurnOutcome:
        whom = escalation(record.attempts)
        if whom is Escalation.HUMAN:
            result = hand_to_human(self.store, record.call_sid, POISON, lease=guard.lease)
            return _OUTCOMES.get(result, TurnOutcome.TRANSFERRED)
        record = self._analyse(record, guard.lease)
        text, last = self._respond(record, guard, whom)
        return self._commit(record, guard.lease, text, last)

    def _analyse(self, record: CallRecord, lease: Lease) -> CallRecord:
        """The record with what the oldest utterance that is owed a reply says, and the procedures
        for it. All of it is kept: the worker that takes over finds it there."""
        if record.understood > record.answered:
            return record
        with tracing.span("understand") as span:
            analysed = self.understanding.analyse(record).applied_to(record)
            tracing.note(span, scenario=analysed.scenario_type)
            saved = self.store.save_analysis(lease, analysed)
        _require_lease(lease, saved.result)
        if saved.alerted:
            # Where life is at risk nobody waits for our words.
            wake_ring(record.call_sid)
        return analysed

    def _respond(
        self, record: CallRecord, guard: LeaseGuard, whom: Escalation
    ) -> tuple[str, Piece]:
        """Send the reply piece by piece; all of it, and its last piece."""
        with tracing.span("respond", rung=whom):
            if whom is not Escalation.SCRIPT:
                return self._send_pieces(record, guard, self.responder)
            text, last = self._send_pieces(record, guard, self.script)
            # One for a human to look at.
            return text, replace(last, needs_human=last.needs_human or POISON)

    def _send_pieces(
        self, record: CallRecord, guard: LeaseGuard, responder: Responder
    ) -> tuple[str, Piece]:
        turn = record.answered + 1
        text = record.draft.text if record.draft and record.draft.turn == turn else ""
        for piece in responder.respond(record, guard.stop):
            guard.check()
            for remark in piece.remarks:
                # What a guard has caught and how a model has failed.
                self.store.handovers.add_journal_line(record.call_sid, "remarked", remark)
            text += piece.text
            if piece.last:
                return text, piece
            _require_lease(
                guard.lease, self.store.save_draft(guard.lease, turn, text, lang=record.language)
            )
        guard.check()
        raise UnfinishedReply(f"{type(responder).__name__} ended without a last piece")

    def _commit(self, record: CallRecord, lease: Lease, text: str, last: Piece) -> TurnOutcome:
        with tracing.span("commit") as span:
            committed = self.store.commit(
                lease,
                record.answered + 1,
                text,
                sop_step=last.sop_step,
                needs_human=last.needs_human,
                facts=merged(record.facts, last.facts) if last.facts else None,
                lang=record.language,
            )
            tracing.note(span, outcome=committed.result)
        if committed.alerted:
            wake_ring(record.call_sid)
        if committed.result is Result.MOVED:
            wake(record.call_sid, urgency="P1" if committed.hurried else record.urgency)
        return _OUTCOMES.get(committed.result, TurnOutcome.ANSWERED)

    def _hand_back_late(self, lease: Lease, reason: str) -> None:
        self._hand_back(lease, reason, costs=reason == DEADLINE)

    def _hand_back(self, lease: Lease, reason: str, *, costs: bool) -> None:
        with logs.bound(call_sid=lease.call_sid, fence=lease.fence):
            released = self.store.hand_back(lease, reason, costs=costs)
            if released.result is Result.OK:
                hand_on(self.store, lease.call_sid, released.attempts)


@contextmanager
def _observed(claimed: Claimed, since_ns: int) -> Iterator[tracing.Span]:
    """Logs and traces are told which turn it is that goes on; `since_ns`: when it was claimed."""
    record, lease = claimed.record, claimed.lease
    turn = record.answered + 1
    with (
        logs.bound(turn=turn, fence=lease.fence),
        tracing.turn("turn", record.call_sid, turn, since_ns=since_ns, fence=lease.fence) as span,
    ):
        tracing.note(span, worker=lease.worker, attempts=record.attempts)
        with tracing.span("claim", since_ns=since_ns):
            pass  # It was made before anybody knew of which turn.
        yield span


def _require_lease(lease: Lease, result: Result) -> None:
    if result is not Result.OK:
        raise LeaseLost(lease.call_sid, lease.fence, f"the server says: {result}")
