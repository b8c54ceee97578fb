"""The lexical retriever: the chunks of one scenario's document, those nearest to the words first.

A document is one page, so all of its sections come along; the order tells a model which of them the
caller is talking about. Chunks are built once per language and only scored for an utterance.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Final

from callflow.call.record import SopChunk
from callflow.sop.document import SECTIONS
from callflow.sop.library import SopLibrary
from callflow.sop.protocols import DEFAULT_SCENARIO, primary_language
from callflow.sop.words import normalize, tokens

_K1: Final = 1.2

_Scored = tuple[SopChunk, frozenset[str]]


class LexicalRetriever:
    """Implements `Retriever` over a library."""

    def __init__(self, library: SopLibrary) -> None:
        """Build the chunks of every document in each language that occurs in the library."""
        documents = library.documents
        self._languages = {code for found in documents.values() for code in found.languages}
        self._chunks: dict[tuple[str, str], tuple[_Scored, ...]] = {}
        self._library = library
        self._words: dict[str, frozenset[str]] = {}  # shared sentences recur in every document
        spread: Counter[str] = Counter()
        for name in documents:
            for language in sorted(self._languages):
                built = self._build(name, language)
                self._chunks[(name, language)] = built
                spread.update(token for _, words in built for token in words)
        total = sum(len(built) for built in self._chunks.values())
        self._idf = {token: math.log(1 + total / n) for token, n in spread.items()}

    def _build(self, scenario: str, language: str) -> tuple[_Scored, ...]:
        document = self._library.document(scenario)
        found = (document.chunk(section, language) for section in SECTIONS)
        return tuple(
            (chunk, frozenset().union(*(self._tokens(each.text) for each in chunk.sentences)))
            for chunk in found
            if chunk is not None
        )

    def _tokens(self, text: str) -> frozenset[str]:
        if text not in self._words:
            self._words[text] = frozenset(tokens(normalize(text)))
        return self._words[text]

    def retrieve(self, utterance: str, scenario: str, language: str) -> tuple[SopChunk, ...]:
        """Return all chunks of the scenario, best first; see `Retriever.retrieve`."""
        code = primary_language(language)
        if code not in self._languages:
            code = "en"
        known = scenario if scenario in self._library.documents else DEFAULT_SCENARIO
        chunks = self._chunks[(known, code)]
        heard = set(tokens(normalize(utterance)))
        scored = [
            chunk.model_copy(update={"score": self._score(heard, words)}) for chunk, words in chunks
        ]
        return tuple(sorted(scored, key=lambda chunk: -chunk.score))

    def _score(self, heard: set[str], words: frozenset[str]) -> float:
        length = _K1 * (0.6 + 0.4 * len(words) / 60)
        shared = sum(self._idf[token] for token in heard & words)
        return round(shared * (_K1 + 1) / (1 + length), 4)
