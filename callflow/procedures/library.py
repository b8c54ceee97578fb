"""All procedures of this process: the shipped ones, then those of the operator's own folder.

A document of the operator's replaces the shipped one of the same id; a sentence in the operator's
`_common.md` replaces the shared phrase of the same id in every document that uses it; what callers
say (`*.callers.md`) is added to ours. A folder with one bad file is not loaded at all.

A running process looks for changes of that folder every two seconds, by name, size and time of each
file, and reads them in a thread of its own. A folder with a mistake in it is not taken: the
procedures stay as they were, and a line in the log names the mistake, once for each change.
"""

from __future__ import annotations

import logging
import stat
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import Final, Generic, TypeVar

from callflow.call.facts import CALLER_FACTS, HUMAN_FACTS, OWN_FACTS
from callflow.call.language_tag import primary_language
from callflow.call.record import Sentence, SopChunk
from callflow.errors import CallflowError, SopError, did_you_mean
from callflow.procedures.document import (
    DEFAULT_SCENARIO,
    FALLBACK_LANGUAGE,
    PARTS,
    Shared,
    SopDocument,
)
from callflow.procedures.parser import (
    CallerPhrases,
    parse_callers,
    parse_document,
    parse_shared,
)

SHARED_FILE: Final = "_common.md"
CALLERS_SUFFIX: Final = ".callers.md"
_NOT_PROCEDURES: Final = ("readme.md", SHARED_FILE)


@dataclass(frozen=True)
class SopLibrary:
    """Documents by scenario id; never changed once loaded, so it may be shared by threads."""

    documents: Mapping[str, SopDocument] = field(default_factory=dict)
    shared: Shared = field(default_factory=Shared)

    @classmethod
    def load(cls, own_dir: Path | None = None) -> SopLibrary:
        """Read the shipped documents and those in `own_dir` (`*.md`; what is hidden is left alone).

        Raises SopError for the first thing that is wrong in any of them, or with line 1 when
        `own_dir` is no folder that can be read or an entry `*.md` of it is no file that can be.
        """
        shipped = dict(_shipped_files())
        own = dict(_own_files(own_dir)) if own_dir else {}
        shared = _shared(shipped, own)
        documents = _documents(shipped, shared)
        documents.update(_documents(own, shared))
        return cls(_with_callers(documents, shipped, own), shared)

    def document(self, scenario: str) -> SopDocument:
        """Return the document of `scenario`, or the default one where there is none.

        A call may outlive the release that knew its scenario: it is still answered.
        """
        return self.documents.get(scenario) or self.documents[DEFAULT_SCENARIO]

    def chunks(self, scenario: str, language: str) -> tuple[SopChunk, ...]:
        """Return all sections of one procedure: what to ask, say, never say, when to escalate.

        The `never` chunk is always among them. A section that is missing in `language` comes in
        English. An unknown scenario is served from the default one.
        """
        code = primary_language(language)
        known = scenario if scenario in self.documents else DEFAULT_SCENARIO
        return self._chunks[(known, code if code in self._languages else FALLBACK_LANGUAGE)]

    def answers(
        self, questions: Iterable[str], scenarios: Sequence[str], language: str
    ) -> tuple[Sentence, ...]:
        """Return the approved answers to what a caller asks, in the order of the questions.

        `scenarios`: what the call is about, the gravest first: its answers come before those that
        all procedures share. A question that nobody has an answer to in `language` has the English
        one.
        """
        code = primary_language(language)
        found: list[Sentence] = []
        for question in questions:
            for scenario in scenarios:
                if scenario in self.documents:
                    found += self.documents[scenario].answers(question, code)
            of_all = self.shared.answers.get(code) or self.shared.answers.get(FALLBACK_LANGUAGE, ())
            found += (line for line in of_all if line.answers == question)
        return tuple(found)

    @cached_property
    def _languages(self) -> frozenset[str]:
        return frozenset(code for each in self.documents.values() for code in each.languages)

    @cached_property
    def _chunks(self) -> dict[tuple[str, str], tuple[SopChunk, ...]]:
        """By scenario and language; built once, since every turn asks for some."""
        return {
            (name, language): tuple(
                chunk
                for section in PARTS
                if (chunk := document.chunk(section, language)) is not None
            )
            for name, document in self.documents.items()
            for language in {*self._languages, FALLBACK_LANGUAGE}
        }


