"""Loads the words of the pages in each language: one YAML file per language, keyed by group.

What a caller has said, names of lifts and what people have written are shown as they are; only
callflow's own words are translated.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Final

from callflow import strict_yaml
from callflow.call.language_tag import primary_language

LANGUAGES: Final[Mapping[str, str]] = {"en": "English", "zh": "中文"}
"""Tag → how its readers call it."""

DEFAULT: Final = "en"

COOKIE: Final = "callflow_language"
"""Keeps what a person has chosen on one machine; what they are known to read comes after it."""


class Catalogue:
    """The words of one language. `catalogue(tag)` gives the one there is."""

    def __init__(self, language: str, words: Mapping[str, str]) -> None:
        self.language = language
        self.words = words

    def __call__(self, name: str, /, **values: object) -> str:
        """The words for `name` with `values` in their places. A name that has no words, such as a
        scenario of the operator's own, is shown itself, with spaces for its underscores."""
        words = self.words.get(name)
        if words is None:
            return name.rpartition(".")[2].replace("_", " ")
        return words.format(**values) if values else words

    def select(self, *groups: str) -> dict[str, str]:
        """All words whose names begin with one of `groups` and a dot: what the scripts need."""
        return {name: text for name, text in self.words.items() if name.split(".")[0] in groups}


@cache
def load_words() -> dict[str, dict[str, str]]:
    """Language → `group.key` → words. Raises ValueError where languages differ in their keys or in
    the placeholders of one."""
    found = {language: _load(language) for language in LANGUAGES}
    for language, words in found.items():
        if differ := {name for name, _ in _shape(words) ^ _shape(found[DEFAULT])}:
            raise ValueError(f"{language}.yaml and {DEFAULT}.yaml differ in {sorted(differ)}")
    return found


def _load(language: str) -> dict[str, str]:
    text = (resources.files(__name__) / f"{language}.yaml").read_text(encoding="utf-8")
    groups: dict[str, dict[str, str]] = strict_yaml.parse(text)
    return {
        f"{group}.{key}": text for group, words in groups.items() for key, text in words.items()
    }


def _shape(words: Mapping[str, str]) -> set[tuple[str, frozenset[str]]]:
    return {(name, frozenset(re.findall(r"{\w+}", text))) for name, text in words.items()}


@cache
def catalogue(language: str) -> Catalogue:
    """The words of `language`; English where there are none."""
    known = language if language in LANGUAGES else DEFAULT
    return Catalogue(known, load_words()[known])


def choose_language(*wishes: str | None, accepts: str = "") -> str:
    """The language to write in: the first of `wishes` that there is, else the one that the browser
    `accepts` most gladly (RFC 9110, 12.5.4), else English. Regions are ignored."""
    for wish in wishes:
        if wish and primary_language(wish) in LANGUAGES:
            return primary_language(wish)
    weighed = sorted(_accepted(accepts), key=lambda one: -one[1])
    return next((tag for tag, weight in weighed if tag in LANGUAGES and weight > 0), DEFAULT)


def _accepted(header: str) -> list[tuple[str, float]]:
    """The languages of an Accept-Language header with their weights."""
    found = []
    for part in header.split(",")[:20]:
        tag, _, parameter = part.partition(";")
        name, _, value = parameter.strip().partition("=")
        try:
            weight = float(value) if name.strip().lower() == "q" else 1.0
        except ValueError:
            weight = 0.0
        found.append((primary_language(tag), weight))
    return found
