"""Reads a model's reply line by line while it is still being written, and checks the facts in it.

    SAY: own words
    SAY [sentence_id]
    STEP: question_id
    FACT: key=value "the caller's words"
    HUMAN: reason

Lines may come in any order and any may be left out. Text without a word before it is spoken, so a
model that ignores the form is still of use; JSON and markup are nonsense.

A fact is taken only with a quote that really stands in what the caller said, and a number, a name
or a place only if the quote holds it. What cannot be shown there was not said. Pure.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from callflow.call.facts import CALLER_FACTS, DANGERS, VULNERABLE
from callflow.errors import CallflowError
from callflow.responder.sentences import LONGEST, contains, first_end, plain

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


MOST_PEOPLE: Final = 99
LONGEST_VALUE: Final = 60

_LISTS = {"vulnerable": VULNERABLE, "danger": DANGERS}
_YES = frozenset(("true", "yes", "1", "sí", "si", "是", "有"))
_NO = frozenset(("false", "no", "0", "否", "没有"))
_NUMBERS: Final[dict[str, int]] = {
    word: number
    for words in (
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
        "fifteen sixteen seventeen eighteen nineteen twenty",
        "cero uno dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce quince "
        "dieciséis diecisiete dieciocho diecinueve veinte",
        "ground first second third fourth fifth sixth seventh eighth ninth tenth",
        "baja primera segunda tercera cuarta quinta sexta séptima octava novena décima",
        "零 一 二 三 四 五 六 七 八 九 十 十一 十二 十三 十四 十五 十六 十七 十八 十九 二十",
    )
    for number, word in enumerate(words.split())
} | {"oh": 0, "o": 0, "una": 1, "un": 1, "两": 2, "俩": 2, "幺": 1, "double": -1}
_ALONE = re.compile(
    r"\b(?:just|only) me\b|\balone\b|\bby myself\b|\bon my own\b|\bsol[oa]\b|只有我|我一个|就我"
)
_ZH_NUMBER = re.compile(r"[零一二三四五六七八九十两俩]+")


class Nonsense(CallflowError):
    """A reply that nobody can be made to hear; nothing after it is read."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"the model's reply is nonsense: {reason}; the next rung words the reply")


@dataclass(frozen=True, slots=True)
class OwnWords:
    """A sentence in the model's own words, complete."""

    text: str


@dataclass(frozen=True, slots=True)
class ApprovedChosen:
    """An approved sentence, to be spoken letter by letter."""

    id: str


@dataclass(frozen=True, slots=True)
class QuestionAsked:
    """The question of the procedure that this reply asks."""

    id: str


@dataclass(frozen=True, slots=True)
class FactClaimed:
    """A fact that the model says the caller told, with the words: still to be checked."""

    key: str
    value: str
    quote: str


@dataclass(frozen=True, slots=True)
class HumanAsked:
    """A person is wanted; `reason` is one of HUMAN_REASONS."""

    reason: str


ReplyPart = OwnWords | ApprovedChosen | QuestionAsked | FactClaimed | HumanAsked


class ReplyParser:
    """Reads one reply; used once."""

    def __init__(self) -> None:
        self._pending = ""
        self._tag: str | None = None

    def feed(self, text: str) -> Iterator[ReplyPart]:
        """Yield what is complete once `text` has come; raises Nonsense at the first sign of it."""
        self._pending += text.replace("\r", "").replace("\t", " ")
        yield from self._read(final=False)

    def end(self) -> Iterator[ReplyPart]:
        """Yield what is left at the end of a whole reply.

        For one that was cut off it is not called: half a sentence is never spoken.
        """
        yield from self._read(final=True)

    def _read(self, final: bool) -> Iterator[ReplyPart]:
        while self._pending:
            if self._tag is None and not self._begin_line(final):
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

    def _begin_line(self, final: bool) -> bool:
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

    def _speech(self, final: bool) -> tuple[int, list[ReplyPart]]:
        """Return how much of what is pending is a complete sentence, and that sentence."""
        text = self._pending
        bracket, newline = text.find("["), text.find("\n")
        stops = [index for index in (bracket, newline) if index >= 0]
        until = min(stops, default=len(text))
        head = text[:until]
        end = first_end(head, final=final or bool(stops))
        _fail_on_markup(head[:end])
        if end is not None:
            return end, _as_spoken(head[:end])
        if len(head) > LONGEST:
            raise Nonsense("a sentence without an end")
        if until == bracket:
            # Words that only lead up to an approved sentence are half a sentence: left out.
            return self._bracket(bracket)
        if stops or final:
            return until + (until == newline), _as_spoken(head)
        return 0, []

    def _bracket(self, start: int) -> tuple[int, list[ReplyPart]]:
        text = self._pending
        end = text.find("]", start)
        if end < 0:
            if len(text) - start > 70 or "\n" in text[start:]:
                raise Nonsense("markup")
            return 0, []
        name = text[start + 1 : end].strip()
        if not _ID.fullmatch(name):
            raise Nonsense("markup")
        return end + 1, [ApprovedChosen(name)]

    def _line(self, final: bool) -> tuple[int, list[ReplyPart]]:
        newline = self._pending.find("\n")
        if newline < 0 and not final:
            if len(self._pending) > LONGEST_LINE:
                raise Nonsense("a line without an end")
            return 0, []
        line = self._pending if newline < 0 else self._pending[:newline]
        return len(line) + (newline >= 0), self._parse_line(line.strip())

    def _parse_line(self, line: str) -> list[ReplyPart]:
        if self._tag == "FACT":
            claim = _FACT.fullmatch(line)
            return [FactClaimed(*claim.groups())] if claim else []
        name = _ID.search(line)
        if self._tag == "STEP":
            return [QuestionAsked(name.group())] if name else []
        reason = name.group().lower() if name else ""
        if reason in ("", "none", "no", "false"):
            return []
        return [HumanAsked(reason if reason in HUMAN_REASONS else "other")]