def check(folder: Path) -> list[SopError]:
    """Return what is wrong in an operator's folder, one problem for each file, in file order."""
    try:
        own, shipped = dict(_own_files(folder)), dict(_shipped_files())
        shared = _shared(shipped, own)
    except SopError as error:
        return [error]
    problems: list[SopError] = []
    seen: dict[str, Path] = {}
    for path, data in _procedures(own):
        try:
            _add(seen, parse_document(path, data, shared))
        except SopError as error:
            problems.append(error)
    # What a damaged document is called is no fault of the file beside it.
    named = {path.stem for path, _ in _procedures(own)}
    known = {*seen, *named, *_documents(shipped, shared)}
    for path, data in own.items():
        try:
            _callers_of(path, data, known)
        except SopError as error:
            problems.append(error)
    return sorted(problems, key=lambda problem: problem.path)


def notes(library: SopLibrary) -> list[str]:
    """Return what a person should see to in documents that are right as they stand.

    That a signature is missing, and which sentence waits for a fact that nobody can record.
    """
    recordable = {*HUMAN_FACTS, *OWN_FACTS, *CALLER_FACTS}
    found = []
    for name, document in sorted(library.documents.items()):
        if document.front.unsigned:
            found.append(f"{name} wants the signature of: {', '.join(document.front.unsigned)}")
        dead = {
            f"{name}: [{line.id}] waits for {line.only_after}, which nobody can record"
            for lines in document.sections.values()
            for line in lines
            if line.only_after is not None and line.only_after not in recordable
        }
        found += sorted(dead)
    return found


def _shipped_files() -> Iterator[tuple[Path, bytes]]:
    folder = files("callflow.procedures").joinpath("sops")
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.name.endswith(".md"):
            yield Path(str(entry)), entry.read_bytes()


def _own_files(folder: Path) -> Iterator[tuple[Path, bytes]]:
    try:
        entries = sorted(folder.iterdir())
    except OSError as error:
        raise SopError(folder, 1, f"no folder of procedures ({error.strerror})") from error
    for path in entries:
        if path.suffix.lower() == ".md" and not path.name.startswith("."):
            yield path, _read(path)


def _read(path: Path) -> bytes:
    try:
        # Asked before it is opened: to open a named pipe would wait for a writer for ever.
        if stat.S_ISREG(path.stat().st_mode):
            return path.read_bytes()
    except OSError as error:
        reason = f"cannot be read ({error.strerror}); repair it, or take it out of the folder"
        raise SopError(path, 1, reason) from error
    raise SopError(path, 1, "not a regular file; rename it, or take it out of the folder")


def _procedures(found: Mapping[Path, bytes]) -> Iterator[tuple[Path, bytes]]:
    for path, data in found.items():
        if path.name.lower() not in _NOT_PROCEDURES and _about(path) is None:
            yield path, data


def _with_callers(
    documents: Mapping[str, SopDocument], *folders: Mapping[Path, bytes]
) -> dict[str, SopDocument]:
    """The documents with what callers say in the files beside them, of all folders."""
    said: dict[str, CallerPhrases] = {}
    for found in folders:
        for path, data in found.items():
            for scenario, more in _callers_of(path, data, documents).items():
                said[scenario] = _joined(said.get(scenario, {}), more)
    return {
        name: replace(document, examples=_joined(document.examples, said.get(name, {})))
        for name, document in documents.items()
    }


