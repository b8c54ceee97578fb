"""Rehearses calls in memory: what a worker would make of them, without a server or a line.

Pure but for the model, where the responder has one: the same words lead to the same call.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any, Final

from callflow import bootstrap
from callflow.call.facts import merged
from callflow.call.record import CallRecord, ThreadEntry
from callflow.call.state import CallState
from callflow.lab.evaluation.dataset import Words, read_corpus
from callflow.procedures.library import SopLibrary
from callflow.procedures.triage import Signs, Triage, procedures
from callflow.responder import Piece, Responder
from callflow.responder.guard import Guard
from callflow.responder.scripted import ScriptedResponder
from callflow.retrieval.corpus import Corpus, of_library
from callflow.retrieval.engine import (
    Engine,
    Hit,
    Retrieval,
    TopicSearch,
    build_engine,
    search_topics,
)
from callflow.understand import NEAR, Understanding, signs

CALL_SID: Final = "rehearsal"


@dataclass(frozen=True, slots=True)
class Sources:
    """What is read before anything is built: our procedures, and another set if one is tried."""

    library: SopLibrary
    other: Corpus | None = None

    @classmethod
    def read(
        cls, sop_dir: Path | None = None, other_set: tuple[Path, Path] | None = None
    ) -> Sources:
        """Read the shipped procedures and those in `sop_dir`, or where the environment says.

        `other_set`: files of chunks and of examples. Raises SopError for a procedure that cannot
        be used, LabelError for a line of another set, and SettingsError.
        """
        library = SopLibrary.load(sop_dir or bootstrap.settings().sop_dir)
        return cls(library, None if other_set is None else read_corpus(*other_set))

    def words(self) -> Words:
        """Return what labels may be made of."""
        documents = self.library.documents.values()
        return Words(
            groups={each.id: each.front.group for each in documents},
            urgencies={each.id: each.front.urgency for each in documents},
            languages=frozenset(code for each in documents for code in each.languages),
            more_groups=frozenset(self.other.groups.values() if self.other else ()),
        )


@dataclass(frozen=True, slots=True)
class Topics:
    """What finds topics in utterances, and the passages that it finds: ours or another set's."""

    corpus: Corpus
    search: TopicSearch


@dataclass(frozen=True, slots=True)
class Parts:
    """All that is tried: `own` answers calls. `other` is judged in its place where another set of
    procedures is being tried; dangers are heard, and replies worded, by our own all the same."""

    library: SopLibrary
    engine: Engine
    own: Topics
    other: Topics | None
    understanding: Understanding
    responder: Responder
    guard: Guard


def assemble(read: Sources, retrieval: Retrieval | None = None) -> Parts:
    """Build the same parts that workers answer calls with; `retrieval` is as the environment says
    where it is not given.

    Raises SettingsError, and what the search by meaning raises where its extra or its folder is
    missing.
    """
    kind, folder = retrieval or bootstrap.retrieval(), bootstrap.index_dir()
    engine = build_engine(read.library, kind, folder)
    return Parts(
        library=read.library,
        engine=engine,
        own=Topics(of_library(read.library), engine.topics),
        other=None
        if read.other is None
        else Topics(read.other, search_topics(read.other, kind, folder)),
        understanding=Understanding(lambda: engine),
        responder=ScriptedResponder(),
        guard=bootstrap.guard(),
    )


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


def open_call(
    language: str,
    facts: Mapping[str, Any] | None = None,
    recorded: Mapping[str, Any] | None = None,
) -> CallRecord:
    """Return the record of a call in which nothing has been said yet: `facts` are those of the
    site, `recorded` what people have noted."""
    return CallRecord(
        call_sid=CALL_SID,
        call_state=CallState.IN_PROGRESS,
        created_at=0,
        updated_at=0,
        language=language,
        facts=dict(facts or {}),
        recorded=dict(recorded or {}),
    )


def take_turn(
    record: CallRecord,
    utterance: str,
    understanding: Understanding,
    responder: Responder,
    confidence: float | None = None,
) -> Turn:
    """Hear the utterance, understand it, find its procedure and word the reply. `confidence`: the
    recogniser's own."""
    turn = record.heard + 1
    said = ThreadEntry(role="caller", turn=turn, text=utterance, at=turn, confidence=confidence)
    record = record.model_copy(
        update={"conversation_thread": (*record.conversation_thread, said), "heard": turn}
    )
    record = understanding.analyse(record).applied_to(record)
    heard = signs(understanding.engine(), utterance, record.language)
    return Turn(heard, record, tuple(responder.respond(record, Event())))


def rehearse(
    utterances: Iterable[str],
    record: CallRecord,
    understanding: Understanding,
    responder: Responder,
) -> list[Turn]:
    """Return the turns of a call in which the caller says these things, one after the other."""
    turns = []
    for utterance in utterances:
        turn = take_turn(record, utterance, understanding, responder)
        turns.append(turn)
        record = hear_reply(turn)
    return turns


def hear_reply(turn: Turn) -> CallRecord:
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


def nearest(turn: Turn, engine: Engine) -> tuple[Hit, ...]:
    """Return what the words of a turn find, nearest first, as a worker looks for it."""
    record = turn.record
    said = record.said(record.heard, "caller") or ""
    return engine.search(said, record.language, NEAR, prior(record))


def prior(record: CallRecord) -> dict[str, float]:
    """Return what a call is about once its words are understood, as the search is told it."""
    wanted = procedures(Triage.of(record))
    return {name: 1.0 / place for place, name in enumerate(wanted, start=1)}
