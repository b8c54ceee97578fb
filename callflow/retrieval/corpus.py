"""What retrieval learns from: passages that can be found, and how people put what they are about.

A topic is what one answer is about: a scenario of our own procedures, or one chunk of a set that
comes as JSON lines. Groups gather topics coarsely, so that two sets can be compared.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, NoReturn

from callflow.errors import CallflowError
from callflow.procedures.callers import parse_callers
from callflow.procedures.document import SECTIONS, SopDocument
from callflow.procedures.library import SopLibrary

ENGINE_VERSION: Final = 2
"""Counted up when the same corpus is to be indexed in another way: old indexes are built anew."""

NOTHING: Final = ""
"""The topic of what speaks for no topic, such as "yes" or "the third floor": it has no passages."""

_ANSWERS: Final = "answers.callers.md"

# A chunk of a page is some 1,000 characters; far more is a whole book in one field.
MAX_TEXT_CHARS: Final = 20_000


class CorpusError(CallflowError):
    """A line of a file of chunks or examples that cannot be used: where, and what to change."""

    def __init__(self, path: Path, line: int, reason: str) -> None:
        self.path = path
        self.line = line
        self.reason = reason
        super().__init__(f"{path}:{line}: {reason}")


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
            fields = (passage.id, passage.topic, passage.group, passage.language, passage.section)
            digest.update(json.dumps(["passage", *fields, passage.text]).encode())
        for example in self.examples:
            row = ["example", example.topic, example.language, example.text, example.cue]
            digest.update(json.dumps(row).encode())
        digest.update(json.dumps(sorted(self.grave)).encode())
        return digest.hexdigest()[:32]

    @cached_property
    def topics(self) -> tuple[str, ...]:
        """The topics that have a passage, and NOTHING where it has examples; sorted by place."""
        known = dict.fromkeys(passage.topic for passage in self.passages)
        if any(example.topic == NOTHING for example in self.examples):
            known[NOTHING] = None
        return tuple(known)

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
        for section in SECTIONS:
            sentences = document.sections.get((language, section), ())
            if sentences:
                text = " ".join(sentence.text for sentence in sentences)
                name = f"{document.id}.{section}.{language}"
                group = document.front.group
                yield Passage(name, document.id, group, language, section, text)


def _examples(document: SopDocument) -> Iterator[Example]:
    for language, phrases in document.examples.items():
        yield from (Example(document.id, language, phrase) for phrase in phrases)
    for language, cues in document.front.cues.items():
        yield from (Example(document.id, language, cue, cue=True) for cue in cues)


def _answers() -> Iterator[Example]:
    path = Path(str(files("callflow.procedures").joinpath(_ANSWERS)))
    for language, texts in parse_callers(path, path.read_bytes()).items():
        yield from (Example(NOTHING, language, text) for text in texts)


def read_corpus(chunks: Path, examples: Path) -> Corpus:
    """Read another set of procedures from JSON lines; each chunk is a topic of its own.

    A chunk is `{"id", "scenario", "title", "text"}`, its group the scenario; an example is
    `{"lang", "chunk", "utterance"}`. Other keys are left alone, empty lines too. Raises CorpusError
    for a file that cannot be read and for the first line that breaks a rule.
    """
    passages: dict[str, Passage] = {}
    for line, row in _rows(chunks):
        passage = _chunk(row, _refusing(chunks, line))
        if passages.setdefault(passage.id, passage) is not passage:
            _refusing(chunks, line)(f"the id {passage.id} is given twice; ids must differ")
    if not passages:
        _refusing(chunks, 1)("no chunk in the file; write one JSON object on each line")
    found = [
        _utterance(row, passages, _refusing(examples, line), chunks)
        for line, row in _rows(examples)
    ]
    return Corpus(tuple(passages.values()), tuple(found))


_Refuse = Callable[[str], NoReturn]


def _refusing(path: Path, line: int) -> _Refuse:
    def refuse(reason: str) -> NoReturn:
        raise CorpusError(path, line, reason)

    return refuse


def _rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (line from 1, object) of every line that is not empty."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        reason = f"cannot be read ({error.strerror}); name a file of JSON lines"
        raise CorpusError(path, 1, reason) from error
    except UnicodeDecodeError as error:
        raise CorpusError(path, 1, "not UTF-8 text; save the file as UTF-8") from error
    # Not splitlines: JSON strings may hold other separators of lines, such as U+2028.
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            refuse = _refusing(path, number)
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                reason = f"not JSON ({error}); write one object on each line"
                raise CorpusError(path, number, reason) from error
            if not isinstance(row, dict):
                refuse("not a JSON object; write one {…} on each line")
            yield number, row


def _text(row: dict[str, Any], key: str, refuse: _Refuse) -> str:
    value = row.get(key)
    if not isinstance(value, str) or not value.strip():
        refuse(f"{key} is missing or is no text; every line needs it")
    if len(value) > MAX_TEXT_CHARS:
        refuse(f"{key} has {len(value)} characters; split it, at most {MAX_TEXT_CHARS} are read")
    try:
        value.encode()
    except UnicodeEncodeError:
        refuse(f"{key} holds half of a surrogate pair, which is no character; delete it")
    return value.strip()


def _chunk(row: dict[str, Any], refuse: _Refuse) -> Passage:
    name, group = _text(row, "id", refuse), _text(row, "scenario", refuse)
    title, text = _text(row, "title", refuse), _text(row, "text", refuse)
    language = _text(row, "lang", refuse) if "lang" in row else "en"
    return Passage(name, name, group, language, title, f"{title}. {text}")


def _utterance(
    row: dict[str, Any], passages: dict[str, Passage], refuse: _Refuse, chunks: Path
) -> Example:
    topic = _text(row, "chunk", refuse)
    if topic not in passages:
        refuse(f"chunk {topic!r} is not in {chunks.name}; use an id that is")
    return Example(topic, _text(row, "lang", refuse), _text(row, "utterance", refuse))
