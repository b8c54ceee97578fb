"""An encoder for tests: texts that share words are near. No weights, and always the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from zlib import crc32

import numpy as np

from callflow.retrieval.corpus import Corpus, Example, Passage
from callflow.retrieval.lexical import words_of
from callflow.retrieval.semantic import Vectors

DIMENSIONS = 64


@dataclass
class WordEncoder:
    """Implements `TextEncoder`; `encoded` counts the texts, so that a test sees what is built."""

    name: str = "words 1"
    encoded: list[str] = field(default_factory=list)

    def encode(self, text: str) -> Vectors:
        vector: Vectors = self.encode_all([text])[0]
        return vector

    def encode_all(self, texts: Sequence[str]) -> Vectors:
        self.encoded += texts
        found = np.zeros((len(texts), DIMENSIONS), np.float32)
        for row, text in enumerate(texts):
            for word in words_of(text):
                found[row] += np.random.default_rng(crc32(word.encode())).normal(size=DIMENSIONS)
        length = np.linalg.norm(found, axis=1, keepdims=True)
        shortened: Vectors = (found / np.maximum(length, 1e-9)).astype(np.float32)
        return shortened


SAID = {
    "fire": ["smoke under the door", "it smells of burning", "flames in the shaft", "hot smoke"],
    "water": ["water drips on us", "our feet are wet", "the pit is flooded", "wet floor rising"],
    "stuck": ["the lift has stopped", "it will not move", "we are between floors", "not moving"],
    "test": ["this is a test call", "engineer testing the line", "testing one two", "test only"],
}


def small_corpus() -> Corpus:
    """Four topics in two groups with a few examples each, said twice in a different way."""
    passages = tuple(
        Passage(f"{topic}.say.{code}", topic, group, code, "say", f"{topic} {text}")
        for topic, group in zip(SAID, ("danger", "danger", "lift", "lift"), strict=True)
        for code, text in (("en", "stay calm, help is asked for"), ("es", "calma, se pide ayuda"))
    )
    said = (
        Example(topic, "en", f"{before} {text}")
        for topic, texts in SAID.items()
        for text in texts
        for before in ("hello", "please listen")
    )
    return Corpus(passages, tuple(said), frozenset({"fire", "water"}))
