"""Finds cues in speech: lists of patterns as people write them, by section.

A file of `lexicons/` holds sections of cues, one a line:

    {limb} = arm, leg, left hand        a field: words for the lines below it
    [caught]                            a section
    {limb} ~3 stuck|caught (in)? door\\w*
    手夹住

`patterns.py` says how cues are written; `#` begins a comment. A cue never reaches over the end of a
clause. Files are read once.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Final

from callflow.errors import CallflowError
from callflow.language.patterns import compile_pattern, first_words, spoken
from callflow.language.text import Heard, lexicon_lines

_Cue = tuple[str, re.Pattern[str]]  # of which section
_OPEN_ENDING: Final = r"\w*"
_KEY_LENGTH: Final = 3
_REMEMBERED: Final = 8


class BadLexicon(CallflowError):
    """A line of a lexicon file cannot be read. Only a changed file can raise it."""

    def __init__(self, file: str, line: int, reason: str) -> None:
        """`line` counts from 1."""
        self.file, self.line, self.reason = file, line, reason
        super().__init__(f"{file}:{line}: {reason}. See callflow/language/patterns.py.")


@dataclass(frozen=True, slots=True)
class Match:
    """A cue that was heard: its section and the tokens `start` to `end` (exclusive)."""

    section: str
    start: int
    end: int


class Lexicon:
    """Sections of cues, found in speech by their first words."""

    def __init__(self, name: str, lines: Iterable[str]) -> None:
        """Compile `lines`, which have no comments; raises `BadLexicon`."""
        self._members: dict[str, tuple[str, ...]] = {}
        self._fields: dict[str, str] = {}
        # By first word, and by the first letters of first words with an open ending.
        self._cues: dict[str, list[_Cue]] = defaultdict(list)
        self._open: dict[str, list[_Cue]] = defaultdict(list)
        self._remembered = lru_cache(maxsize=_REMEMBERED)(self._find)
        section = ""
        for number, line in enumerate(lines, 1):
            field, equals, entries = line.partition("} = ")
            if line.startswith("[") and line.endswith("]"):
                section = line[1:-1]
            elif equals and field.startswith("{"):
                members = tuple(word.strip() for word in entries.split(",") if word.strip())
                self._members[field[1:]] = members
                self._fields[field[1:]] = "|".join(map(spoken, members))
            elif line:
                try:
                    self._add(section, line)
                except ValueError as error:
                    raise BadLexicon(name, number, str(error)) from error

    def find(self, heard: Heard) -> tuple[Match, ...]:
        """Return every cue in `heard`, in the order of speech; of a section the longest one.

        Several facts are read from the same cues, so the last answers are remembered.
        """
        return self._remembered(heard)

    def _find(self, heard: Heard) -> tuple[Match, ...]:
        found: list[Match] = []
        text = heard.text + " "
        for index, (at, token) in enumerate(zip(heard.at, heard.tokens, strict=True)):
            best: dict[str, int] = {}
            for cues in (self._cues.get(token), self._open.get(token[:_KEY_LENGTH])):
                for section, cue in cues or ():
                    if (hit := cue.match(text, at)) is not None:
                        best[section] = max(best.get(section, 0), hit.end())
            for section, end in best.items():
                found.append(Match(section, index, bisect_left(heard.at, end)))
        return tuple(found)

    def sections(self, heard: Heard) -> frozenset[str]:
        """Return the sections of which any cue was heard."""
        return frozenset(match.section for match in self.find(heard))

    def _add(self, section: str, line: str) -> None:
        if not section:
            raise ValueError("a cue stands before the first [section]")
        starts = set(first_words(line, self._members))
        if not starts or any(_is_open(word) and len(word) < 6 for word in starts):
            raise ValueError(
                "a cue begins with a word that must be there, of three letters before any ending"
            )
        cue = compile_pattern(line, self._fields, anywhere=False).regex
        for word in starts:
            if _is_open(word):
                self._open[word[:_KEY_LENGTH]].append((section, cue))
            else:
                self._cues[word].append((section, cue))


def _is_open(word: str) -> bool:
    return word.endswith(_OPEN_ENDING)


@cache
def shipped(*names: str) -> Lexicon:
    """Return one lexicon of the files `lexicons/NAME.txt`, read once; raises `BadLexicon`."""
    lines = [line for name in names for line in lexicon_lines(name)]
    return Lexicon("+".join(names), lines)
