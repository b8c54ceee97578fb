"""The real engine of our own procedures, built once in a test process: it never changes."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from callflow.sop.engine import engine
from callflow.sop.library import SopLibrary
from callflow.sop.protocols import Engine


@cache
def lexical() -> Engine:
    """By words; it needs no folder."""
    return engine(SopLibrary.load(), "lexical", Path("nowhere"))
