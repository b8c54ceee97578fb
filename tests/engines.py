"""The real engine of our own procedures, built once in a test process: it never changes."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from callflow.bootstrap import index_dir
from callflow.lab.evaluation import rehearsal
from callflow.procedures.library import SopLibrary
from callflow.retrieval.corpus import of_library
from callflow.retrieval.engine import Engine, Retrieval, build_engine

_built: dict[tuple[str, str, tuple[Path, ...]], Engine] = {}


@cache
def lexical() -> Engine:
    """By words, which this machine's test processes and workers index once for them all."""
    return kept(SopLibrary.load(), "lexical", index_dir())


def kept(library: SopLibrary, retrieval: Retrieval, folder: Path) -> Engine:
    """The engine that was built of these very documents before, or a new one."""
    paths = tuple(document.path for document in library.documents.values())
    key = (retrieval, of_library(library).fingerprint, paths)
    if key not in _built:
        _built[key] = build_engine(library, retrieval, folder)
    return _built[key]


def keep_engines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the commands of one test take their engines from here."""
    monkeypatch.setattr(rehearsal, "build_engine", kept)
