"""The small language in which a lexicon says what is forbidden, and its regular expressions.

Elements stand with blanks between them and must follow each other in one clause:

    word          that word, or a regular expression for one: `cables?`, `overload\\w*`
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
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

MARKS: Final = ",.?"
_FIELD: Final = re.compile(r"\{([\w|]+)\}")
_GAP: Final = re.compile(r"~(\d+)?")
_ELEMENT: Final = re.compile(r"\{[a-z_|]+\}\??|~~|~\d*|<\w+>")
_WORD_ENDS: Final = " |)"


@dataclass(frozen=True, slots=True)
class Pattern:
    """A compiled pattern, with the fields that must be there for it to match at all."""

    source: str
    regex: re.Pattern[str]
    needs: tuple[str, ...]


def compiled(source: str, fields: Mapping[str, str], spaced: bool) -> Pattern:
    """Compile one pattern. `fields` holds alternations; `spaced`: the script puts blanks in.

    Raises ValueError for an unknown field and for what is no pattern.
    """
    reader = _Reader(source, fields, spaced)
    start = "(?<= )" if spaced and not source.startswith("^") else ""
    try:
        regex = re.compile(start + reader.whole())
    except re.error as error:
        raise ValueError(f"pattern {source!r} cannot be used ({error})") from error
    return Pattern(source, regex, tuple(reader.needs))


@dataclass(slots=True)
class _Reader:
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

    def _sequence(self) -> str:
        parts: list[str] = []
        while True:
            while self._next() == " ":
                self.at += 1
            if self._next() in ("", "|", ")"):
                return "".join(parts)
            parts.append(self._element())

    def _next(self) -> str:
        return self.source[self.at : self.at + 1]

    def _element(self) -> str:
        if self._next() == "!":
            return self._absent()
        if self._next() == "(" and self.source[self.at + 1 : self.at + 2] != "?":
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
        optional = self._optional()
        if optional or len(options) > 1:
            self.needs = kept
        return f"(?:{'|'.join(options)}){optional}"

    def _optional(self) -> str:
        if self._next() == "?":
            self.at += 1
            return "?"
        return ""

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
            if char in "([{":
                depth += 1
            elif char in ")]}":
                depth -= 1
            self.at += 1
        return self.source[start : self.at]

    def _element_begins(self) -> bool:
        if self._next() == "(":
            return self.source[self.at + 1 : self.at + 2] != "?"
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
        blank = " " if self.spaced else ""
        return f"(?:{'|'.join(self._named(word) for word in words)}){blank}"

    def _named(self, word: str) -> str:
        return _FIELD.sub(
            lambda found: "(?:" + "|".join(self._known(name) for name in found[1].split("|")) + ")",
            word,
        )

    def _special(self, word: str) -> str:
        blank = " " if self.spaced else ""
        if gap := _GAP.fullmatch(word):
            return self._gap(gap[1] or ("6" if self.spaced else "8"))
        found = {
            "^": f"(?<=[{MARKS}]{blank})",
            "$": f"(?=[{MARKS}])",
            "<q>": r"(?=[^.?]*\?)",
            "<s>": r"(?=[^.?]*\.)",
            "~~": r"[^.?]{0,120}?" + ("(?<= )" if self.spaced else ""),
            ",": f",{blank}",
            "?": rf"\?{blank}",
        }
        if word == "<do>":
            return f"(?:(?<=[{MARKS}]{blank})|(?:{self._known('lead')}){blank})"
        return found.get(word, "")

    def _gap(self, most: str) -> str:
        if self.spaced:
            return rf"(?:[^ {MARKS}]+ ){{0,{most}}}?"
        return rf"[^{MARKS}]{{0,{most}}}?"

    def _known(self, name: str) -> str:
        if name not in self.fields:
            raise ValueError(f"no field is called {name!r}")
        return self.fields[name]
