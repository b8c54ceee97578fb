"""Turns procedures into what retrieval learns from: passages, and how callers put what they need.

A topic is what one answer is about: a scenario of our own procedures, or one chunk of another set.
Groups gather topics coarsely, so that two sets can be compared.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import astuple, dataclass
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import Final

from callflow.procedures.document import PARTS, SopDocument
from callflow.procedures.library import SopLibrary
from callflow.procedures.parser import parse_callers

ENGINE_VERSION: Final = 4
"""Counted up when the same corpus is to be indexed in another way: old indexes are built anew."""

NOTHING: Final = ""
"""The topic of what speaks for no topic, such as "yes" or "the third floor": it has no passages."""

_ANSWERS: Final = "answers.callers.md"


@dataclass(frozen=True, slots=True)
class Passage:
    """A text that a search may return, such as one section of a procedure in one language."""

    id: str
    topic: str
    group: str
    language: str
    section: str
    text: str


@dataclass(frozen=True, slots=True)
class Example:
    """A way in which a caller puts what a topic is about. `cue`: a key phrase, no utterance."""

    topic: str
    language: str
    text: str
    cue: bool = False


@dataclass(frozen=True)
class Corpus:
    """Passages and examples; `grave` are the topics in which life is at risk (P1)."""

    passages: tuple[Passage, ...]
    examples: tuple[Example, ...]
    grave: frozenset[str] = frozenset()

    @cached_property
    def fingerprint(self) -> str:
        """The same for the same content, on every machine: 32 hexadecimal digits."""
        digest = hashlib.sha256(f"callflow {ENGINE_VERSION}".encode())
        for passage in self.passages:
            digest.update(json.dumps(["passage", *astuple(passage)]).encode())
        for example in self.examples:
            digest.update(json.dumps(["example", *astuple(example)]).encode())
        digest.update(json.dumps(sorted(self.grave)).encode())
        return digest.hexdigest()[:32]

    @cached_property
    def topics(self) -> tuple[str, ...]:
        """The topics that have a passage, in their order, and NOTHING where it has examples."""
        known = dict.fromkeys(passage.topic for passage in self.passages)
        if any(example.topic == NOTHING for example in self.examples):
            known[NOTHING] = None
        return tuple(known)

    @cached_property
    def rows(self) -> tuple[Example | Passage, ...]:
        """All that is searched: the examples of these topics, and then the passages."""
        known = frozenset(self.topics)
        return (*(each for each in self.examples if each.topic in known), *self.passages)

    @cached_property
    def groups(self) -> dict[str, str]:
        """The group of each topic that has a passage."""
        return {passage.topic: passage.group for passage in self.passages}


def of_library(library: SopLibrary) -> Corpus:
    """Return the procedures as a corpus: a topic for each scenario, a passage for each section.

    Sections stand once in each language that the document has them in, with the ids that
    `SopDocument.chunk` gives. Examples are what callers say of each scenario, its cues, and what
    they say in answer to any question, which is about NOTHING.
    """
    documents = sorted(library.documents.values(), key=lambda document: document.id)
    return Corpus(
        tuple(passage for document in documents for passage in _passages(document)),
        (*(each for document in documents for each in _examples(document)), *_answers()),
        frozenset(each.id for each in documents if each.front.urgency == "P1"),
    )


def _passages(document: SopDocument) -> Iterator[Passage]:
    for language in document.languages:
        for section in PARTS:
            sentences = document.sections.get((language, section), ())
            if sentences:
                text = " ".join(sentence.text for sentence in sentences)
                name = f"{document.id}.{section}.{language}"
                group = document.front.group
                yield Passage(name, document.id, group, language, section, text)


def _examples(document: SopDocument) -> Iterator[Example]:
    for texts, cue in ((document.examples, False), (document.front.cues, True)):
        for language, phrases in texts.items():
            yield from (Example(document.id, language, phrase, cue) for phrase in phrases)


def _answers() -> Iterator[Example]:
    path = Path(str(files("callflow.procedures").joinpath(_ANSWERS)))
    for language, texts in parse_callers(path, path.read_bytes()).items():
        yield from (Example(NOTHING, language, text) for text in texts)
