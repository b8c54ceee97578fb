"""The rules by which the guard judges one language, read from `lexicon/<language>.yaml`.

An operator can read these files; each says at its top how it is put together. They are read once
in a process.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib.resources import files
from typing import Any, Final

from callflow import strict_yaml
from callflow.errors import CallflowError
from callflow.language.lexicon import (
    Pattern,
    compile_pattern,
    english_forms,
    longest_first,
    spanish_forms,
)

LANGUAGES: Final = ("en", "es", "zh")
_STEM: Final = re.compile(r"(\w+)~")


class LexiconError(CallflowError):
    """A lexicon of the guard that cannot be used: which, where in it, and what is wrong."""

    def __init__(self, language: str, place: str, reason: str) -> None:
        self.language = language
        self.place = place
        self.reason = reason
        super().__init__(
            f"guard lexicon {language}, {place}: {reason}; mend it, or reinstall callflow"
        )


@dataclass(frozen=True, slots=True)
class Rule:
    """What one rule catches. `always` is caught even when it is denied or excused.

    `catch` of the rules `eta` and `dispatch` may be said once a fact supports it; `unsupported` is
    what no fact supports. An `excuse` holds for the clause it stands in, `pardon` for the whole
    sentence. A rule whose `denial` is false is not lifted by "don't": medical advice stays advice.
    """

    name: str
    catch: tuple[Pattern, ...] = ()
    always: tuple[Pattern, ...] = ()
    unsupported: tuple[Pattern, ...] = ()
    excuse: tuple[Pattern, ...] = ()
    pardon: tuple[Pattern, ...] = ()
    denial: bool = True


@dataclass(frozen=True, slots=True)
class AnswerWords:
    """How a language answers in a word or two; see short_answer.py.

    `light` fits a whole text, `yes`, `no_only` and `mild` a whole clause; the others are searched
    for: a word of `clause` makes a sentence that says more than yes or no. `means` gives for each
    question what an answer says, written out.
    """

    light: re.Pattern[str]
    yes: re.Pattern[str]
    mild: re.Pattern[str]
    no_only: re.Pattern[str]
    no: re.Pattern[str]
    assent: re.Pattern[str]
    amount: re.Pattern[str]
    clause: re.Pattern[str]
    reversed: re.Pattern[str]
    unknowing: tuple[Pattern, ...]
    asks: tuple[Pattern, ...]
    reversible: frozenset[str]
    means: Mapping[str, Mapping[str, str]]


class Rulebook:
    """What the guard knows of one language.

    `rules` are asked in their order. `shape` is what replies look like (see form.py), with the
    patterns of `nearest` that name the rule for what looks otherwise. `tables` hold numbers,
    lengths of time and the words that tell the language from others.
    """

    def __init__(self, language: str, found: Mapping[str, Any]) -> None:
        """Compile what a file holds. Raises LexiconError."""
        self.language = language
        self.spaced = language != "zh"
        self.tables: Mapping[str, Any] = found["tables"]
        self._fields: dict[str, str] = {}
        for name, entries in found["fields"].items():
            self._fields[name] = self._alternation(name, entries)
        self.replacements = [(re.compile(old), new) for old, new in found["replacements"].items()]
        self.rules = tuple(self._rule(name, parts) for name, parts in found["rules"].items())
        shape = found["shape"]
        self.nearest = {name: self.pattern(text) for name, text in shape["nearest"].items()}
        self.shape = {name: self._patterns(shape, name) for name in shape if name != "nearest"}
        self.answers = self._answers(found["answers"])

    def pattern(self, source: str) -> Pattern:
        """Compile a pattern over this lexicon's fields. Raises LexiconError."""
        try:
            return compile_pattern(source, self._fields, spaced=self.spaced)
        except ValueError as error:
            raise LexiconError(self.language, "a pattern", str(error)) from error

    @cached_property
    def present(self) -> Mapping[str, re.Pattern[str]]:
        """One regular expression for each field: is any of its entries in a text?"""
        return {name: self.pattern(f"{{{name}}}").regex for name in self._fields}

    @cached_property
    def denied_twice(self) -> re.Pattern[str]:
        """Denies what it seems to forbid: "don't stop pulling"."""
        return self.pattern("{denial} ~2 {stopping}").regex

    @cached_property
    def pair(self) -> re.Pattern[str]:
        """Two forbidden things that one denial reaches: "don't push and pull"."""
        return self.pattern("{grave} {pairing} {grave}").regex

    def _alternation(self, name: str, entries: str) -> str:
        bend = english_forms if self.language == "en" else spanish_forms
        forms: list[str] = []
        for entry in filter(None, map(str.strip, entries.split(","))):
            if not entry.startswith("{"):
                forms.append(_STEM.sub(lambda stem: f"(?:{bend(stem[1])})", entry))
            elif entry[1:-1] in self._fields:
                forms.append(self._fields[entry[1:-1]])
            else:
                raise LexiconError(self.language, f"field {name}", f"{entry} is not given above it")
        return longest_first(forms)

    def _answers(self, parts: Mapping[str, Any]) -> AnswerWords:
        blank = " " if self.spaced else ""

        def whole(name: str) -> re.Pattern[str]:
            extra = f"|[,.]|{self._numbers(1)}" if name == "light" else ""
            return re.compile(rf"(?:(?:{self._words(parts[name])}{extra}){blank})++")

        def anywhere(words: str) -> re.Pattern[str]:
            return re.compile(rf"(?<= )(?:{words})(?= )" if self.spaced else f"(?:{words})")

        return AnswerWords(
            light=whole("light"),
            yes=whole("yes"),
            mild=whole("mild"),
            no_only=whole("no"),
            no=anywhere(self._words(parts["no"])),
            assent=anywhere(self._words(parts["assent"])),
            amount=anywhere(self._numbers(2)),
            clause=anywhere(self._words(parts["clause"])),
            reversed=anywhere(self._words(parts["reversed"])),
            unknowing=self._patterns(parts, "unknowing"),
            asks=self._patterns(parts, "asks"),
            reversible=frozenset(map(str.strip, parts["reversible"].split(","))),
            means=parts["means"],
        )

    def _words(self, entries: str) -> str:
        return longest_first(map(str.strip, entries.split(",")))

    def _numbers(self, least: int) -> str:
        if not self.spaced:
            return r"\d+|[一二两三四五六七八九十百]+"
        named = (name for name, value in self.tables["numbers"].items() if float(value) >= least)
        return longest_first((*map(re.escape, named), r"\d+"))

    def _patterns(self, parts: Mapping[str, Any], key: str) -> tuple[Pattern, ...]:
        return tuple(self.pattern(source) for source in parts.get(key) or ())

    def _rule(self, name: str, parts: Mapping[str, Any]) -> Rule:
        keys = ("catch", "always", "unsupported", "excuse", "pardon")
        patterns = {key: self._patterns(parts, key) for key in keys}
        denial = parts.get("denial", "true") == "true"
        return Rule(name.partition(",")[0], **patterns, denial=denial)


@lru_cache(maxsize=len(LANGUAGES))
def rulebook(language: str) -> Rulebook:
    """Return the rules of `en`, `es` or `zh`, read at the first call. Raises LexiconError."""
    if language not in LANGUAGES:
        raise LexiconError(language, "file", f"there is none; there are {', '.join(LANGUAGES)}")
    data = files("callflow.responder.guard").joinpath("lexicon", f"{language}.yaml")
    try:
        return Rulebook(language, strict_yaml.parse(data.read_text(encoding="utf-8")))
    except (OSError, strict_yaml.YamlError) as error:
        raise LexiconError(language, "file", f"cannot be read ({error})") from error
