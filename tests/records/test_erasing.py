"""Many calls are erased a few at a time: others add to the chain meanwhile, and there is an end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from sqlalchemy import event

from callflow.archive import Archive, Archived
from callflow.records.keeping import ERASED_TOGETHER
from callflow.records.record_store import RecordStore
from callflow.records.verify import verify
from callflow.redis.scripts import Scripts
from callflow.store.archive_queue import ArchiveQueue
from tests.archiving import complete
from tests.parts import TIMING, Parts

MANY = 2 * ERASED_TOGETHER + 1
LONG_AGO = (("1-0", {"event": "ended", "at": "86400000"}),)


def filled(records: RecordStore) -> list[str]:
    calls = [f"CA{number}" for number in range(MANY)]
    for call_sid in calls:
        records.keep(replace(complete(call_sid), lines=LONG_AGO))
    return calls


def on_erasures(records: RecordStore, then: Callable[[int], None]) -> None:
    """Have `then` told how many calls each transaction has erased, once it is stored."""
    seen = 0

    @event.listens_for(records.database._engine, "after_cursor_execute")
    def count(_: object, __: object, statement: str, *___: object) -> None:
        nonlocal seen
        seen += statement.startswith("DELETE FROM callflow_entries")

    @event.listens_for(records.database._engine, "commit")
    def tell(_: object) -> None:
        nonlocal seen
        if seen:
            then(seen)
        seen = 0


def test_no_transaction_erases_many_calls(records: RecordStore) -> None:
    calls = filled(records)
    erased: list[int] = []
    on_erasures(records, erased.append)
    done = records.erase(calls, by="ana", why="old")
    assert done.calls == tuple(calls)
    assert max(erased) < 50, "others wait for it"
    assert erased == [ERASED_TOGETHER, ERASED_TOGETHER, 1]
    assert (verify(records).holds, verify(records).erased) == (True, MANY)


def test_retention_stops_when_the_round_gives_up_and_goes_on_with_the_next(
    parts: Parts, records: RecordStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(records)
    unarchived = ArchiveQueue(Scripts(parts.client), TIMING.completed_ttl_ms)
    archive = Archive(unarchived, records, {}, keep_days=7)
    with monkeypatch.context() as patch:
        patch.setattr("callflow.archive.ROUND_S", -1.0)
        assert archive.round("test") == Archived(erased=ERASED_TOGETHER)
    assert archive.round("test") == Archived(erased=MANY - ERASED_TOGETHER)
    assert archive.round("test") == Archived()
    assert verify(records).holds
