"""Turns speech into comparable tokens: words of spaced scripts, character pairs of Chinese.

Speech recognition delivers no punctuation, wavering apostrophes and, on a bad line, symbols; all
of that is dropped here, so cues and utterances meet in one form.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

_APOSTROPHES = re.compile(r"['\u2019\u2018\u02bc`\u00b4]")
_RUNS = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff]+|[^\W_\u3400-\u4dbf\u4e00-\u9fff]+")
_HAN = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff]")

# An utterance of one turn is seldom above 50 words; more is no evidence, only time.
MAX_CHARS = 2_000


def normalize(text: str) -> str:
    """Return `text` in lower case without accents, apostrophes, punctuation or symbols.

    Words are divided by single spaces; a run of Chinese characters is one word.
    """
    text = _APOSTROPHES.sub("", text[:MAX_CHARS]) if text else ""
    if not text.isascii():
        decomposed = unicodedata.normalize("NFKD", text)
        text = "".join(c for c in decomposed if not unicodedata.combining(c))
    return " ".join(_RUNS.findall(text.lower()))


def is_chinese(text: str) -> bool:
    """True when `text` has a Chinese character."""
    return _HAN.search(text) is not None


@lru_cache(maxsize=4096)
def stem(word: str) -> str:
    """Cut the endings that keep `smoking` from meeting `smoke`; crude, and the same both times."""
    for ending in ("ing", "ed", "s"):
        if len(word) - len(ending) >= 4 and word.endswith(ending):
            word = word[: -len(ending)]
            break
    return word[:-1] if len(word) > 4 and word[-1] in "aeo" else word


def tokens(normalized: str) -> list[str]:
    """Return stems of words and, for Chinese, every pair of neighbouring characters."""
    found: list[str] = []
    for word in normalized.split():
        if not is_chinese(word):
            found.append(stem(word))
        elif len(word) == 1:
            found.append(word)
        else:
            found.extend(word[index : index + 2] for index in range(len(word) - 1))
    return found
