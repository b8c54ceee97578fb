"""The rows whose vectors lie nearest to a question: all of them compared, or the likely ones.

Up to some thousand rows every one is compared: that takes a millisecond and misses nothing. Of more
rows, only those in the neighbourhoods that the question lies nearest to are compared (an inverted
file over k-means); rows of a neighbourhood stand side by side, so that few pages are touched.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int32]

FULL_SCAN_ROWS: Final = 30_000
_ROUNDS: Final = 8
_SAMPLED_FOR_EACH: Final = 64
# The neighbourhoods that are read for one question: about 6 % of the rows.
_READ_SHARE: Final = 0.06
_SEED: Final = 29


@dataclass(frozen=True, slots=True, eq=False)
class Nearest:
    """`vectors` is (rows, dimensions), each of length 1, perhaps mapped from a file.

    `centres` is (neighbourhoods, dimensions) and neighbourhood n has the rows from `bounds[n]` up
    to `bounds[n + 1]`; without centres all rows are compared.
    """

    vectors: Floats
    centres: Floats | None = None
    bounds: Ints | None = None

    def search(self, vector: Floats) -> tuple[Ints, Floats]:
        """Return rows (ascending) and how near each is to `vector` (cosine, at most 1)."""
        if self.centres is None or self.bounds is None:
            return np.arange(len(self.vectors), dtype=np.int32), self.vectors @ vector
        read = max(1, round(len(self.centres) * _READ_SHARE))
        chosen = np.sort(np.argpartition(-(self.centres @ vector), read - 1)[:read])
        spans = [(int(self.bounds[one]), int(self.bounds[one + 1])) for one in chosen]
        rows = np.concatenate([np.arange(*span, dtype=np.int32) for span in spans])
        near = np.concatenate([self.vectors[slice(*span)] @ vector for span in spans])
        return rows, near

    def compare(self, rows: Ints, vector: Floats) -> Floats:
        """Return how near these rows are to `vector`, one by one."""
        near: Floats = self.vectors[rows] @ vector
        return near


def neighbourhoods(vectors: Floats) -> tuple[Ints, Floats, Ints] | None:
    """Return (order of rows, centres, bounds) by k-means, or None for rows few enough to compare.

    Rows taken in that order stand side by side with their neighbours. Always the same for the same
    vectors. 100,000 rows of 512 take some 10 s.
    """
    if len(vectors) <= FULL_SCAN_ROWS:
        return None
    count = round(len(vectors) ** 0.5)
    chance = np.random.default_rng(_SEED)
    sample = vectors[chance.permutation(len(vectors))[: count * _SAMPLED_FOR_EACH]]
    centres = sample[:count].copy()
    for _ in range(_ROUNDS):
        home = _homes(sample, centres)
        for one in range(count):
            mine = sample[home == one]
            if len(mine):
                centres[one] = mine.mean(axis=0)
        centres /= np.maximum(np.linalg.norm(centres, axis=1, keepdims=True), 1e-9)
    home = _homes(vectors, centres)
    order = np.argsort(home, kind="stable").astype(np.int32)
    bounds = np.searchsorted(home[order], np.arange(count + 1)).astype(np.int32)
    return order, centres, bounds


def _homes(vectors: Floats, centres: Floats) -> Ints:
    """Return the nearest centre of each vector, a block at a time to spare memory."""
    blocks = [
        np.argmax(vectors[start : start + 4096] @ centres.T, axis=1)
        for start in range(0, len(vectors), 4096)
    ]
    return np.concatenate(blocks).astype(np.int32)
