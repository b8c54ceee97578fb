"""Checks what a model says it has learned against the caller's own words.

A fact is taken only with a quote that really stands in what the caller said, and a number, a name
or a place only if the quote holds it. What cannot be shown there was not said. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from callflow.call.facts import CALLER_FACTS, DANGERS, VULNERABLE
from callflow.responder.sentences import contains, plain

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


def learned(name: str, value: str, quote: str, said: Iterable[str]) -> Any | None:
    """Return the value of a fact in its own kind, or None when it may not be taken.

    `said` is all that the caller has said. Keys that callers do not tell are never taken.
    """
    kind = CALLER_FACTS.get(name)
    words = plain(quote)
    if kind is None or not any(contains(plain(text), words) for text in said):
        return None
    value = value.strip().strip("\"'“”")
    if kind == "whole":
        return _whole(value, words)
    if kind == "flag":
        bare = value.casefold()
        return True if bare in _YES else False if bare in _NO else None
    if kind == "words":
        named = [plain(word).replace(" ", "_") for word in re.split(r"[,，、;]", value)]
        return sorted({word for word in named if word in _LISTS[name]}) or None
    return _text(value, words)


def _whole(value: str, words: str) -> int | None:
    if not value.isascii() or not value.isdigit() or not 0 < int(value) <= MOST_PEOPLE:
        return None
    number = int(value)
    return number if number in _numbers(words) else None


def _text(value: str, words: str) -> str | None:
    bare = plain(value)
    if not bare or len(value) > LONGEST_VALUE:
        return None
    if contains(words, bare):
        return value
    digits = bare.replace(" ", "")
    if not digits.isdecimal():
        return None
    if len(digits) <= 2 and int(digits) in _numbers(words):
        return value
    return value if digits in _spelt(words) else None


def _numbers(words: str) -> set[int]:
    """Return every number that the words name, in figures or letters."""
    found = {int(figures) for figures in re.findall(r"[0-9]+", words) if len(figures) < 5}
    found |= {_NUMBERS[word] for word in words.split() if word in _NUMBERS}
    found |= {_NUMBERS[word] for word in _ZH_NUMBER.findall(words) if word in _NUMBERS}
    if _ALONE.search(words):
        found.add(1)
    return found


def _spelt(words: str) -> str:
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
