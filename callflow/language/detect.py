"""Detects the language that a caller speaks, and the one that they ask for.

The script decides first, then small words. A few words of another language change nothing: callers
spell names and quote signs, and "no" is a word of two languages. Only a cry does: "ayuda", 救命.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from callflow.call.language_tag import primary_language
from callflow.language.lexicon import Match, load_lexicon
from callflow.language.numbers import number_at
from callflow.language.text import MARKS, Tokens, is_han, tokenize

SPOKEN: Final = ("en", "zh", "es")
"""What we speak."""

_OTHER: Final = "other"
_LEAST_WORDS: Final = 3
# A Chinese word has about two characters; two words are no sentence yet.
_LEAST_CHARACTERS: Final = 4
# But a cry for help is one word, and Chinese is written by nobody who speaks something else.
_LEAST_OF_A_CRY: Final = 2
_LONGEST_CRY: Final = 4
_CLEAR_SHARE: Final = 0.7
# Other scripts than ours: their words are no English, so they are never evidence for it.
_FOREIGN: Final = re.compile(
    r"[\u0370-\u03ff\u0400-\u04ff\u0590-\u05ff\u0600-\u06ff\u0900-\u0dff\u0e00-\u0e7f"
    r"\u3040-\u30ff\u1100-\u11ff\uac00-\ud7af]"
)


def detect(text: str, current: str) -> str:
    """Return the language of `text`: "en", "zh" or "es"; `current` where that is not clear.

    `current` may carry a region (`zh-CN`) and comes back as it is while the language stays.
    """
    heard = tokenize(text)
    han = sum(is_han(token) for token in heard.tokens)
    latin = sum(token.isascii() and token.isalpha() for token in heard.tokens)
    if _FOREIGN.search(text[:400]):
        return current
    if han < _LEAST_CHARACTERS and latin < _LEAST_WORDS:
        return _kept(_of_a_cry(heard, han, latin) or current, current)
    if han and han / 2 >= (han / 2 + latin) * _CLEAR_SHARE:
        return _kept("zh", current)
    if han / 2 > latin * (1 - _CLEAR_SHARE):
        return current
    found = _of_small_words(heard)
    if found is None and latin <= _LONGEST_CRY and not han:
        found = _of_a_cry(heard, han, latin)
    return _kept(found or current, current)


def asked_for(text: str) -> str | None:
    """Return the language that a caller asks to go on in: "en", "zh" or "es"; None without one.

    Who says only what they do not speak, and says it in one of ours, asks for that one.
    """
    asked, refused = _named(text)
    spoken = [language for language in asked if language in SPOKEN]
    if spoken:
        return spoken[-1]
    own = _own_language(tokenize(text)) if refused else None
    return own if own not in refused and _OTHER not in asked else None


def _named(text: str) -> tuple[list[str], list[str]]:
    """Languages asked for and languages refused, in the order of speech."""
    heard = tokenize(text)
    matches = load_lexicon("languages").find(heard)
    names = [m for m in matches if m.section in (*SPOKEN, _OTHER)]
    asked: list[str] = []
    refused: list[str] = []
    for name in names:
        if any(m.section == "refused" and m.end == name.start for m in matches):
            refused.append(name.section)
        elif _is_asked(heard, name, names, matches):
            asked.append(name.section)
    return asked, refused


def _is_asked(heard: Tokens, name: Match, names: Sequence[Match], matches: Sequence[Match]) -> bool:
    words = [token for token in heard.tokens if token not in MARKS]
    if sum(other.end - other.start for other in names) >= len(words) - 1:
        return True
    return any(
        (m.section == "ask" and m.end == name.start)
        or (m.section == "after" and m.start == name.end)
        for m in matches
    )


def _own_language(heard: Tokens) -> str | None:
    if any(is_han(token) for token in heard.tokens):
        return "zh"
    counts = _counts(heard)
    if counts["es"] != counts["en"]:
        return max(counts, key=counts.__getitem__)
    return "es" if any(token.startswith("habl") for token in heard.tokens) else None


def _counts(heard: Tokens) -> dict[str, int]:
    counts = {"en": 0, "es": 0}
    for match in load_lexicon("other_words").find(heard):
        counts[match.section] += 1
    return counts


def _of_small_words(heard: Tokens) -> str | None:
    counts = _counts(heard)
    best = max(counts, key=counts.__getitem__)
    other = sum(counts.values()) - counts[best]
    if counts[best] < 2 or counts[best] < (counts[best] + other) * _CLEAR_SHARE:
        return None
    return best


def _of_a_cry(heard: Tokens, han: int, latin: int) -> str | None:
    """The language of a few words that are unmistakable; numbers, names and "no" never are."""
    if han:
        is_word = any(is_han(t) and number_at((t,), 0) is None and t != "十" for t in heard.tokens)
        return "zh" if han >= _LEAST_OF_A_CRY and not latin and is_word else None
    cried = load_lexicon("strong_words").sections(heard)
    spoken = cried | {language for language, count in _counts(heard).items() if count}
    return next(iter(cried)) if cried and len(spoken) == 1 else None


def _kept(found: str, current: str) -> str:
    return current if primary_language(current) == found else found
