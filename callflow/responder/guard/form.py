"""Judges what a sentence looks like: plain speech in the language of the call, of a known shape.

Fail closed: what is no plain speech (markup, code, addresses, control characters, names of our own
insides) is `leak`, what is not in the language of the call is `language`.

The rules know what is forbidden by its words, and nobody can list all words. So whatever passes
them must also have a shape that replies on this line have: a question about the caller, a sentence
about oneself or what the caller said, something not to do, or one of the few things that callers
are asked to do. Everything else is caught, under the rule that it comes nearest to.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from callflow.language.lexicon import CLAUSE_MARKS, Pattern
from callflow.responder.guard.rules import Rulebook
from callflow.responder.guard.sentence import Reading, denied, lower

# Half a minute of speech (zh speaks a syllable per letter); a procedure's longest sentence is 400.
MOST_CHARS: Final = 400

_NO_SPEECH: Final = re.compile(
    r"[\[\]{}<>|\\^~`=_*#@$&+%]|https?:|www\.|\w\.(?:com|org|net|io|es|cn|py|md|json)\b|//|"
    r"(?<=\w)\(\)|\w+(?:\.\w+){2,}|[a-z]\.[a-z]{2,}|[a-z][A-Z]|!!!|\?\?\?|\.{4,}|(?:^|\s)\w+:\s*\S|^\s*[(（]"
)
# A colon that begins a list is spoken; one behind a lone word is a role, a key or a label.
_LABEL: Final = re.compile(
    r"^\W*(?:system|assistant|user|agent|caller|operator|human|note|say|ask|never|reply|answer|"
    r"response|output|bot|ai|result|step|sop|sistema|asistente|usuario|respuesta|nota|paso|"
    r"decir|di|reglas?|hecho|habla|reply text|here is the reply|"
    r"说|问|系统|助手|用户|回答|回复|注意|步骤|输出|坐席)\s*\d*\s*[:：]",
    re.IGNORECASE,
)
_SHORT_OF_SPEECH: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "So", "Zl", "Zp", "Sk", "Sm"})
_MIXED: Final = re.compile(r"\b(?=\w*\d)(?=\w*[A-Za-z]{2})\w+\b")
_FLOOR_WORD: Final = re.compile(
    r"\d+(?:st|nd|rd|th|am|pm)|[A-Z]{1,3}\d{1,4}[A-Z]?|\d{1,4}[A-Z]{1,2}"
)
_SPELT: Final = re.compile(r"(?:\b[^\W\d_]\b[\s.\-]+){3,}")
_HAN: Final = re.compile(r"[\u3400-\u9fff]")
_LATIN_WORD: Final = re.compile(r"[A-Za-z\u00c0-\u024f]+")
_LETTER: Final = re.compile(r"[^\W\d_]")
_SPACED_WORD: Final = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")


@lru_cache(maxsize=8)
def _vocabulary(known: Rulebook) -> tuple[frozenset[str], frozenset[str]]:
    """The small words of the language, and those of others that it has not."""
    own, foreign = (
        frozenset(word for line in known.tables["speech"][name] for word in line.split())
        for name in ("own", "foreign")
    )
    return own, foreign - own


# A model that gives itself a name plays somebody.
_NAMED: Final = re.compile(r"\b(?:I'm|I am|Soy|Le habla|Le atiende) [A-ZÁÉÍÓÚÑ][a-záéíóúñ]+")


def fault(sentence: str, known: Rulebook) -> str | None:
    """Return the rule that forbids a sentence for how it is written, or None."""
    if not sentence.strip() or len(sentence) > MOST_CHARS:
        return "leak"
    if any(unicodedata.category(char) in _SHORT_OF_SPEECH for char in sentence):
        return "leak"
    if _NO_SPEECH.search(_without_lists(sentence)) or _LABEL.search(sentence):
        return "leak"
    if _SPELT.search(sentence) or any(
        not _FLOOR_WORD.fullmatch(found[0]) for found in _MIXED.finditer(sentence)
    ):
        return "leak"
    if not _LETTER.search(sentence):
        return "leak"
    if _NAMED.search(sentence.replace("’", "'")):
        return "persona"
    return None if _in_language(sentence, known) else "language"


def _without_lists(sentence: str) -> str:
    return re.sub(r"(?<=\w):(?= )", ",", sentence)


def _in_language(sentence: str, known: Rulebook) -> bool:
    if not known.spaced:
        return _chinese(sentence)
    letters = _LETTER.findall(sentence)
    if any(not _latin(char) for char in letters):
        return False
    return _own_words(sentence, known)


def _chinese(sentence: str) -> bool:
    if any(not (_HAN.match(char) or _latin(char)) for char in _LETTER.findall(sentence)):
        return False
    # Names of wings and floors ("A座", "B2层") are all the Latin letters that a sentence needs.
    latin = [word for word in _LATIN_WORD.findall(sentence) if len(word) > 3 or word.islower()]
    return bool(_HAN.search(sentence)) and not [word for word in latin if len(word) > 1]


def _latin(char: str) -> bool:
    return char.isascii() or "\u00c0" <= char <= "\u00ff" or char in "ªº"


def _own_words(sentence: str, known: Rulebook) -> bool:
    own_words, foreign_words = _vocabulary(known)
    words = _SPACED_WORD.findall(sentence.replace("’", "'"))
    # A capital in mid-sentence is a name, and names have no language; a headline has no names.
    small = sum(word[0].islower() for word in words)
    common = [
        w for at, w in enumerate(words) if at == 0 or w[0].islower() or small * 2 < len(words)
    ]
    folded = [lower(word) for word in common]
    own = sum(word in own_words for word in folded)
    foreign = sum(word in foreign_words for word in folded)
    if foreign > 1 or (foreign and foreign >= own):
        return False
    return own > 0 or len(folded) <= 1 or (len(folded) <= 3 and not foreign)


_OTHERWISE = "leak"


def strange(reading: Reading) -> str | None:
    """Return the rule to name for a clause of no known shape, or None when all of them have one."""
    shape = reading.known.shape
    for clause, asks in _clauses(reading.text):
        if asks:
            bad = _any(shape["suggestion"], clause)
        else:
            usual = _any(shape["fine"], clause) or (
                _any(shape["statement"], clause) and not _any(shape["delicate"], clause)
            )
            bad = not usual or _suspect(reading, clause)
        if bad:
            return _nearest(reading, clause)
    return None


def _clauses(text: str) -> Iterator[tuple[str, bool]]:
    """Yield each clause with its marks, and whether its sentence asks something."""
    blank = " " if " " in text else ""
    start = 0
    for end, char in enumerate(text):
        if char in CLAUSE_MARKS and end:
            inside = text[start + 1 : end]
            if inside.strip():
                last = next((mark for mark in text[end:] if mark in ".?"), ".")
                yield f"{text[start]}{inside}{char}{blank}", last == "?"
            start = end


def _any(patterns: tuple[Pattern, ...], clause: str) -> bool:
    return any(pattern.regex.search(clause) for pattern in patterns)


def _suspect(reading: Reading, clause: str) -> bool:
    return any(
        not denied(clause, *found.span(), reading.known)
        for pattern in reading.known.shape["suspect"]
        for found in pattern.regex.finditer(clause)
    )


def _nearest(reading: Reading, clause: str) -> str:
    near = reading.known.nearest.items()
    return next((name for name, pattern in near if pattern.regex.search(clause)), _OTHERWISE)
