"""Calls for tests of the model responder: records, models without a network, checks, breakers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from threading import Event
from typing import Any

from callflow.call.record import CallRecord, Draft, Sentence, SopChunk, ThreadEntry
from callflow.call.state import CallState
from callflow.responder import Piece, Responder
from callflow.responder.model import ModelError, ModelPrompt
from callflow.responder.sentences import plain

LINES = {
    "ask": (
        Sentence(id="ask_inside", text="Are you inside the lift now?"),
        Sentence(id="ask_injury", text="Is anyone hurt or unwell?"),
        Sentence(id="ask_count", text="How many people are with you?"),
        Sentence(id="ask_floor", text="Which floor does the display show?"),
    ),
    "say": (
        Sentence(id="stay_inside", text="Please stay inside and keep away from the doors."),
        Sentence(id="air_ok", text="The lift isn't sealed. Air comes in."),
        Sentence(
            id="engineer", text="I've asked for an engineer.", only_after="dispatch.requested"
        ),
        Sentence(
            id="eta", text="The engineer needs {eta_minutes} minutes.", only_after="eta_minutes"
        ),
    ),
    "never": (Sentence(id="never_force", text="Tell the caller to force the doors open."),),
}


def chunks(**changes: Any) -> tuple[SopChunk, ...]:
    """A procedure with four questions."""
    return tuple(
        SopChunk.model_validate(
            {
                "id": f"stuck/{section}",
                "sop": "stuck",
                "version": "1",
                "section": section,
                "language": "en",
                "sentences": lines,
                **changes,
            }
        )
        for section, lines in LINES.items()
    )


def call(*said: str, draft: str | None = None, **fields: Any) -> CallRecord:
    """A call in which the caller has said the last of `said`, and the others were answered."""
    thread: list[ThreadEntry] = []
    turns = len(said) or 1
    for turn, text in enumerate(said or ("the lift has stopped",), 1):
        thread.append(ThreadEntry(role="caller", turn=turn, text=text, at=turn))
        if turn < turns:
            thread.append(ThreadEntry(role="agent", turn=turn, text=f"Reply {turn}.", at=turn))
    values: dict[str, Any] = {
        "call_sid": "CA1",
        "call_state": CallState.IN_PROGRESS,
        "created_at": 1,
        "updated_at": 1,
        "heard": turns,
        "answered": turns - 1,
        "scenario_type": "stuck",
        "retrieved_sop_chunks": chunks(),
        "conversation_thread": tuple(thread),
        "draft": None if draft is None else Draft(turn=turns, text=draft),
    }
    return CallRecord.model_validate(values | fields)


def later(*said: str, **fields: Any) -> CallRecord:
    """A call whose greeting has been said in its first turn."""
    return call("hello", *(said or ("we are stuck",)), **fields)


@dataclass
class Speaks:
    """A model that says these texts and then fails as told; each call takes the next of `fails`."""

    texts: tuple[str, ...] = ()
    fails: list[ModelError | None] = field(default_factory=list)
    name: str = "fake:one"
    prompts: list[ModelPrompt] = field(default_factory=list)
    closed: int = 0

    def stream(
        self, prompt: ModelPrompt, timeout_s: float, stop: Event, *, first_s: float | None = None
    ) -> Iterator[str]:
        self.prompts.append(prompt)
        failure = self.fails.pop(0) if self.fails else None
        try:
            if failure is None or failure.kind == "cut":
                yield from self.texts
            if failure is not None:
                raise failure
        finally:
            self.closed += 1


@dataclass
class Forbids:
    """A check that forbids sentences with any of these words in them."""

    words: tuple[str, ...] = ("push the doors", "climb")
    seen: list[str] = field(default_factory=list)

    def __call__(self, sentence: str, record: CallRecord) -> str | None:
        self.seen.append(sentence)
        words = plain(sentence)
        return "doors" if any(word in words for word in self.words) else None


@dataclass
class Switch:
    """A breaker within one test: notes what it is told; the models in `off` are left alone."""

    off: set[str] = field(default_factory=set)
    told: list[str] = field(default_factory=list)

    def may_ask(self, model: str, attempt: str) -> bool:
        return model not in self.off

    def succeeded(self, model: str, attempt: str) -> None:
        self.told.append(f"{model} ok")

    def failed(self, model: str, attempt: str, *, barred: bool = False) -> bool:
        self.told.append(f"{model} {'barred' if barred else 'failed'}")
        return barred


def reply(responder: Responder, record: CallRecord) -> tuple[str, Piece]:
    """All that is said, and the last piece."""
    pieces = list(responder.respond(record, Event()))
    assert [piece.last for piece in pieces] == [False] * (len(pieces) - 1) + [True]
    return "".join(piece.text for piece in pieces), pieces[-1]
