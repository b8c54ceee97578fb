"""The parts of a procedure, and the lexical search for the procedure that an utterance needs.

A document is one page, so all of its sections come along. Chunks are built once per language.
"""

from __future__ import annotations

from collections.abc import Mapping

from callflow.call.language_tag import primary_language
from callflow.call.record import SopChunk
from callflow.procedures.document import SECTIONS
from callflow.procedures.library import SopLibrary
from callflow.procedures.protocols import DEFAULT_SCENARIO, Hit
from callflow.retrieval.lexical import LexicalSearch


class ProcedureChunks:
    """The sections of every procedure in each language, as chunks. Built once, then read only."""

    def __init__(self, library: SopLibrary) -> None:
        """Build the chunks of every document in each language that occurs in the library."""
        documents = library.documents
        self._languages = {code for found in documents.values() for code in found.languages}
        self._library = library
        self._chunks = {
            (name, language): self._build(name, language)
            for name in documents
            for language in sorted(self._languages)
        }

    def of(self, scenario: str, language: str) -> tuple[SopChunk, ...]:
        """Return all sections of one procedure, in their order; see `Retriever.chunks`."""
        code = primary_language(language)
        known = scenario if scenario in self._library.documents else DEFAULT_SCENARIO
        return self._chunks[(known, code if code in self._languages else "en")]

    def _build(self, scenario: str, language: str) -> tuple[SopChunk, ...]:
        document = self._library.document(scenario)
        found = (document.chunk(section, language) for section in SECTIONS)
        return tuple(chunk for chunk in found if chunk is not None)


class LexicalRetriever:
    """Implements `Retriever` over a library, by words alone."""

    def __init__(self, library: SopLibrary, search: LexicalSearch | None = None) -> None:
        """Take a search over the same library, or build one (0.1 s)."""
        self._procedures = ProcedureChunks(library)
        self._search = search or LexicalSearch.of_library(library)

    def search(
        self, utterance: str, language: str, k: int, prior: Mapping[str, float]
    ) -> tuple[Hit, ...]:
        """Return the best chunk of the `k` nearest procedures; see `Retriever.search`."""
        return self._search.search(utterance, language, k, prior)

    def chunks(self, scenario: str, language: str) -> tuple[SopChunk, ...]:
        """Return all sections of one procedure; see `Retriever.chunks`."""
        return self._procedures.of(scenario, language)
