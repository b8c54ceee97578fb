"""One conversational turn: claim → understand → retrieve → respond → commit.

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

from callflow import logs, tracing, transfer
from callflow.call.deadline import Rung, rung
from callflow.call.facts import merged
from callflow.call.record import CallRecord
from callflow.celery import wake, wake_ring
from callflow.errors import CallflowError, LeaseLost
from callflow.heartbeat import DEADLINE, DRAINED, Heartbeat, Hold
from callflow.responder import Piece, Responder
from callflow.store.calls import CallStore
from callflow.store.outcome import Claimed, Commit, Lease, Note, Pass, Release
from callflow.understand import Comprehension


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


class UnfinishedReply(CallflowError):
    """A responder ended without saying that it had: a mistake in the responder."""


@dataclass(frozen=True, slots=True)
class Turns:
    """What a worker process needs to run turns; built once per process by `bootstrap`."""

    store: CallStore
    heartbeat: Heartbeat
    comprehension: Comprehension
    responder: Responder
    script: Responder
    """Words the reply of a turn that has cost too many workers: nothing in it can fail."""

    def run(self, call_sid: str) -> TurnOutcome:
        """Answer the oldest owed utterance of one call; woken twice, it is answered once.

        An exception of the responder gives the call to another worker and is raised.
        """
        if self.heartbeat.drain.begun:
            wake(call_sid, takeover=True)
            return TurnOutcome.DRAINED
        with logs.bound(call_sid=call_sid, worker=self.heartbeat.worker):
            return self._run(call_sid)

    def _run(self, call_sid: str) -> TurnOutcome:
        self.heartbeat.start()
        since, since_ns = time.monotonic(), tracing.now_ns()
        claimed = self.store.claim(call_sid, self.heartbeat.worker, secrets.token_hex(8))
        if not isinstance(claimed, Claimed):
            return TurnOutcome(claimed)
        with (
            _told(claimed, self.heartbeat.worker, since_ns) as span,
            self.heartbeat.keep(claimed.lease, since, self._give_up) as hold,
        ):
            try:
                outcome = self._serve(claimed.record, hold)
                tracing.note(span, outcome=outcome)
                return outcome
            except LeaseLost:
                return TurnOutcome.LOST
            except Exception as error:
                self._give_back(hold.lease, type(error).__name__, costs=True)
                raise
            except BaseException:
                # SystemExit: Celery ends the process. The turn is as good as new.
                self._give_back(hold.lease, DRAINED, costs=False)
                raise

    def _serve(self, record: CallRecord, hold: Hold) -> TurnOutcome:
        step = rung(record.attempts)
        if step is Rung.HUMAN:
            return _PASSED[
                transfer.to_human(self.store, record.call_sid, transfer.POISON, lease=hold.lease)
            ]
        prepared = self._understood(record, hold.lease)
        with tracing.span("respond", rung=step):
            spoken, last = self._spoken(prepared, hold, self._responder_for(step))
        return self._committed(prepared, hold, spoken, _marked(last, step))

    def _responder_for(self, step: Rung) -> Responder:
        return self.script if step is Rung.SCRIPT else self.responder

    def _understood(self, record: CallRecord, lease: Lease) -> CallRecord:
        """The record with what the oldest utterance that is owed a reply says, and the procedures
        for it. All of it is kept: the worker that takes over finds it there."""
        if record.understood > record.answered:
            return record
        with tracing.span("understand") as span:
            understood = self.comprehension.read(record).of(record)
            tracing.note(span, scenario=understood.scenario_type)
            kept = self.store.note_understood(lease, understood)
        _still_ours(lease, kept.word)
        if kept.alerted:
            # Where life is at risk nobody waits for our words.
            wake_ring(record.call_sid)
        return understood

    def _spoken(self, record: CallRecord, hold: Hold, responder: Responder) -> tuple[str, Piece]:
        """Send the reply piece by piece; all of it, and its last piece."""
        turn = record.answered + 1
        spoken = record.draft.text if record.draft and record.draft.turn == turn else ""
        for piece in responder.respond(record, hold.stop):
            hold.check()
            self._remark(record.call_sid, piece)
            spoken += piece.text
            if piece.last:
                return spoken, piece
            noted = self.store.note_draft(hold.lease, turn, spoken, lang=record.language)
            _still_ours(hold.lease, noted)
        hold.check()
        raise UnfinishedReply(f"{type(responder).__name__} ended without a last piece")

    def _remark(self, call_sid: str, piece: Piece) -> None:
        """What a guard has caught and how a model has failed stands in the journal."""
        for remark in piece.remarks:
            self.store.handovers.note(call_sid, "remarked", remark)

    def _committed(self, record: CallRecord, hold: Hold, spoken: str, last: Piece) -> TurnOutcome:
        with tracing.span("commit") as span:
            committed = self.store.commit(
                hold.lease,
                record.answered + 1,
                spoken,
                sop_step=last.sop_step,
                needs_human=last.needs_human,
                facts=merged(record.facts, last.facts) if last.facts else None,
                lang=record.language,
            )
            tracing.note(span, outcome=committed.word)
        if committed.alerted:
            wake_ring(record.call_sid)
        match committed.word:
            case Commit.OK:
                return TurnOutcome.ANSWERED
            case Commit.MOVED:
                wake(record.call_sid, urgency="P1" if committed.hurried else record.urgency)
                return TurnOutcome.ANSWERED
            case Commit.ENDED | Commit.UNKNOWN as word:
                return TurnOutcome(word)
            case Commit.FENCED:
                return TurnOutcome.LOST

    def _give_up(self, lease: Lease, reason: str) -> None:
        self._give_back(lease, reason, costs=reason == DEADLINE)

    def _give_back(self, lease: Lease, reason: str, *, costs: bool) -> None:
        with logs.bound(call_sid=lease.call_sid, fence=lease.fence):
            released = self.store.hand_back(lease, reason, costs=costs)
            if released.word is Release.RELEASED:
                transfer.pass_on(self.store, lease.call_sid, released.attempts)


_PASSED = {
    Pass.PASSED: TurnOutcome.TRANSFERRED,
    Pass.AGAIN: TurnOutcome.TRANSFERRED,
    Pass.FENCED: TurnOutcome.LOST,
    Pass.ENDED: TurnOutcome.ENDED,
    Pass.UNKNOWN: TurnOutcome.UNKNOWN,
}


@contextmanager
def _told(claimed: Claimed, worker: str, since_ns: int) -> Iterator[tracing.Span]:
    """Logs and traces are told which turn it is that goes on; `since_ns`: when it was claimed."""
    record, fence = claimed.record, claimed.lease.fence
    turn = record.answered + 1
    with (
        logs.bound(turn=turn, fence=fence),
        tracing.turn("turn", record.call_sid, turn, since_ns=since_ns, fence=fence) as span,
    ):
        tracing.note(span, worker=worker, attempts=record.attempts)
        with tracing.span("claim", since_ns=since_ns):
            """It was made before anybody knew of which turn."""
        yield span


def _marked(last: Piece, step: Rung) -> Piece:
    """A turn that had to be answered by the plain script is one for a human to look at."""
    if step is not Rung.SCRIPT:
        return last
    return replace(last, needs_human=last.needs_human or transfer.POISON)


def _still_ours(lease: Lease, word: Note) -> None:
    if word is not Note.NOTED:
        raise LeaseLost(lease.call_sid, lease.fence, f"the server says: {word}")