def _may_become_tag(line: str) -> bool:
    head = line.upper()
    return any(tag.startswith(head) or head.rstrip() == tag for tag in TAGS)


def _as_spoken(text: str) -> list[ReplyPart]:
    """Return the sentence as it is spoken; nothing when there is not a letter in it."""
    bare = " ".join(text.split()).strip(_QUOTES)
    bare = _SPEAKER.sub("", bare, count=1) if _SPEAKER.match(bare) else bare
    if not any(char.isalnum() for char in bare) or bare.endswith((":", "：")):
        return []  # Nothing, or a heading.
    if _STUTTER.search(bare):
        raise Nonsense("the same again and again")
    return [OwnWords(bare)]


def _fail_on_markup(text: str) -> None:
    if _MARKUP.search(text):
        raise Nonsense("markup")
    if any(unicodedata.category(char) in ("So", "Cs", "Co", "Cn", "Cc") for char in text):
        raise Nonsense("signs that nobody can say")


def verify_fact(name: str, value: str, quote: str, said: Iterable[str]) -> Any | None:
    """Return the value of a fact in its own kind, or None when it may not be taken.

    `said` is all that the caller has said. Keys that callers do not tell are never taken.
    """
    kind = CALLER_FACTS.get(name)
    words = plain(quote)
    if kind is None or not any(contains(plain(text), words) for text in said):
        return None
    value = value.strip().strip("\"'“”")
    if kind == "whole":
        return _verify_number(value, words)
    if kind == "flag":
        bare = value.casefold()
        return True if bare in _YES else False if bare in _NO else None
    if kind == "words":
        named = [plain(word).replace(" ", "_") for word in re.split(r"[,，、;]", value)]
        return sorted({word for word in named if word in _LISTS[name]}) or None
    return _verify_text(value, words)


def _verify_number(value: str, words: str) -> int | None:
    if not value.isascii() or not value.isdigit() or not 0 < int(value) <= MOST_PEOPLE:
        return None
    number = int(value)
    return number if number in _numbers_in(words) else None


def _verify_text(value: str, words: str) -> str | None:
    bare = plain(value)
    if not bare or len(value) > LONGEST_VALUE:
        return None
    if contains(words, bare):
        return value
    digits = bare.replace(" ", "")
    if not digits.isdecimal():
        return None
    if len(digits) <= 2 and int(digits) in _numbers_in(words):
        return value
    return value if digits in _digits_in(words) else None


def _numbers_in(words: str) -> set[int]:
    """Return every number that the words name, in figures or letters."""
    found = {int(figures) for figures in re.findall(r"[0-9]+", words) if len(figures) < 5}
    found |= {_NUMBERS[word] for word in words.split() if word in _NUMBERS}
    found |= {_NUMBERS[word] for word in _ZH_NUMBER.findall(words) if word in _NUMBERS}
    if _ALONE.search(words):
        found.add(1)
    return found


def _digits_in(words: str) -> str:
    """Return the figures of a number that was read out, one after the other; a gap is a space."""
    figures = ""
    double = False
    for word in re.findall(r"[0-9]+|[零一二三四五六七八九两幺]|[^\W\d_]+", words):
        number = int(word) if word.isdecimal() else _NUMBERS.get(word)
        if number is None:
            figures += " "
        elif number < 0:
            double = True
        else:
            spoken = word if word.isdecimal() else str(number)
            figures += spoken * (2 if double else 1)
            double = False
    return figures
