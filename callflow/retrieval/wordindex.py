"""Finds texts by their words: BM25 over stems, and over single and paired Chinese characters.

The index is a folder that every process of a machine maps into its memory; one that is small enough
may be held in memory alone. A search needs no thread but its caller's, so children may search after
a fork.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import tantivy

from callflow.errors import CallflowError
from callflow.language.sop_words import is_chinese, normalize, tokens

_WORDS, _ROW = "words", "row"
_HEAP_BYTES: Final = 15_000_000
# Words are already cut: no second stemming, no stop words of one language.
_TOKENIZER: Final = "whitespace"
# An utterance of one turn has some 50 words; more are no evidence, only time.
_MOST_WORDS: Final = 64


class WordIndexBroken(CallflowError):
    """A folder that holds no index of words, or a damaged one."""

    def __init__(self, folder: Path, reason: str) -> None:
        self.folder = folder
        self.reason = reason
        super().__init__(f"{folder}: no index of words ({reason}); delete it, it is built anew")


def words_of(text: str) -> tuple[str, ...]:
    """Return what `text` is found by, each once: stems, Chinese characters and pairs of them."""
    normalized = normalize(text)
    single = [c for word in normalized.split() if is_chinese(word) for c in word]
    return tuple(dict.fromkeys((*tokens(normalized), *single)))


class WordIndex:
    """Rows of text, numbered from 0 in the order in which they were given. Never changed."""

    def __init__(self, index: tantivy.Index) -> None:
        """Use `build`, `in_memory` or `open`."""
        # By default a thread watches for changes: there are none, and it would not survive a fork.
        index.config_reader(reload_policy="manual")
        index.reload()
        self._schema = index.schema
        self._searcher = index.searcher()

    @classmethod
    def in_memory(cls, texts: Iterable[str]) -> WordIndex:
        """Index texts for this process alone (some 20 µs each)."""
        index = tantivy.Index(_schema())
        _fill(index, texts)
        return cls(index)

    @classmethod
    def build(cls, folder: Path, texts: Iterable[str]) -> WordIndex:
        """Index texts into a folder, which is made if it is not there, and must be empty."""
        folder.mkdir(parents=True, exist_ok=True)
        index = tantivy.Index(_schema(), path=str(folder), reuse=False)
        _fill(index, texts)
        return cls(index)

    @classmethod
    def open(cls, folder: Path) -> WordIndex:
        """Map an index that was built; a few ms. Raises WordIndexBroken."""
        try:
            return cls(tantivy.Index.open(str(folder)))
        except (OSError, ValueError) as error:
            raise WordIndexBroken(folder, str(error)) from error

    def search(self, words: Sequence[str], k: int) -> list[tuple[int, float]]:
        """Return at most `k` (row, score) that share a word with `words`, best first."""
        terms = [
            (tantivy.Occur.Should, tantivy.Query.term_query(self._schema, _WORDS, word, "freq"))
            for word in words[:_MOST_WORDS]
        ]
        if not terms or k < 1:
            return []
        query = tantivy.Query.boolean_query(terms)
        hits = self._searcher.search(query, limit=k, count=False).hits
        rows = self._searcher.fast_field_values(_ROW, [address for _, address in hits])
        return [(int(row or 0), float(score)) for (score, _), row in zip(hits, rows, strict=True)]


def _schema() -> tantivy.Schema:
    builder = tantivy.SchemaBuilder()
    builder.add_text_field(_WORDS, tokenizer_name=_TOKENIZER, index_option="freq")
    builder.add_unsigned_field(_ROW, fast=True)
    return builder.build()


def _fill(index: tantivy.Index, texts: Iterable[str]) -> None:
    writer = index.writer(heap_size=_HEAP_BYTES, num_threads=1)
    for row, text in enumerate(texts):
        # As JSON, for the constructor of a document takes 30 times as long.
        writer.add_json(json.dumps({_WORDS: " ".join(words_of(text)), _ROW: row}))
    writer.commit()
    writer.wait_merging_threads()
