"""A file of sites for each test, written from what the test says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

Written = Callable[..., Path]


@pytest.fixture
def written(tmp_path: Path) -> Written:
    """Writes a file of sites and returns where it is; the same name again replaces it."""

    def write(text: str, name: str = "sites.yaml") -> Path:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return write
