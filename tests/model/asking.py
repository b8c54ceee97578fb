"""Responders on a real model, and what they say: with the real guard, and with patience."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from threading import Event
from typing import Final

from callflow.call.record import CallRecord
from callflow.responder import Piece, Responder
from callflow.responder.guard import Guard
from callflow.responder.model import Model, Prompts
from callflow.responder.model_providers import model
from callflow.responder.model_responder import Breaker, ModelResponder
from callflow.responder.scripted import ScriptedResponder
from tests.model.llama import KEY, MODEL
from tests.responder.calls import Switch

AMPLE_S: Final = 30.0
"""For a first letter, and for a reply: this model on a busy machine needs some seconds for a prompt
of some hundred words, and none of our tests is about how fast it is."""

LATE_S: Final = 0.5
"""How much later than its deadline a reply may be."""

SHORT: Final = Path(__file__).parent / "prompts"
"""A prompt that is read within a second; the shipped one takes this model ten."""


def grammar(*lines: str) -> dict[str, str]:
    """What makes llama.cpp's model write these lines, in its grammar's notation, and no others.

    Where a line is one text in quotes, the model has no choice; where it is `word{3,9}`, the words
    are its own. So a story goes the same way on every machine, and still a real model writes it,
    letter by letter and in its own time.
    """
    root = " ".join(f'"SAY: " {line} "\\n"' for line in lines)
    return {"grammar": f"root ::= {root}\nword ::= [ ] [A-Za-z'] [a-z']{{0,11}}\n"}


STEADY: Final = grammar(
    '"I hear you."', '"You are not alone."', '("Are you hurt?" | "Is it dark?")'
)
"""Two sentences that every model's guard lets pass, and a question of the model's choice."""

OPENING: Final = "I hear you. You are not alone."

SCRIPT: Final = "Please stay inside and keep away from the doors. Are you inside the lift now?"
"""What the procedure says by itself."""


@dataclass(frozen=True, slots=True)
class Heard:
    """A reply as the caller has got it; `at_s`: when each piece came, from the beginning."""

    pieces: tuple[Piece, ...]
    at_s: tuple[float, ...]

    @property
    def text(self) -> str:
        return "".join(piece.text for piece in self.pieces)

    @property
    def remarks(self) -> tuple[str, ...]:
        return self.pieces[-1].remarks

    @property
    def took_s(self) -> float:
        return self.at_s[-1]


def guarded(sentence: str, record: CallRecord) -> str | None:
    """The rule that forbids a sentence in a call."""
    return _guard().check_in_call(sentence, record)


@cache
def _guard() -> Guard:
    """Neither where tests are only collected, nor while a model speaks: it reads its lexicons."""
    return Guard()


def at(url: str, key: str = KEY) -> Model:
    """The real client for an endpoint."""
    return model(f"openai:{MODEL}", url, key)


def responder(
    *urls: str,
    first_s: float = AMPLE_S,
    reply_s: float = AMPLE_S,
    breaker: Breaker | None = None,
    prompts: Path | None = SHORT,
    key: str = KEY,
) -> ModelResponder:
    """One worker's responder with the models at these endpoints."""
    _guard()
    return ModelResponder(
        [at(url, key) for url in urls],
        ScriptedResponder(),
        guarded,
        breaker or Switch(),
        first_token_s=min(first_s, reply_s),
        reply_s=reply_s,
        prompts=Prompts.load(prompts),
    )


def heard(asked: Responder, record: CallRecord) -> Heard:
    """Listen to a whole reply."""
    started = time.monotonic()
    pieces: list[Piece] = []
    at_s: list[float] = []
    for piece in asked.respond(record, Event()):
        pieces.append(piece)
        at_s.append(time.monotonic() - started)
    assert [piece.last for piece in pieces] == [False] * (len(pieces) - 1) + [True]
    return Heard(tuple(pieces), tuple(at_s))
