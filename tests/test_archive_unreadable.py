"""A record that cannot be read, or not be stored, is told; all others are archived."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from callflow.archive import Archive, Archivist, NotArchived
from callflow.records.record_store import RecordStore
from callflow.records.search import RecordQuery, list_records
from callflow.records.verify import verify
from callflow.redis.client import Client
from callflow.store.keys import call_keys
from tests.archiving import KEY, archive_into, archiving, one_call, url_in
from tests.parts import Parts

BAD = call_keys("CA2")
CALLS = ("CA1", "CA2", "CA3")


@pytest.fixture
def records(tmp_path: Path) -> RecordStore:
    return RecordStore.open(url_in(tmp_path), KEY)


@pytest.fixture
def archive(parts: Parts, records: RecordStore) -> Archive:
    """Three calls wait for it."""
    parts.store = archiving(parts.client)
    for call_sid in CALLS:
        one_call(parts.store, call_sid)
    return archive_into(parts.client, records)


def no_stream(client: Client) -> None:
    client.delete(BAD.journal)
    client.set(BAD.journal, "no stream")


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda client: client.hset(BAD.call, "facts", '{"name": "Mar'), "JSONDecodeError"),
        (lambda client: client.rpush(BAD.thread, "stuck, and no JSON"), "JSONDecodeError"),
        (lambda client: client.rpush(BAD.thread, b"\xff\xfe stuck"), "UnicodeDecodeError"),
        (no_stream, "WRONGTYPE"),
        (lambda client: client.hset(BAD.call, "site", '{"no": "text"}'), "ProgrammingError"),
        (lambda client: client.hset(BAD.call, "created_at", 10**20), "OverflowError"),
    ],
)
def test_a_record_that_is_spoilt_is_told_and_holds_up_no_other(
    parts: Parts,
    archive: Archive,
    records: RecordStore,
    spoil: Callable[[Client], object],
    told: str,
) -> None:
    spoil(parts.client)
    with pytest.raises(NotArchived, match=f"call CA2 cannot be kept for good: .*{told}"):
        archive.round("test")
    assert {row.call_sid for row in list_records(records, RecordQuery())} == {"CA1", "CA3"}
    assert parts.client.pttl(BAD.call) == -1
    assert archive.queue.look().calls == ("CA2",)
    assert verify(records).holds
    parts.client.delete(*BAD.own)
    archive.round("test")
    assert archive.queue.look().count == 0


def test_a_record_that_cannot_be_read_ends_no_archivist(
    parts: Parts, archive: Archive, caplog: pytest.LogCaptureFixture
) -> None:
    whole = parts.client.hget(BAD.call, "facts")
    parts.client.hset(BAD.call, "facts", "{")
    archivist = Archivist(archive.queue, lambda: archive)
    for _ in range(2):
        archivist.start_round("test")
        assert archivist.wait(10)
    (line,) = [one for one in caplog.records if one.levelname == "ERROR"]
    assert "call CA2 cannot be kept for good: JSONDecodeError" in line.getMessage()
    assert "stuck" not in caplog.text
    parts.client.hset(BAD.call, "facts", str(whole))
    archivist.start_round("test")
    assert archivist.wait(10)
    assert archive.queue.look().count == 0
