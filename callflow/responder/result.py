"""Reads a model's reply line by line while it is still being written.

    SAY: own words
    SAY [sentence_id]
    STEP: question_id
    FACT: key=value "the caller's words"
    HUMAN: reason

Lines may come in any order and any may be left out. Text without a word before it is spoken, so a
model that ignores the form is still of use; JSON and markup are nonsense. Pure.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from callflow.errors import CallflowError
from callflow.responder.sentences import LONGEST, first_end

TAGS: Final = ("SAY", "STEP", "FACT", "HUMAN")
HUMAN_REASONS: Final = ("asked", "not_understood", "danger", "distress", "other")
"""Closed, since the reason is journaled and told to people: it must not hold what somebody said."""

LONGEST_LINE: Final = 300

_TAG = re.compile(r"(SAY|STEP|FACT|HUMAN)\s*:[ ]*|(SAY)\s*(?=\[)", re.I)
_SPEAKER = re.compile(r"(?:assistant|agent|operator|answer|reply|you|a)\s*[:：]\s*", re.I)
"""Who a model says is speaking, in front of what is spoken."""

_ID = re.compile(r"[A-Za-z0-9][\w.\-]{0,63}")
_FACT = re.compile(r"\s*([\w.]+)\s*=\s*(.*?)\s*[\"“”«]([^\"“”«»]+)[\"“”»]\s*\.?\s*")
_MARKUP = re.compile(r"[`{}<>|\\#*_~^=\[\]]|https?:|&\w+;")
_STUTTER = re.compile(r"(\w)\1{5}|\b(\w+)(?:\W+\2\b){3}", re.I)
_QUOTES = '"“”«»‘’ \t'
_BULLETS = " \t-•"


class Nonsense(CallflowError):
    """A reply that nobody can be made to hear; nothing after it is read."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"the model's reply is nonsense: {reason}; the next rung words the reply")


@dataclass(frozen=True, slots=True)
class Words:
    """A sentence in the model's own words, complete."""

    text: str


@dataclass(frozen=True, slots=True)
class Chosen:
    """An approved sentence, to be spoken letter by letter."""

    id: str


@dataclass(frozen=True, slots=True)
class Step:
    """The question of the procedure that this reply asks."""

    id: str


@dataclass(frozen=True, slots=True)
class Claim:
    """A fact that the model says the caller told, with the words: still to be checked."""

    key: str
    value: str
    quote: str


@dataclass(frozen=True, slots=True)
class Human:
    """A person is wanted; `reason` is one of HUMAN_REASONS."""

    reason: str


Part = Words | Chosen | Step | Claim | Human


class Reading:
    """One reply being read; used once."""

    def __init__(self) -> None:
        self._pending = ""
        self._tag: str | None = None

    def feed(self, text: str) -> Iterator[Part]:
        """Yield what is complete once `text` has come; raises Nonsense at the first sign of it."""
        self._pending += text.replace("\r", "").replace("\t", " ")
        yield from self._read(final=False)

    def end(self) -> Iterator[Part]:
        """Yield what is left at the end of a whole reply.

        For one that was cut off it is not called: half a sentence is never spoken.
        """
        yield from self._read(final=True)

    def _read(self, final: bool) -> Iterator[Part]:
        while self._pending:
            if self._tag is None and not self._decide(final):
                return
            if self._tag == "SAY":
                taken, parts = self._speech(final)
            else:
                taken, parts = self._line(final)
            if not taken:
                return
            self._pending = self._pending[taken:]
            # After each sentence a new line may begin, whether or not the model breaks it.
            self._tag = None
            yield from parts

    def _decide(self, final: bool) -> bool:
        """Find out what kind of line begins here; False while that cannot be told yet."""
        line = self._pending.lstrip(_BULLETS + "\n")
        self._pending = line
        if not line:
            return False
        tag = _TAG.match(line)
        if tag:
            word = next(group for group in tag.groups() if group)
            self._tag = word.upper()
            self._pending = line[tag.end() :]
            return True
        if not final and "\n" not in line and _may_become_tag(line):
            return False
        self._tag = "SAY"
        return True

    def _speech(self, final: bool) -> tuple[int, list[Part]]:
        """Return how much of what is pending is a complete sentence, and that sentence."""
        text = self._pending
        bracket, newline = text.find("["), text.find("\n")
        stops = [index for index in (bracket, newline) if index >= 0]
        until = min(stops, default=len(text))
        head = text[:until]
        end = first_end(head, final=final or bool(stops))
        _fail_on_markup(head[:end])
        if end is not None:
            return end, _spoken(head[:end])
        if len(head) > LONGEST:
            raise Nonsense("a sentence without an end")
        if until == bracket:
            # Words that only lead up to an approved sentence are half a sentence: left out.
            return self._bracket(bracket)
        if stops or final:
            return until + (until == newline), _spoken(head)
        return 0, []

    def _bracket(self, start: int) -> tuple[int, list[Part]]:
        text = self._pending
        end = text.find("]", start)
        if end < 0:
            if len(text) - start > 70 or "\n" in text[start:]:
                raise Nonsense("markup")
            return 0, []
        name = text[start + 1 : end].strip()
        if not _ID.fullmatch(name):
            raise Nonsense("markup")
        return end + 1, [Chosen(name)]

    def _line(self, final: bool) -> tuple[int, list[Part]]:
        newline = self._pending.find("\n")
        if newline < 0 and not final:
            if len(self._pending) > LONGEST_LINE:
                raise Nonsense("a line without an end")
            return 0, []
        line = self._pending if newline < 0 else self._pending[:newline]
        return len(line) + (newline >= 0), self._meaning(line.strip())

    def _meaning(self, line: str) -> list[Part]:
        if self._tag == "FACT":
            claim = _FACT.fullmatch(line)
            return [Claim(*claim.groups())] if claim else []
        name = _ID.search(line)
        if self._tag == "STEP":
            return [Step(name.group())] if name else []
        reason = name.group().lower() if name else ""
        if reason in ("", "none", "no", "false"):
            return []
        return [Human(reason if reason in HUMAN_REASONS else "other")]


def _may_become_tag(line: str) -> bool:
    head = line.upper()
    return any(tag.startswith(head) or head.rstrip() == tag for tag in TAGS)


def _spoken(text: str) -> list[Part]:
    """Return the sentence as it is spoken; nothing when there is not a letter in it."""
    bare = " ".join(text.split()).strip(_QUOTES)
    bare = _SPEAKER.sub("", bare, count=1) if _SPEAKER.match(bare) else bare
    if not any(char.isalnum() for char in bare) or bare.endswith((":", "：")):
        return []  # Nothing, or a heading.
    if _STUTTER.search(bare):
        raise Nonsense("the same again and again")
    return [Words(bare)]


def _fail_on_markup(text: str) -> None:
    if _MARKUP.search(text):
        raise Nonsense("markup")
    if any(unicodedata.category(char) in ("So", "Cs", "Co", "Cn", "Cc") for char in text):
        raise Nonsense("signs that nobody can say")
