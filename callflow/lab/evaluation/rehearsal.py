"""A call in memory: what a worker would make of it, without a server, a line or a lease.

Pure but for the model, where the responder has one: the same words lead to the same call.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from threading import Event
from typing import Final

from callflow.call.facts import merged
from callflow.call.record import CallRecord, ThreadEntry
from callflow.call.state import CallState
from callflow.procedures.protocols import Hit
from callflow.procedures.triage import Signs, Triage, procedures
from callflow.responder import Piece, Responder
from callflow.understand import NEAR, Comprehension, signs

CALL_SID: Final = "rehearsal"


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of a rehearsal: `record` is the call once its words are understood, and before the
    reply (`pieces`) is part of it. `signs` are what the words say of themselves."""

    signs: Signs
    record: CallRecord
    pieces: tuple[Piece, ...]

    @property
    def reply(self) -> str:
        """The whole reply; empty where the procedure is silent."""
        return "".join(piece.text for piece in self.pieces)

    @property
    def sentences(self) -> list[str]:
        """The pieces of the reply that say something."""
        return [text for piece in self.pieces if (text := piece.text.strip())]


def opened(language: str) -> CallRecord:
    """Return the record of a call in which nothing has been said yet."""
    return CallRecord(
        call_sid=CALL_SID,
        call_state=CallState.IN_PROGRESS,
        created_at=0,
        updated_at=0,
        language=language,
    )


def taken(
    record: CallRecord, utterance: str, comprehension: Comprehension, responder: Responder
) -> Turn:
    """Take one turn: hear the utterance, understand it, find its procedure and word the reply."""
    turn = record.heard + 1
    said = ThreadEntry(role="caller", turn=turn, text=utterance, at=turn)
    record = record.model_copy(
        update={"conversation_thread": (*record.conversation_thread, said), "heard": turn}
    )
    record = comprehension.read(record).of(record)
    heard = signs(comprehension.engine(), utterance, record.language)
    return Turn(heard, record, tuple(responder.respond(record, Event())))


def answered(turn: Turn) -> CallRecord:
    """Return the call after the reply of `turn` has been heard."""
    record, last = turn.record, turn.pieces[-1]
    said = ThreadEntry(role="agent", turn=record.heard, text=turn.reply, at=record.heard)
    return record.model_copy(
        update={
            "conversation_thread": (*record.conversation_thread, said),
            "answered": record.heard,
            "sop_step": record.sop_step if last.sop_step is None else last.sop_step,
            "needs_human": record.needs_human or last.needs_human,
            "facts": merged(record.facts, last.facts),
        }
    )


def rehearse(
    utterances: Iterable[str], language: str, comprehension: Comprehension, responder: Responder
) -> list[Turn]:
    """Return the turns of a call in which the caller says these things, one after the other."""
    record, turns = opened(language), []
    for utterance in utterances:
        turn = taken(record, utterance, comprehension, responder)
        turns.append(turn)
        record = answered(turn)
    return turns


def nearest(turn: Turn, comprehension: Comprehension) -> tuple[Hit, ...]:
    """Return what the words of a turn find, nearest first, as a worker looks for it."""
    record = turn.record
    said = record.said(record.heard, "caller") or ""
    retriever = comprehension.engine().retriever
    return retriever.search(said, record.language, NEAR, prior(record))


def prior(record: CallRecord) -> dict[str, float]:
    """Return what a call is about once its words are understood, as the retriever is told it."""
    wanted = procedures(Triage.of(record))
    return {name: 1.0 / place for place, name in enumerate(wanted, start=1)}
