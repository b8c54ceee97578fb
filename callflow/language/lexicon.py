"""Word lists as people write them, and the one search that all of them share.

A lexicon file holds sections of cues, one a line:

    <limb> = arm, leg, left hand        a class of words for the lines below it
    [caught]                            a section
    <limb> .. stuck/caught in? door*    `..` up to three words, `....` up to six, `/` either word,
                                        `?` may be missing, `*` any ending
    手 夹 住                            Chinese counts by character; spaces do not matter

`#` begins a comment. A cue never reaches over the end of a clause, nor over
words that were taken away (`_`). Files are read once.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from callflow.errors import CallflowError
from callflow.language.text import Heard, is_han

_Cue = tuple[str, re.Pattern[str]]  # of which section
_KEY_LENGTH = 3
_HAN_OR_WORD = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff]|[^\s\u3400-\u4dbf\u4e00-\u9fff]+")
_ITEM = re.compile(r"(?P<gap>\.{2,})|(?P<words>[^\s.?]+)(?P<maybe>\?)?")


class BadLexicon(CallflowError):
    """A line of a lexicon file cannot be read. Only a changed file can raise it."""

    def __init__(self, file: str, line: int, why: str) -> None:
        """`line` counts from 1."""
        self.file, self.line, self.why = file, line, why
        super().__init__(f"{file}:{line}: {why}. See callflow/language/lexicon.py.")


@dataclass(frozen=True, slots=True)
class Match:
    """A cue that was heard: its section and the tokens `start` to `end` (exclusive)."""

    section: str
    start: int
    end: int


class Lexicon:
    """Sections of cues, found in speech by their first words."""

    def __init__(self, name: str, lines: Iterable[str]) -> None:
        """Compile `lines`; raises `BadLexicon`."""
        self._name = name
        self._classes: dict[str, tuple[str, ...]] = {}
        # By first word, and by the first letters of first words with an open ending.
        self._cues: dict[str, list[_Cue]] = defaultdict(list)
        self._open: dict[str, list[_Cue]] = defaultdict(list)
        section = ""
        for number, raw in enumerate(lines, 1):
            line = raw.split("#", 1)[0].strip()
            if line.startswith("[") and line.endswith("]"):
                section = line[1:-1]
            elif line.startswith("<") and " = " in line:
                left, right = line.split(" = ", 1)
                members = tuple(word.strip() for word in right.split(",") if word.strip())
                self._classes[left.strip("<> ")] = members
            elif line:
                self._add(section, line, number)

    def find(self, heard: Heard) -> list[Match]:
        """Return every cue in `heard`, in the order of speech, the longest of a section first."""
        found: list[Match] = []
        for index, (at, token) in enumerate(zip(heard.at, heard.tokens, strict=True)):
            best: dict[str, int] = {}
            for cues in (self._cues.get(token), self._open.get(token[:_KEY_LENGTH])):
                for section, cue in cues or ():
                    if (hit := cue.match(heard.text, at)) is not None:
                        best[section] = max(best.get(section, 0), hit.end())
            for section, end in best.items():
                found.append(Match(section, index, bisect_right(heard.at, end)))
        return found

    def sections(self, heard: Heard) -> frozenset[str]:
        """Return the sections of which any cue was heard."""
        return frozenset(match.section for match in self.find(heard))

    def _add(self, section: str, line: str, number: int) -> None:
        if not section:
            raise BadLexicon(self._name, number, "a cue stands before the first [section]")
        pattern = ""
        starts: tuple[str, ...] = ()
        for item in _ITEM.finditer(line):
            if item["gap"] and starts:
                most = 3 if len(item["gap"]) == 2 else 6
                pattern += rf"(?: [^ ,?_]+){{0,{most}}}?"
                continue
            members, maybe = self._members(item, number)
            alternatives = "|".join(_spoken(member) for member in members)
            if not starts:
                if maybe or not all(_can_begin(member) for member in members):
                    why = "a cue begins with a word that must be there, of three letters before *"
                    raise BadLexicon(self._name, number, why)
                starts = members
                pattern = f"(?:{alternatives})"
            else:
                pattern += f"(?: (?:{alternatives})){'?' if maybe else ''}"
        cue = re.compile(pattern + "(?= |$)")
        for first in {_first(start) for start in starts}:
            if first.endswith("*"):
                self._open[first[:_KEY_LENGTH]].append((section, cue))
            else:
                self._cues[first].append((section, cue))

    def _members(self, item: re.Match[str], number: int) -> tuple[tuple[str, ...], bool]:
        members: list[str] = []
        for word in (item["words"] or "").split("/"):
            if not word.startswith("<"):
                members.append(word)
            elif word.strip("<>") in self._classes:
                members += self._classes[word.strip("<>")]
            else:
                raise BadLexicon(self._name, number, f"there is no class {word} above this line")
        return tuple(members), item["maybe"] is not None


@cache
def shipped(*names: str) -> Lexicon:
    """Return one lexicon of the files `lexicons/NAME.txt`, read once; raises `BadLexicon`."""
    lines: list[str] = []
    folder = files("callflow.language").joinpath("lexicons")
    for name in names:
        lines += folder.joinpath(f"{name}.txt").read_text(encoding="utf-8").splitlines()
    return Lexicon("+".join(names), lines)


def _can_begin(phrase: str) -> bool:
    """An open ending needs the letters that cues are looked up by."""
    return bool(phrase) and not (
        _first(phrase).endswith("*") and len(_first(phrase)) <= _KEY_LENGTH
    )


def _first(phrase: str) -> str:
    return phrase[0] if is_han(phrase) else phrase.split()[0]


def _spoken(phrase: str) -> str:
    return " ".join(
        re.escape(word[:-1]) + r"[^ ]*" if word.endswith("*") else re.escape(word)
        for word in _HAN_OR_WORD.findall(phrase)
    )
