"""Numbers with a unit of time behind them, in digits or words, as minutes.

All three languages are read into one `Span`. What is vague ("a few minutes") has no minutes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from callflow.responder.guard.lexicon import Lexicon, lexicon

_HAN_DIGITS: Final = {char: value for value, char in enumerate("零一二三四五六七八九")} | {
    "两": 2,
    "〇": 0,
}
_HAN_NUMBER: Final = re.compile(r"[零〇一二两三四五六七八九十百几多数]+")


@dataclass(frozen=True, slots=True)
class Span:
    """A length of time at `text[start:end]`; `minutes` is None where nobody could say how many."""

    start: int
    end: int
    minutes: float | None
    unit: float


@dataclass(frozen=True, slots=True)
class _Grammar:
    lengths: re.Pattern[str]
    numbers: re.Pattern[str]
    words: dict[str, float]
    units: dict[str, float]
    fixed: dict[str, float]


@lru_cache(maxsize=8)
def _grammar(language: str) -> _Grammar:
    tables = lexicon(language).tables
    words = {str(word): float(value) for word, value in tables["numbers"].items()}
    units = {str(word): float(value) for word, value in tables["units"].items()}
    fixed = {str(word): float(value) for word, value in tables["lengths"].items()}
    many = _alternatives(words)
    if language == "zh":
        number = rf"(?:\d+(?:_\d+)?|{_HAN_NUMBER.pattern})"
        unit = rf"(?:来|多|几)?个?(?:半)?(?P<unit>{_alternatives(units)})"
        lengths = rf"(?P<fixed>{_alternatives(fixed)})|(?P<number>{number}){unit}"
        return _Grammar(re.compile(lengths), re.compile(number), words, units, fixed)
    joint = r"(?: and| y| or so| more| mas| o asi)?"
    one = rf"(?:\d+(?:_\d+)?|{many})"
    number = rf"{one}(?:(?: and| y)? {one})*"
    lengths = (
        rf"(?<= )(?:(?P<fixed>{_alternatives(fixed)})|"
        rf"(?P<number>{number}){joint}(?: \w+)? (?P<unit>{_alternatives(units)}))(?= )"
    )
    return _Grammar(re.compile(lengths), re.compile(rf"(?<= ){number}(?= )"), words, units, fixed)


def _alternatives(words: dict[str, float]) -> str:
    return "|".join(sorted((re.escape(word) for word in words), key=len, reverse=True))


def lengths(text: str, known: Lexicon) -> list[Span]:
    """Return every length of time in a text that `wording.read` gave."""
    grammar = _grammar(known.language)
    return [_span(found, grammar) for found in grammar.lengths.finditer(text)]


def _span(found: re.Match[str], grammar: _Grammar) -> Span:
    if found["fixed"]:
        minutes = grammar.fixed[found["fixed"]]
        return Span(found.start(), found.end(), minutes or None, 1.0)
    unit = grammar.units[found["unit"]]
    number = value(found["number"], grammar.words)
    if "半" in found[0]:
        number = None if number is None else number + 0.5
    if re.search(r"[来多几数]", found[0]):
        number = None
    return Span(found.start(), found.end(), None if number is None else number * unit, unit)


def numbers(text: str, known: Lexicon) -> list[tuple[int, int, float | None]]:
    """Return every number in a text that `wording.read` gave, as (start, end, value)."""
    grammar = _grammar(known.language)
    return [
        (found.start(), found.end(), value(found[0], grammar.words))
        for found in grammar.numbers.finditer(text)
    ]


def value(text: str, words: dict[str, float]) -> float | None:
    """Return the number that `text` spells, or None: a vague one ("a few" is 0 in the table)."""
    if _HAN_NUMBER.fullmatch(text):
        return _han(text)
    total = 0.0
    # "Unos quince" is fifteen; "unos minutos" is any number.
    plain = re.sub(r"^(?:unos|unas|some) (?=\S)", "", text)
    for part in re.sub(r" (?:and|y)(?= )", "", plain).split():
        if part.replace("_", "").isdecimal():
            if len(part) > 6:
                return None
            total = total * 10 ** len(part) + float(part.replace("_", "."))
        elif words.get(part, 0.0) == 0.0:
            return None
        elif words[part] >= 100 and total:
            total *= words[part]
        else:
            total += words[part]
    return total


def _han(text: str) -> float | None:
    if re.search(r"[几多数]", text):
        return None
    total, digit = 0, 0
    for char in text:
        if char in _HAN_DIGITS:
            digit = _HAN_DIGITS[char]
        else:
            total += (digit or 1) * (10 if char == "十" else 100)
            digit = 0
    return float(total + digit)
