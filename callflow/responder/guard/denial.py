"""Does a denial reach a forbidden thing? "Don't force the doors" is good advice.

A denial reaches to the end of its clause, over "or" but not over "but", "then" or "and". Words that
only look like one ("don't be afraid to", "why not") are gone before (the lexicon's replacements),
"don't stop pulling" denies twice, and "don't open them unless …" or "… too hard" forbids nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from callflow.responder.guard.lexicon import lexicon
from callflow.responder.guard.wording import whole

_MARKS: Final = ",.?"


@dataclass(frozen=True, slots=True)
class _Words:
    deny: re.Pattern[str]
    stop: re.Pattern[str]
    doubled: re.Pattern[str]
    breaks: re.Pattern[str]
    pair: re.Pattern[str]
    either: re.Pattern[str]
    unless: re.Pattern[str]
    weakened: re.Pattern[str]


@lru_cache(maxsize=8)
def _words(language: str) -> _Words:
    known = lexicon(language)
    pattern = known.pattern
    return _Words(
        deny=pattern("{denial}").regex,
        stop=pattern("{stopping}").regex,
        doubled=pattern("{denial} ~2 {stopping}").regex,
        breaks=pattern("{breaks}").regex,
        pair=pattern("{grave} {pairing} {grave}").regex,
        either=pattern("{either}").regex,
        unless=pattern("{unless}").regex,
        weakened=pattern("{weakened}").regex,
    )


def denied(text: str, start: int, end: int, language: str) -> bool:
    """True when what stands at `text[start:end]` is forbidden by the sentence itself."""
    words = _words(language)
    left = _reach(text, start, words)
    # The last word of what is caught must not be cut off from the blank that ends it.
    segment = text[left:end]
    last = _last(words.deny, segment)
    stop = _last(words.stop, segment)
    if last is None and stop is None:
        return False
    behind = " " + segment[min(found.end() for found in (last, stop) if found) :]
    if last is not None and (stop is None or last.start() > stop.start()):
        behind = " " + segment[last.end() :]
    elif words.doubled.search(segment):
        return False
    if words.breaks.search(words.pair.sub("", behind)):
        return False
    sentence = whole(text, start, end)
    after = " " + sentence[sentence.find(text[start:end]) :]
    return not (words.unless.search(sentence) or words.weakened.search(after))


def _last(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    return next(reversed(list(pattern.finditer(text))), None)


def _reach(text: str, start: int, words: _Words) -> int:
    """Return where the clause begins; in a list ("don't push, pull or pry") the list's clause."""
    left = max(text.rfind(mark, 0, start) for mark in _MARKS)
    while left > 0 and text[left] == "," and len(text[left + 1 : start].split()) <= 1:
        before = max(text.rfind(mark, 0, left) for mark in _MARKS)
        listed = text[before + 1 : left]
        if not words.either.search(text[left:]) or len(listed) > 60:
            break
        if not words.deny.search(listed) and "," not in text[max(before, 0)]:
            break
        left = before
    return max(left, 0)
