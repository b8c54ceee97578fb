"""Compiles the patterns of all lexicons, and finds cues by them in speech.

A file of `lexicons/` holds sections of cues, one a line; `#` begins a comment:

    {limb} = arm, leg, left hand        a field: words for the lines below it
    [caught]                            a section
    {limb} ~3 stuck|caught (in)? door\\w*
    手夹住

The guard's rules are written in the same way. Elements of a pattern stand with blanks between them
and must follow each other in one clause:

    word          that word, or a regular expression for one: `cables?`, `overload\\w*`
    手夹住        Chinese counts by character
    a|b|{field}   one of several; a field stands for one of its entries
    (a b|c)       one of several, of more than one word; (a b)? and {field}? may be missing
    ~  ~3         up to six (three) words, or eight (three) Chinese letters, of the same clause
    ~~            whatever stands between, commas as well, within one sentence
    !x  !~x       here x does not follow; it does not follow in this clause (!~3 x: that near)
    ^  $          the beginning, the end of a clause
    ,  ?          that mark
    <do>          where a verb tells somebody to act: a clause begins, or a word that leads there
    <q>  <s>      what is asked; what is stated
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Final

from callflow.errors import CallflowError
from callflow.language.text import Tokens, lexicon_lines

_Cue = tuple[str, re.Pattern[str]]  # of which section
_OPEN_ENDING: Final = r"\w*"
_KEY_LENGTH: Final = 3
_REMEMBERED: Final = 8


class BadLexicon(CallflowError):
    """A line of a lexicon file cannot be read. Only a changed file can raise it."""

    def __init__(self, file: str, line: int, reason: str) -> None:
        """`line` counts from 1."""
        self.file, self.line, self.reason = file, line, reason
        super().__init__(f"{file}:{line}: {reason}. See callflow/language/lexicon.py.")


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
            name_of, equals, entries = line.partition("} = ")
            if line.startswith("[") and line.endswith("]"):
                section = line[1:-1]
            elif equals and name_of.startswith("{"):
                members = tuple(word.strip() for word in entries.split(",") if word.strip())
                self._members[name_of[1:]] = members
                self._fields[name_of[1:]] = "|".join(map(spoken, members))
            elif line:
                try:
                    self._add(section, line)
                except ValueError as error:
                    raise BadLexicon(name, number, str(error)) from error

    def find(self, heard: Tokens) -> tuple[Match, ...]:
        """Return every cue in `heard`, in the order of speech; of a section the longest one.

        Several facts are read from the same cues, so the last answers are remembered.
        """
        return self._remembered(heard)

    def _find(self, heard: Tokens) -> tuple[Match, ...]:
        found: list[Match] = []
        text = heard.text + " "
        whole, begun = self._cues.get, self._open.get
        for index, token in enumerate(heard.tokens):
            cues, more = whole(token), begun(token[:_KEY_LENGTH])
            if cues is None and more is None:
                continue
            best: dict[str, int] = {}
            for section, cue in (*(cues or ()), *(more or ())):
                if (hit := cue.match(text, heard.at[index])) is not None:
                    best[section] = max(best.get(section, 0), hit.end())
            for section, end in best.items():
                found.append(Match(section, index, bisect_left(heard.at, end)))
        return tuple(found)

    def sections(self, heard: Tokens) -> frozenset[str]:
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
def load_lexicon(*names: str) -> Lexicon:
    """Return one lexicon of the files `lexicons/NAME.txt`, read once; raises `BadLexicon`."""
    lines = [line for name in names for line in lexicon_lines(name)]
    return Lexicon("+".join(names), lines)


CLAUSE_MARKS: Final = ",.?"
_FIELD: Final = re.compile(r"\{([\w|]+)\}")
_GAP: Final = re.compile(r"~(\d+)?")
_ELEMENT: Final = re.compile(r"\{[a-z_|]+\}\??|~~|~\d*|<\w+>")
_HAN: Final = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff]")
_HAN_OR_WORD: Final = re.compile(rf"{_HAN.pattern}|[^\s\u3400-\u4dbf\u4e00-\u9fff]+")
_WORD_ENDS: Final = " |)"

_CONSONANTS: Final = "bcdfghjklmnpqrstvwxz"
# Accents are gone by the time these are looked for. Participles are left out, for "the doors are
# closed" is a state and nothing that is asked of anybody.
_SPANISH_ENDINGS: Final = """
o as a amos ais an es e emos eis en imos is i iste io isteis ieron aste asteis aron
are aras ara aremos areis aran ere eras era eremos ereis eran ire iras ira iremos ireis iran
aria arias ariamos arian eria erias eriamos erian iria irias iriamos irian ar er ir ad ed id
ando iendo yendo ase asen iese iesen iera ieran aba abas abamos aban ia ias iamos ian
"""
_SPANISH_ENCLITICS: Final = """
me te se lo la los las le les nos os melo mela melos melas selo sela selos selas
telo tela telos telas noslo nosla noslos noslas
"""


@dataclass(frozen=True, slots=True)
class Pattern:
    """A compiled pattern, with the fields that must be there for it to match at all."""

    source: str
    regex: re.Pattern[str]
    needs: tuple[str, ...]


def compile_pattern(
    source: str, fields: Mapping[str, str], *, spaced: bool = True, anywhere: bool = True
) -> Pattern:
    """Compile one pattern, for texts in which every word has a blank behind it.

    `fields` holds alternations; `spaced`: the script puts blanks between words; `anywhere`: it is
    searched for, and not tried at the beginning of a word. Raises ValueError for an unknown field
    and for what is no pattern.
    """
    reader = _PatternReader(source, fields, spaced)
    start = "(?<= )" if spaced and anywhere and not source.startswith("^") else ""
    try:
        regex = re.compile(start + reader.whole())
    except re.error as error:
        raise ValueError(f"pattern {source!r} cannot be used ({error})") from error
    return Pattern(source, regex, tuple(reader.needs))


def first_words(source: str, members: Mapping[str, tuple[str, ...]]) -> list[str]:
    """Return the words that a pattern may begin with; empty where it may begin with any.

    `members`: the entries of each field. `door\\w*` comes as it stands.
    """
    first = re.match(r"\(([^()]*)\)(?!\?)|([^\s(~!^$,?<]\S*)", source)
    if first is None or first[0].endswith("}?"):
        return []
    found: list[str] = []
    for option in (first[1] or first[0]).split("|"):
        named = _FIELD.fullmatch(option)
        for entry in members.get(named[1], ()) if named else (option,):
            found.append(entry[0] if _HAN.match(entry) else entry.split()[0])
    return found


def spoken(entry: str) -> str:
    """Return an entry of a field as it is heard: Chinese by character."""
    return " ".join(_HAN_OR_WORD.findall(entry)) if _HAN.search(entry) else entry


def english_forms(stem: str) -> str:
    """Return an alternation of the forms of an English verb: `pry` gives pry, pries, prying …

    Forms that no grammar knows come out as well ("openned"): a guard loses nothing by knowing them.
    """
    forms = {stem}
    if stem.endswith("e"):
        forms |= {stem + "s", stem + "d", stem[:-1] + "ing"}
    elif stem.endswith("y") and stem[-2:-1] in _CONSONANTS:
        forms |= {stem[:-1] + "ies", stem[:-1] + "ied", stem + "ing"}
    else:
        forms |= {stem + "s", stem + "es", stem + "ed", stem + "ing"}
        if stem[-1] in _CONSONANTS:
            forms |= {stem + stem[-1] + "ed", stem + stem[-1] + "ing"}
    return longest_first(map(re.escape, forms))


def spanish_forms(stem: str) -> str:
    """Return what matches the forms of a Spanish verb, with its pronouns: `forz`, `fuerc` …"""
    endings = longest_first(_SPANISH_ENDINGS.split())
    enclitics = longest_first(_SPANISH_ENCLITICS.split())
    return f"{re.escape(stem)}(?:{endings})(?:{enclitics})?"


def longest_first(forms: Iterable[str]) -> str:
    """Return an alternation: it takes the first that fits, so that longer ones must come first."""
    return "|".join(sorted(forms, key=len, reverse=True))


@dataclass(slots=True)
class _PatternReader:
    """Reads a pattern from left to right, and gives the regular expression of what it read."""

    source: str
    fields: Mapping[str, str]
    spaced: bool
    at: int = 0
    depth: int = 0
    needs: list[str] = field(default_factory=list)

    def whole(self) -> str:
        found = self._sequence()
        if self.at < len(self.source):
            raise ValueError(f"pattern {self.source!r}: a bracket too many at {self.at}")
        return found

    @property
    def _blank(self) -> str:
        return " " if self.spaced else ""

    def _sequence(self) -> str:
        parts: list[str] = []
        while True:
            while self._next() == " ":
                self.at += 1
            if self._next() in ("", "|", ")"):
                return "".join(parts)
            parts.append(self._element())

    def _next(self, ahead: int = 0) -> str:
        return self.source[self.at + ahead : self.at + ahead + 1]

    def _element(self) -> str:
        if self._next() == "!":
            return self._absent()
        if self._next() == "(" and self._next(1) != "?":
            return self._group()
        options = [self._word()]
        while self.depth == 0 and self._next() == "|":
            self.at += 1
            options.append(self._word())
        return self._one_of(options)

    def _absent(self) -> str:
        self.at += 1
        gap = _GAP.match(self.source, self.at)
        self.at = gap.end() if gap else self.at
        while self._next() == " ":
            self.at += 1
        kept = list(self.needs)
        body = self._element()
        self.needs = kept
        return f"(?!{self._gap(gap[1] or '12') if gap else ''}{body})"

    def _group(self) -> str:
        self.at += 1
        self.depth += 1
        kept = list(self.needs)
        options = [self._sequence()]
        while self._next() == "|":
            self.at += 1
            options.append(self._sequence())
        if self._next() != ")":
            raise ValueError(f"pattern {self.source!r}: a bracket without its partner")
        self.at += 1
        self.depth -= 1
        optional = "?" if self._next() == "?" else ""
        self.at += len(optional)
        if optional or len(options) > 1:
            self.needs = kept
        return f"(?:{'|'.join(options)}){optional}"

    def _word(self) -> str:
        """Return the next word as it stands; brackets of a regular expression stay together.

        Where the script has no blanks, elements need none between them either.
        """
        if not self.spaced and (found := _ELEMENT.match(self.source, self.at)):
            self.at = found.end()
            return found[0]
        if self._next() in "^$":
            self.at += 1
            return self.source[self.at - 1]
        start, depth = self.at, 0
        while (char := self._next()) and (depth or char not in _WORD_ENDS):
            if not self.spaced and not depth and self.at > start and self._element_begins():
                break
            depth += (char in "([{") - (char in ")]}")
            self.at += 1
        return self.source[start : self.at]

    def _element_begins(self) -> bool:
        if self._next() == "(":
            return self._next(1) != "?"
        return self._next() in "!^$" or _ELEMENT.match(self.source, self.at) is not None

    def _one_of(self, words: list[str]) -> str:
        word = words[0]
        if len(words) == 1:
            if special := self._special(word):
                return special
            if (named := _FIELD.fullmatch(word)) and "|" not in named[1] and not self.depth:
                self.needs.append(named[1])
            if word.endswith("}?"):
                return f"(?:{self._one_of(['(?:' + self._named(word[:-1]) + ')'])})?"
        return f"(?:{'|'.join(self._named(word) for word in words)}){self._blank}"

    def _named(self, word: str) -> str:
        if self.spaced and not _FIELD.search(word):
            return spoken(word)
        return _FIELD.sub(
            lambda found: "(?:" + "|".join(self._known(name) for name in found[1].split("|")) + ")",
            word,
        )

    def _special(self, word: str) -> str:
        blank = self._blank
        if gap := _GAP.fullmatch(word):
            return self._gap(gap[1] or ("6" if self.spaced else "8"))
        found = {
            "^": f"(?<=[{CLAUSE_MARKS}]{blank})",
            "$": f"(?=[{CLAUSE_MARKS}])",
            "<q>": r"(?=[^.?]*\?)",
            "<s>": r"(?=[^.?]*\.)",
            "~~": r"[^.?]{0,120}?" + ("(?<= )" if self.spaced else ""),
            ",": f",{blank}",
            "?": rf"\?{blank}",
        }
        if word == "<do>":
            return f"(?:(?<=[{CLAUSE_MARKS}]{blank})|(?:{self._known('lead')}){blank})"
        return found.get(word, "")

    def _gap(self, most: str) -> str:
        if self.spaced:
            return rf"(?:[^ {CLAUSE_MARKS}]+ ){{0,{most}}}?"
        return rf"[^{CLAUSE_MARKS}]{{0,{most}}}?"

    def _known(self, name: str) -> str:
        if name not in self.fields:
            raise ValueError(f"no field is called {name!r}")
        return self.fields[name]
