"""The real engine of our own procedures, built once in a test process: it never changes."""

from __future__ import annotations

from functools import cache

from callflow.bootstrap import index_dir
from callflow.procedures.library import SopLibrary
from callflow.procedures.protocols import Engine
from callflow.retrieval.engine import engine


@cache
def lexical() -> Engine:
    """By words, which this machine's test processes and workers count once for them all."""
    return engine(SopLibrary.load(), "lexical", index_dir())
