"""Finds texts by their words: BM25 (tantivy) over stems, Chinese characters and pairs of them.

An index is a folder that every process of a machine maps into its memory; a small one may be held
in memory alone. A search needs no thread but its caller's, so children may search after a fork.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Final

import tantivy

from callflow.errors import CallflowError
from callflow.language.text import MARKS, is_han, tokenize

_WORDS, _ROW = "words", "row"
_HEAP_BYTES: Final = 15_000_000
# Words are already cut: no second stemming, no stop words of one language.
_TOKENIZER: Final = "whitespace"
# An utterance of one turn has some 50 words; more are no evidence, only time.
_MOST_WORDS: Final = 64
_MOST_FEATURES: Final = 256
_GRAM: Final = 4


class WordIndexBroken(CallflowError):
    """A folder that holds no index of words, or a damaged one."""

    def __init__(self, folder: Path, reason: str) -> None:
        self.folder = folder
        self.reason = reason
        super().__init__(f"{folder}: no index of words ({reason}); delete it, it is built anew")


def words_of(text: str) -> tuple[str, ...]:
    """Return what `text` is found by, each once: stems, Chinese characters and pairs of them."""
    tokens = tokenize(text).tokens
    found = [word if is_han(word) else stem(word) for word in tokens if word not in MARKS]
    found += [one + two for one, two in pairwise(tokens) if is_han(one) and is_han(two)]
    return tuple(dict.fromkeys(found[:_MOST_WORDS]))


def features_of(text: str) -> tuple[str, ...]:
    """Return what tells topics apart: the words, pairs of stems, and pieces of words.

    Pieces of four letters outlive misheard endings.
    """
    found = list(words_of(text))
    spaced = [word for word in tokenize(text).tokens if word not in MARKS and not is_han(word)]
    found += [f"{stem(one)}_{stem(two)}" for one, two in pairwise(spaced)]
    for word in spaced:
        held = f"<{word}>"
        found += [f"#{held[at : at + _GRAM]}" for at in range(max(1, len(held) - _GRAM + 1))]
    return tuple(dict.fromkeys(found))[:_MOST_FEATURES]


def stems_of(text: str) -> tuple[str, ...]:
    """Return the words of `text`, in their order, as stems and single Chinese characters."""
    return tuple(stem(word) for word in tokenize(text).tokens)


@lru_cache(maxsize=4096)
def stem(word: str) -> str:
    """Cut the endings that keep `smoking` from meeting `smoke`; crude, and the same both times."""
    for ending in ("ing", "ed", "s"):
        if len(word) - len(ending) >= 4 and word.endswith(ending):
            word = word[: -len(ending)]
            break
    return word[:-1] if len(word) > 4 and word[-1] in "aeo" else word


class WordIndex:
    """Rows of words, numbered from 0 in the order in which they were given. Never changed."""

    def __init__(self, index: tantivy.Index) -> None:
        """Use `build` or `open`."""
        # By default a thread watches for changes: there are none, and it would not survive a fork.
        index.config_reader(reload_policy="manual")
        index.reload()
        self._schema = index.schema
        self._searcher = index.searcher()

    @classmethod
    def build(cls, rows: Iterable[Sequence[str]], folder: Path | None = None) -> WordIndex:
        """Index rows into a folder, which is made and must be empty, or into memory."""
        schema = tantivy.SchemaBuilder()
        schema.add_text_field(_WORDS, tokenizer_name=_TOKENIZER, index_option="freq")
        schema.add_unsigned_field(_ROW, fast=True)
        if folder is None:
            index = tantivy.Index(schema.build())
        else:
            folder.mkdir(parents=True, exist_ok=True)
            index = tantivy.Index(schema.build(), path=str(folder), reuse=False)
        writer = index.writer(heap_size=_HEAP_BYTES, num_threads=1)
        for row, words in enumerate(rows):
            # As JSON, for the constructor of a document takes 30 times as long.
            writer.add_json(json.dumps({_WORDS: " ".join(words), _ROW: row}))
        writer.commit()
        writer.wait_merging_threads()
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
            for word in words
        ]
        if not terms or k < 1:
            return []
        query = tantivy.Query.boolean_query(terms)
        hits = self._searcher.search(query, limit=k, count=False).hits
        rows = self._searcher.fast_field_values(_ROW, [address for _, address in hits])
        return [(int(row or 0), float(score)) for (score, _), row in zip(hits, rows, strict=True)]
