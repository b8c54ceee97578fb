"""Fixtures: a board of ana, a viewer, bo, a dispatcher, and chen, an admin."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.board_app import BoardApp, board_app, write_users


@pytest.fixture
def users(tmp_path: Path) -> Path:
    return write_users(tmp_path / "users.yaml", ana="viewer", bo="dispatcher", chen="admin")


@pytest.fixture
def here(redis_url: str, users: Path) -> Iterator[BoardApp]:
    with board_app(redis_url, users=users) as running:
        yield running
