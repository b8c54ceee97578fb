"""A sentence as the rules read it: lower case, no accents, one mark for each pause, plain forms.

`.` ends a statement, `?` a question, `,` a clause; each stands as a word of its own where the
script puts blanks between words. What is replaced (contractions, words that only look like a
denial, politeness between commas) stands in the lexicon.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import Final

from callflow.responder.guard.lexicon import Lexicon, lexicon

_END: Final = re.compile(r"\s*([.?!。…])[.?!。…]*\s*")
# The only use of a full stop within a word that a caller hears: 3.15, 2.5.
_DECIMAL: Final = re.compile(r"(?<=\d)[.:](?=\d)")
_PAUSE: Final = re.compile(r"\s*[,;:()\"“”«»—–¿¡]+\s*|\s+-+\s+")
_APOSTROPHE: Final = re.compile(r"[’‘ʼ`´]")
_GLUE: Final = re.compile(r"[-/·]")
_BLANKS: Final = re.compile(r"\s+")
_MARKS_IN_A_ROW: Final = re.compile(r"[,.?](?: ?[,.?])* ?")


def plain(text: str) -> str:
    """Return `text` in lower case, without accents and width variants."""
    folded = unicodedata.normalize("NFKD", text).casefold()
    return "".join(char for char in folded if not unicodedata.combining(char))


def read(sentence: str, known: Lexicon) -> str:
    """Return what the rules of `known` look at; it begins and ends with a mark."""
    text = _APOSTROPHE.sub("'", plain(sentence))
    text = _DECIMAL.sub("_", text)
    blank = " " if known.spaced else ""
    text = _END.sub(lambda end: f"{blank}{'?' if '?' in end[0] else '.'}{blank}", text)
    text = _PAUSE.sub(f"{blank},{blank}", text)
    text = _GLUE.sub(" ", text) if known.spaced else _simplified(_BLANKS.sub("", text))
    if known.spaced:
        text = " " + _BLANKS.sub(" ", text).strip() + " "
    text = _replaced(text, known)
    text = f".{blank}{text.strip()}{blank}.{blank}"
    return _MARKS_IN_A_ROW.sub(lambda found: _gravest(found[0]) + blank, text)


def _gravest(marks: str) -> str:
    return next(mark for mark in "?.," if mark in marks)


def _simplified(text: str) -> str:
    return text.translate(_traditional())


@lru_cache(maxsize=1)
def _traditional() -> dict[int, str]:
    pairs: str = str(lexicon("zh").tables["traditional"])
    return {ord(pair[0]): pair[1] for pair in pairs.split()}


def _replaced(text: str, known: Lexicon) -> str:
    for pattern, new in _replacements(known.language):
        text = pattern.sub(new, text)
    return text


@lru_cache(maxsize=8)
def _replacements(language: str) -> tuple[tuple[re.Pattern[str], str], ...]:
    known = lexicon(language)
    return tuple((re.compile(old), new) for old, new in known.replacements.items())


def clause(text: str, start: int, end: int) -> str:
    """Return the clause, or the clauses, that hold `text[start:end]`, with their marks.

    It ends with `?` where its sentence does, for "is it the pit, the roof or the car?" asks thrice.
    """
    left = max(text.rfind(mark, 0, start) for mark in ",.?")
    right = min((at for mark in ",.?" if (at := text.find(mark, end)) >= 0), default=len(text) - 1)
    last = min((at for mark in ".?" if (at := text.find(mark, right)) >= 0), default=right)
    mark = "?" if text[last] == "?" else text[right]
    return text[max(left, 0) : right] + mark + (" " if " " in text else "")


def whole(text: str, start: int, end: int) -> str:
    """Return the sentence, or the sentences, that hold `text[start:end]`, with their marks."""
    left = max(text.rfind(mark, 0, start) for mark in ".?")
    right = min((at for mark in ".?" if (at := text.find(mark, end)) >= 0), default=len(text) - 1)
    return text[max(left, 0) : right + 1] + (" " if " " in text else "")