def _about(path: Path) -> str | None:
    """The scenario that a file of utterances is about (`medical.callers.md`), None for any other.

    Nothing of such a file is ever spoken: it is how a procedure is found, so an operator adds what
    callers really said, and loses none of ours.
    """
    name = path.name
    return name.removesuffix(CALLERS_SUFFIX) if name.lower().endswith(CALLERS_SUFFIX) else None


def _joined(*said: CallerPhrases) -> CallerPhrases:
    """All utterances of some files, each once, in their order."""
    languages = dict.fromkeys(language for each in said for language in each)
    return {
        language: tuple(dict.fromkeys(text for each in said for text in each.get(language, ())))
        for language in languages
    }


def _callers_of(path: Path, data: bytes, scenarios: Collection[str]) -> dict[str, CallerPhrases]:
    """What callers say, by the scenario it is about; empty for a file of another kind."""
    scenario = _about(path)
    if scenario is None:
        return {}
    if scenario not in scenarios:
        near = did_you_mean(scenario, sorted(scenarios))
        raise SopError(path, 1, f"there is no procedure {scenario!r}{near}")
    return {scenario: parse_callers(path, data)}


def _shared(*folders: Mapping[Path, bytes]) -> Shared:
    shared = Shared()
    for found in folders:
        for path, data in found.items():
            if path.name.lower() == SHARED_FILE:
                shared = parse_shared(path, data, shared)
    return shared


def _documents(found: Mapping[Path, bytes], shared: Shared) -> dict[str, SopDocument]:
    documents: dict[str, SopDocument] = {}
    seen: dict[str, Path] = {}
    for path, data in _procedures(found):
        document = parse_document(path, data, shared)
        _add(seen, document)
        documents[document.id] = document
    return documents


def _add(seen: dict[str, Path], document: SopDocument) -> None:
    first = seen.setdefault(document.id, document.path)
    if first != document.path:
        line = document.id_line
        reason = f"scenario {document.id} is also in {first.name}; keep one file or change the id"
        raise SopError(document.path, line, reason)


log = logging.getLogger(__name__)

CHECK_S: Final = 2.0
"""How often the folder is checked, at most."""

Built = TypeVar("Built")
_Signature = tuple[tuple[str, int, int], ...]


class Reloader(Generic[Built]):
    """What has been built of the procedures, built anew when the operator's folder changes."""

    def __init__(
        self, own_dir: Path | None, library: SopLibrary, build: Callable[[SopLibrary], Built]
    ) -> None:
        """Build from `library`, which was read from `own_dir` just now. Raises what `build` does.

        `build` is called again in a thread, for each change."""
        self._own_dir = own_dir
        self._build = build
        self._signature = _signature(own_dir)
        self._current = build(library)
        self._checked_at = time.monotonic()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def current(self) -> Built:
        """The newest that could be built. Never waits for a file."""
        now = time.monotonic()
        if (
            self._own_dir is not None
            and now - self._checked_at >= CHECK_S
            and self._lock.acquire(False)
        ):
            try:
                self._checked_at = now
                self._check()
            finally:
                self._lock.release()
        return self._current

    def _check(self) -> None:
        signature = _signature(self._own_dir)
        reading = self._thread is not None and self._thread.is_alive()
        if signature != self._signature and not reading:
            self._signature = signature
            self._thread = threading.Thread(target=self._reload, name="procedures", daemon=True)
            self._thread.start()

    def _reload(self) -> None:
        try:
            self._current = self._build(SopLibrary.load(self._own_dir))
        except CallflowError as error:
            log.error("the procedures stay as they were: %s", error)
        else:
            # A warning, since one who changes procedures wants to see it at any log level.
            log.warning("the procedures of %s were read anew", self._own_dir)


def _signature(folder: Path | None) -> _Signature:
    """What tells one state of a folder from another; empty for one that is not there."""
    found = []
    try:
        for path in sorted(folder.glob("*.md")) if folder is not None else ():
            status = path.stat()
            found.append((path.name, status.st_mtime_ns, status.st_size))
    except OSError:
        # It is being changed under our eyes: the next look sees how it has become.
        return ()
    return tuple(found)
