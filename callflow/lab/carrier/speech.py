"""How long words take to say. Pure.

Everybody speaks at the pace of a telephone voice, callers as well as the agent, so that a reply
which is too long shows as one.
"""

from __future__ import annotations

import re
from typing import Final

LETTERS_PER_S: Final = 15.0
CHARACTERS_PER_S: Final = 5.0
"""A Chinese or Japanese character is a syllable or two."""

_CJK: Final = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff]")

_SENTENCE: Final = re.compile(r".+?(?:[.!?。！？…]+[\"'”’»)]*\s*|$)", re.DOTALL)


def sentences(text: str) -> list[str]:
    """The sentences of `text`, each with the space behind it: together they are all of it."""
    return _SENTENCE.findall(text)


def seconds(text: str, speed: float) -> float:
    """How long `text` takes where time passes `speed` times as fast, s."""
    characters = len(_CJK.findall(text))
    letters = len(text) - characters
    return (letters / LETTERS_PER_S + characters / CHARACTERS_PER_S) / speed


def spoken(text: str, after_s: float, speed: float) -> str:
    """The beginning of `text` that has been said after so long, to the letter."""
    if after_s >= seconds(text, speed):
        return text
    left_s = max(0.0, after_s) * speed
    for position, char in enumerate(text):
        left_s -= 1 / (CHARACTERS_PER_S if _CJK.match(char) else LETTERS_PER_S)
        if left_s < 0:
            return text[:position]
    return text
