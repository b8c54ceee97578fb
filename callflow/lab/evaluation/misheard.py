"""Puts a recogniser's errors into what callers say: words heard for others, and words dropped.

`data/misheard.json` holds, by language, what is heard for which words; "" stands for nothing. The
same seed and the same words give the same errors.
"""

from __future__ import annotations

import json
import re
from functools import cache
from importlib.resources import files
from random import Random
from typing import Final

BANDS: Final = (0.0, 0.05, 0.1, 0.15, 0.2)
"""The share of words that is misheard in each run of a call, in turn: the first is clean."""


def word_error(run: int) -> float:
    """Return the share of words that is misheard in a run, which counts from 1."""
    return BANDS[(run - 1) % len(BANDS)] if run > 1 else 0.0


def mishear(words: str, language: str, share: float, seed: str) -> str:
    """Return the words as a recogniser may have heard them, about a `share` of them wrong.

    Words that the table does not have are heard rightly.
    """
    pattern, heard_for = _table(language)
    places = list(pattern.finditer(words.lower()))
    chance = Random(seed)
    chance.shuffle(places)
    wanted, changed = share * _length(words), 0
    taken = []
    for place in places:
        size = _length(place[0])
        # At least half of a word must be wanted: the share is met on the whole, not in each line.
        if wanted - changed < size * chance.random():
            break
        taken.append((place, chance.choice(heard_for[place[0]])))
        changed += size
    for place, instead in sorted(taken, key=lambda each: -each[0].start()):
        words = f"{words[: place.start()]}{instead}{words[place.end() :]}"
    return " ".join(words.split()) or words


def _length(words: str) -> int:
    """Count words, or the letters of a language that writes none apart."""
    return sum(len(word) if re.search(r"[\u4e00-\u9fff]", word) else 1 for word in words.split())


@cache
def _table(language: str) -> tuple[re.Pattern[str], dict[str, list[str]]]:
    text = files("callflow.lab.evaluation").joinpath("data", "misheard.json").read_text("utf-8")
    table: dict[str, list[str]] = json.loads(text)[language]
    longest_first = sorted(table, key=lambda word: -len(word))
    bound = "" if language == "zh" else r"\b"
    return re.compile(f"{bound}(?:{'|'.join(map(re.escape, longest_first))}){bound}"), table
