"""One engine for all tests of a process that try the same procedures: to build it takes a second,
and it never changes once it is built."""

from __future__ import annotations

from pathlib import Path

import pytest

from callflow.lab.evaluation import parts
from callflow.procedures.library import SopLibrary
from callflow.procedures.protocols import Engine
from callflow.retrieval.corpus import of_library
from callflow.retrieval.engine import Retrieval, engine

_built: dict[tuple[str, str, tuple[Path, ...]], Engine] = {}


def kept(library: SopLibrary, retrieval: Retrieval, index_dir: Path) -> Engine:
    """The engine that was built of these very documents before, or a new one."""
    paths = tuple(document.path for document in library.documents.values())
    key = (retrieval, of_library(library).fingerprint, paths)
    if key not in _built:
        _built[key] = engine(library, retrieval, index_dir)
    return _built[key]


def keep_engines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the commands of one test take their engines from here."""
    monkeypatch.setattr(parts, "engine", kept)
