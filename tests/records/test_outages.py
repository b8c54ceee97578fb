"""PostgreSQL goes away, comes back, or hangs: no record is lost, and nobody waits for ever."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from callflow.archive import Archived
from callflow.records.record_errors import RecordsUnavailable
from callflow.records.record_store import KeepResult, RecordStore
from callflow.records.search import read_record
from callflow.records.verify import verify
from callflow.store.keys import call_keys
from tests.archiving import KEY, archive_into, archiving, complete, one_call
from tests.parts import SID, Parts
from tests.postgres import Postgres, postgres

pytestmark = pytest.mark.chaos


@pytest.fixture
def server() -> Iterator[Postgres]:
    """A server of this test's own."""
    with postgres() as started:
        yield started


def test_calls_that_end_while_the_database_is_down_are_kept_when_it_is_back(
    parts: Parts, server: Postgres
) -> None:
    """As long as it takes: the night's test has it down for two minutes."""
    store = archiving(parts.client)
    records = RecordStore.open(server.url, KEY)
    archive = archive_into(parts.client, records)
    one_call(store, "CA1")
    assert archive.round("test").kept == 1
    server.kill()
    one_call(store, "CA2")
    for _ in range(2):
        with pytest.raises(RecordsUnavailable):
            archive.round("test")
    assert parts.client.pttl(call_keys("CA2").call) == -1
    server.start()
    assert archive.round("test") == Archived(kept=1)
    assert parts.client.pttl(call_keys("CA2").call) > 0
    assert (verify(records).holds, verify(records).rows) == (True, 2)


def test_a_database_that_hangs_is_left_after_a_while(parts: Parts, server: Postgres) -> None:
    store = archiving(parts.client)
    records = RecordStore.open(server.url, KEY, longest_s=1.0)
    archive = archive_into(parts.client, records)
    records.keep(complete("CA0"))
    one_call(store)

    def ask_while_it_freezes() -> None:
        with records.database.writing() as connection:
            server.freeze()
            connection.exec_driver_sql("SELECT 1")

    began = time.monotonic()
    with pytest.raises(RecordsUnavailable):
        ask_while_it_freezes()
    assert time.monotonic() - began < 5
    with pytest.raises(RecordsUnavailable):
        archive.round("test")
    assert time.monotonic() - began < 12
    server.thaw()
    assert archive.round("test").kept == 1
    assert read_record(records, SID).fields["outcome"] == "hung_up"


def test_a_lock_that_somebody_holds_is_waited_for_and_then_left(
    parts: Parts, server: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("callflow.records.database.LOCK_TIMEOUT_S", 1)
    records = RecordStore.open(server.url, KEY)
    records.keep(complete("CA1"))
    with server.connect() as other:
        with other.transaction():
            other.execute("SELECT * FROM callflow_head FOR UPDATE")
            with pytest.raises(RecordsUnavailable, match="lock timeout"):
                records.keep(complete("CA2"))
    assert records.keep(complete("CA2")) is KeepResult.KEPT
