"""Databases for the tests of the store that lasts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import text

from callflow.records.record_store import RecordStore
from tests.archiving import KEY, url_in
from tests.postgres import Postgres, postgres


@pytest.fixture(scope="session")
def one_postgres() -> Iterator[Postgres]:
    """One server, shared by the tests of one process."""
    with postgres() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def records(request: pytest.FixtureRequest, tmp_path: Path) -> RecordStore:
    """Runs the test once on each kind of database; each is empty."""
    if request.param == "sqlite":
        return RecordStore.open(url_in(tmp_path), KEY)
    server: Postgres = request.getfixturevalue("one_postgres")
    with server.connect() as connection:
        connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    return RecordStore.open(server.url, KEY)


@pytest.fixture
def alter(records: RecordStore) -> Callable[..., None]:
    """Changes the database behind callflow's back, by a statement with its parameters."""

    def change(statement: str, **values: object) -> None:
        with records.database.writing() as connection:
            assert connection.execute(text(statement), values).rowcount, statement

    return change
