"""The words of the pages, in the languages that dispatchers read: one small table.

What a caller has said, names of lifts and what people have written are shown as they are; only
callflow's own words are translated. A word that the table does not have is shown as it is, with
spaces for its underscores: a scenario of the operator's own has a readable name at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Final

from callflow.call.language_tag import primary_language
from callflow.i18n.journal_words import JOURNAL
from callflow.i18n.page_words import PAGES
from callflow.i18n.scenario_words import SCENARIOS

LANGUAGES: Final[Mapping[str, str]] = {"en": "English", "zh": "中文"}
"""Tag → how its readers call it."""

DEFAULT: Final = "en"

COOKIE: Final = "callflow_language"
"""Keeps what a person has chosen on one machine; what they are known to read comes after it."""


class Catalogue:
    """The words of one language. `catalogue(tag)` gives the one there is."""

    def __init__(self, language: str) -> None:
        self.language = language
        column = list(LANGUAGES).index(language)
        self._words = {
            name: pair[column]
            for table in (PAGES, JOURNAL, SCENARIOS)
            for name, pair in table.items()
        }

    def __call__(self, name: str, /, **shown: object) -> str:
        """The words for `name` with `shown` in their places; a name that nobody has given words
        is itself, for what comes from a newer release or from the operator."""
        words = self._words.get(name)
        if words is None:
            return name.rpartition(".")[2].replace("_", " ")
        return words.format(**shown) if shown else words

    def under(self, *groups: str) -> dict[str, str]:
        """All words whose names begin with one of `groups` and a dot: what the scripts need."""
        return {
            name: words for name, words in self._words.items() if name.partition(".")[0] in groups
        }


@cache
def catalogue(language: str) -> Catalogue:
    """The words of `language`; English where there are none."""
    return Catalogue(language if language in LANGUAGES else DEFAULT)


def chosen(*wishes: str | None, accepts: str = "") -> str:
    """The language to write in: the first of `wishes` that there is, else the one that the browser
    `accepts` most gladly (RFC 9110, 12.5.4), else English. Regions are ignored."""
    for wish in wishes:
        if wish and primary_language(wish) in LANGUAGES:
            return primary_language(wish)
    weighed = sorted(_accepted(accepts), key=lambda one: -one[1])
    return next((tag for tag, weight in weighed if tag in LANGUAGES and weight > 0), DEFAULT)


def _accepted(header: str) -> list[tuple[str, float]]:
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
