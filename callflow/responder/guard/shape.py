"""What a sentence has to look like to be spoken, whatever its words: the guard's last question.

The rules know what is forbidden by its words, and nobody can list all words. So whatever passes
them must also have a shape that replies on this line have: a question about the caller, a sentence
about oneself or what the caller said, something not to do, or one of the few things that callers
are asked to do. Everything else is caught, under the rule that it comes nearest to.
"""

from __future__ import annotations

from collections.abc import Iterator

from callflow.responder.guard.denial import denied
from callflow.responder.guard.finding import Reading
from callflow.responder.guard.pattern import MARKS, Pattern

_OTHERWISE = "leak"


def strange(reading: Reading) -> str | None:
    """Return the rule to name for a clause of no known shape, or None when all of them have one."""
    shape = reading.known.shape
    for clause, asks in _clauses(reading.text):
        if asks:
            bad = _any(shape.suggestion, clause)
        else:
            usual = _any(shape.fine, clause) or (
                _any(shape.statement, clause) and not _any(shape.delicate, clause)
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
        if char in MARKS and end:
            inside = text[start + 1 : end]
            if inside.strip():
                last = next((mark for mark in text[end:] if mark in ".?"), ".")
                yield f"{text[start]}{inside}{char}{blank}", last == "?"
            start = end


def _any(patterns: tuple[Pattern, ...], clause: str) -> bool:
    return any(pattern.regex.search(clause) for pattern in patterns)


def _suspect(reading: Reading, clause: str) -> bool:
    language = reading.known.language
    return any(
        not denied(clause, *found.span(), language)
        for pattern in reading.known.shape.suspect
        for found in pattern.regex.finditer(clause)
    )


def _nearest(reading: Reading, clause: str) -> str:
    for name, pattern in reading.known.shape.nearest:
        if pattern.regex.search(clause):
            return name
    return _OTHERWISE
