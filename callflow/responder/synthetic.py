"""Responders without a procedure: for chaos, the demo and measurements.

A counted reply is three sentences, each of which names the turn, its own place in the reply, how
many turns of the caller the worker found in the conversation, by which claim it has the call, and
the end of what it answers. So whoever hears a call knows what was left out, said twice, said too
early, said too late, answered for another one, or forgotten, and need ask nobody. Like a model's,
the words of two workers differ.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from threading import Event
from typing import Final

from callflow.call.record import CallRecord
from callflow.responder import Piece, Responder
from callflow.responder.sentences import joined

PARTS: Final = 3

CODE_WORDS: Final = 3
"""So many words at the end of an utterance are named in the reply to it."""

_LONGEST_WORD: Final = 12
_SILENCE: Final = "silence"

SENTENCE: Final = re.compile(
    r"Reply (?P<turn>\d+), part (?P<part>\d+) of (?P<of>\d+), "
    r"after (?P<seen>\d+) turns?, claim (?P<claim>\d+), to (?P<code>[^.,]+)\."
)


@dataclass(frozen=True, slots=True)
class Counted:
    """One sentence of a reply, as it is said and as it is understood again."""

    turn: int
    part: int
    """From 1."""
    of: int
    seen: int
    """How many turns of the caller the worker found in the conversation."""
    claim: int
    """The fence of the worker that says it: it grows with every claim of the call."""
    code: str
    """The end of the utterance that is answered: see `code_of`."""

    @property
    def text(self) -> str:
        """The sentence."""
        turns = "turn" if self.seen == 1 else "turns"
        return (
            f"Reply {self.turn}, part {self.part} of {self.of}, "
            f"after {self.seen} {turns}, claim {self.claim}, to {self.code}."
        )

    @classmethod
    def of_match(cls, found: re.Match[str]) -> Counted:
        """The sentence that `SENTENCE` has found."""
        names = ("turn", "part", "of", "seen", "claim")
        turn, part, of, seen, claim = (int(found[name]) for name in names)
        return cls(turn, part, of, seen, claim, found["code"])


def code_of(said: str) -> str:
    """The last three words of an utterance, letters and digits alone: what a reply names it by.

    Signs and case do not matter, and a word is no longer than twelve letters. "silence" for an
    utterance without words.
    """
    words = "".join(char if char.isalnum() else " " for char in said.casefold()).split()
    return " ".join(word[:_LONGEST_WORD] for word in words[-CODE_WORDS:]) or _SILENCE


def sentences_in(text: str) -> list[Counted]:
    """All whole sentences of counted replies in `text`, in order."""
    return [Counted.of_match(found) for found in SENTENCE.finditer(text)]


class CountedResponder:
    """Implements `Responder` from the conversation in the record alone; never fails or waits."""

    def respond(self, record: CallRecord, stop: Event) -> Iterator[Piece]:
        """Yield the sentences of the reply that its draft does not hold yet.

        A sentence that broke off in the draft is said again as a whole; where none is left, one
        last piece has the text "".
        """
        turn = record.answered + 1
        draft = record.draft
        sent = draft.text if draft is not None and draft.turn == turn else ""
        sent_parts = {one.part for one in sentences_in(sent) if one.turn == turn}
        seen = sum(entry.role == "caller" for entry in record.conversation_thread)
        code = code_of(_said(record, turn))
        left = [
            Counted(turn, part, PARTS, seen, record.fence, code).text
            for part in range(1, PARTS + 1)
            if part not in sent_parts
        ]
        pieces = joined(left, sent) or [""]
        for text in pieces[:-1]:
            if stop.is_set():
                return
            yield Piece(text)
        if not stop.is_set():
            yield Piece(pieces[-1], last=True)


def _said(record: CallRecord, turn: int) -> str:
    for entry in record.conversation_thread:
        if entry.role == "caller" and entry.turn == turn:
            return entry.text or entry.digits or ""
    return ""


class EchoResponder:
    """The reply is the utterance, once more and once again: 120 characters for 60."""

    def respond(self, record: CallRecord, stop: Event) -> Iterator[Piece]:
        """One last piece."""
        said = record.said(record.answered + 1, "caller") or ""
        yield Piece(said + said, last=True)


class PacedResponder:
    """The pieces of `inner`, each one `pause_s` seconds after the last, so that people can watch a
    worker die in mid-reply."""

    def __init__(self, inner: Responder, pause_s: float) -> None:
        """Pause before every piece. Raises ValueError for a negative pause."""
        if not pause_s >= 0:
            raise ValueError(f"pause_s is {pause_s}: use zero or more seconds")
        self._inner = inner
        self._pause_s = pause_s

    def respond(self, record: CallRecord, stop: Event) -> Iterator[Piece]:
        """Yield what `inner` yields; end early, and at once, when `stop` is set."""
        for piece in self._inner.respond(record, stop):
            if stop.wait(self._pause_s):
                return
            yield piece
