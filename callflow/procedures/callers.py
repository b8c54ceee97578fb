"""How callers put it, in a file beside the procedure: `medical.callers.md` belongs to `medical`.

`## en` opens a language, each bullet below is one utterance. Nothing of it is ever spoken: it is
how a procedure is found, so an operator adds what callers really said, and loses none of ours.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from callflow.procedures.body import BULLET, blocks, language_heading
from callflow.procedures.source import Source

SUFFIX: Final = ".callers.md"

_LANGUAGE: Final = 2

Said = dict[str, tuple[str, ...]]
"""Utterances by language."""


def belongs_to(path: Path) -> str | None:
    """The scenario that a file of utterances is about, None for any other file."""
    name = path.name
    return name.removesuffix(SUFFIX) if name.lower().endswith(SUFFIX) else None


def parse_callers(path: Path, data: bytes) -> Said:
    """Read one file. Raises SopError for a bullet above the first language, an unknown language,
    and text that is neither (below the first language)."""
    source = Source.of(path, data)
    languages: dict[str, int] = {}
    said: dict[str, list[str]] = {}
    for line, level, text in blocks(source, 0):
        if level == _LANGUAGE:
            language = language_heading(source, line, text, languages)
            languages[language] = line
            said[language] = []
        elif level == BULLET and not said:
            source.fail(line, "an utterance needs a language above it; write ## en first")
        elif level == BULLET:
            if not any(letter.isalnum() for letter in text):
                source.fail(line, "an utterance without a word; write what a caller says")
            said[language].append(text)
        elif said:
            source.fail(line, "only ## languages and '- utterances' belong here")
    return {language: tuple(dict.fromkeys(texts)) for language, texts in said.items()}


def joined(*said: Said) -> Said:
    """All utterances of some files, each once, in their order."""
    languages = dict.fromkeys(language for each in said for language in each)
    return {
        language: tuple(dict.fromkeys(text for each in said for text in each.get(language, ())))
        for language in languages
    }
