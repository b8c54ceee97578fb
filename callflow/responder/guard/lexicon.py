"""The words that the guard knows in one language, read from `lexicon/<language>.yaml`.

An operator can read these files; each says at its top how it is put together. They are read once
in a process.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from importlib.resources import files
from typing import Any, Final

import yaml

from callflow.errors import CallflowError
from callflow.responder.guard import inflect
from callflow.responder.guard.pattern import Pattern, compiled

LANGUAGES: Final = ("en", "es", "zh")


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
    what no fact supports.

    An excuse holds for the clause it stands in, `pardon` for the whole sentence. A rule whose
    `denial` is false is not lifted by "don't": medical advice stays advice.
    """

    name: str
    catch: tuple[Pattern, ...]
    always: tuple[Pattern, ...]
    unsupported: tuple[Pattern, ...]
    excuse: tuple[Pattern, ...]
    pardon: tuple[Pattern, ...]
    denial: bool


@dataclass(frozen=True, slots=True)
class Shape:
    """What replies look like (see shape.py). `nearest` names the rule for what looks otherwise."""

    suggestion: tuple[Pattern, ...]
    fine: tuple[Pattern, ...]
    statement: tuple[Pattern, ...]
    delicate: tuple[Pattern, ...]
    suspect: tuple[Pattern, ...]
    nearest: tuple[tuple[str, Pattern], ...]


@dataclass(frozen=True)
class Lexicon:
    """One language. `fields` are alternations by name, for patterns and for code."""

    language: str
    spaced: bool
    fields: Mapping[str, str]
    replacements: Mapping[str, str]
    rules: tuple[Rule, ...]
    shape: Shape
    tables: Mapping[str, Mapping[str, Any]]

    def pattern(self, source: str) -> Pattern:
        """Compile a pattern over this lexicon's fields. Raises LexiconError."""
        try:
            return compiled(source, self.fields, self.spaced)
        except ValueError as error:
            raise LexiconError(self.language, "a pattern", str(error)) from error

    @cached_property
    def present(self) -> Mapping[str, Pattern]:
        """One pattern for each field: is any of its entries in a text?"""
        return {name: self.pattern(f"{{{name}}}") for name in self.fields}


@lru_cache(maxsize=len(LANGUAGES))
def lexicon(language: str) -> Lexicon:
    """Return the lexicon of `en`, `es` or `zh`, read at the first call. Raises LexiconError."""
    if language not in LANGUAGES:
        raise LexiconError(language, "file", f"there is none; there are {', '.join(LANGUAGES)}")
    data = files("callflow.responder.guard").joinpath("lexicon", f"{language}.yaml")
    try:
        found = yaml.load(data.read_text(encoding="utf-8"), Loader=_LOADER)
    except (OSError, yaml.YAMLError) as error:
        raise LexiconError(language, "file", f"cannot be read ({error})") from error
    return _built(language, found)


_STEM: Final = re.compile(r"(\w+)~")
# The C loader is ten times as fast and not built everywhere.
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _built(language: str, found: Mapping[str, Any]) -> Lexicon:
    spaced = language != "zh"
    fields: dict[str, str] = {}
    for name, entries in found["fields"].items():
        fields[name] = _alternation(language, name, entries, fields)
    bare = Lexicon(language, spaced, fields, found["replacements"], (), _NO_SHAPE, found["tables"])
    return replace(
        bare,
        rules=tuple(_rule(bare, name, parts) for name, parts in found["rules"].items()),
        shape=_shape(bare, found["shape"]),
    )


_NO_SHAPE: Final = Shape((), (), (), (), (), ())


def _shape(lexicon: Lexicon, parts: Mapping[str, Any]) -> Shape:
    def patterns(key: str) -> tuple[Pattern, ...]:
        return tuple(lexicon.pattern(source) for source in parts[key])

    return Shape(
        suggestion=patterns("suggestion"),
        fine=patterns("fine"),
        statement=patterns("statement"),
        delicate=patterns("delicate"),
        suspect=patterns("suspect"),
        nearest=tuple((name, lexicon.pattern(text)) for name, text in parts["nearest"].items()),
    )


def _alternation(language: str, name: str, entries: str, known: Mapping[str, str]) -> str:
    bend = inflect.english if language == "en" else inflect.spanish
    forms: list[str] = []
    for entry in filter(None, (part.strip() for part in str(entries).split(","))):
        if entry.startswith("{"):
            if entry[1:-1] not in known:
                raise LexiconError(language, f"field {name}", f"{entry} is not given above it")
            forms.append(known[entry[1:-1]])
        else:
            forms.append(_STEM.sub(lambda stem: f"(?:{bend(stem[1])})", entry))
    # An alternation takes the first that fits: longer ones must come first.
    return "|".join(sorted(forms, key=len, reverse=True))


def _rule(lexicon: Lexicon, name: str, parts: Mapping[str, Any]) -> Rule:
    def patterns(key: str) -> tuple[Pattern, ...]:
        return tuple(lexicon.pattern(source) for source in parts.get(key) or ())

    return Rule(
        name.partition(",")[0],
        catch=patterns("catch"),
        always=patterns("always"),
        unsupported=patterns("unsupported"),
        excuse=patterns("excuse"),
        pardon=patterns("pardon"),
        denial=bool(parts.get("denial", True)),
    )
