"""A complete call goes to the store that lasts, once and whole, before its working keys go."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from callflow.archive import Archive, Archived, Archivist
from callflow.call.edits import Disposition
from callflow.records.record_errors import RecordsUnavailable
from callflow.records.record_store import RecordStore
from callflow.records.search import RecordQuery, list_records, read_record
from callflow.records.verify import verify
from callflow.redis.scripts import Scripts
from callflow.store.archive_queue import LOOKS, ArchiveQueue, Settled
from callflow.store.audit import Audit
from callflow.store.keys import call_keys
from callflow.store.result import Claimed, Result
from tests.archiving import KEY, archive_into, archiving, one_call, url_in
from tests.parts import SID, TIMING, Parts

DAY_MS = 86_400_000


@pytest.fixture
def records(tmp_path: Path) -> RecordStore:
    return RecordStore.open(url_in(tmp_path), KEY)


@pytest.fixture
def archive(parts: Parts, records: RecordStore) -> Archive:
    parts.store = archiving(parts.client)
    return archive_into(parts.client, records)


def lifetimes(parts: Parts) -> set[int]:
    """How long the keys of the call live: -1 for ever, -2 they are gone."""
    return {parts.client.pttl(key) for key in call_keys(SID).own}


def test_a_complete_call_stays_until_the_lasting_store_has_it_and_then_expires(
    parts: Parts, archive: Archive, records: RecordStore
) -> None:
    one_call(parts.store)
    assert lifetimes(parts) == {-1}
    before = parts.record()

    assert archive.round("test") == Archived(kept=1)

    assert all(TIMING.completed_ttl_ms < left for left in lifetimes(parts))
    kept = read_record(records, SID)
    assert kept.as_dict()["record"]["conversation_thread"] == [
        entry.model_dump(exclude_none=True) for entry in before.conversation_thread
    ]
    assert kept.fields["outcome"] == "hung_up"
    assert [line["event"] for line in kept.journal] == parts.events()
    assert kept.versions["callflow"] == "test"
    assert kept.timings["takeovers"] == 0
    assert verify(records).holds


def test_a_call_that_a_person_ends_is_kept_with_who_ended_it(
    parts: Parts, archive: Archive, records: RecordStore
) -> None:
    one_call(parts.store, ended=False)
    parts.store.staff.end(parts.record, SID, Disposition.TEST, "ana", request="r", confirmed=True)
    assert archive.round("test") == Archived(kept=1)
    assert read_record(records, SID).fields["disposition"]["by"] == "ana"


def test_a_call_that_goes_on_is_not_kept(
    parts: Parts, archive: Archive, records: RecordStore
) -> None:
    one_call(parts.store, ended=False)
    assert archive.round("test") == Archived()
    assert list_records(records, RecordQuery()) == []
    parts.store.end(SID, "hung_up")
    assert archive.round("test") == Archived(kept=1)


def test_without_a_lasting_store_keys_expire_as_ever(parts: Parts) -> None:
    one_call(parts.store)
    assert all(0 < left <= TIMING.completed_ttl_ms for left in lifetimes(parts))
    assert ArchiveQueue(Scripts(parts.client), 1).look().count == 0


def test_a_round_that_is_repeated_keeps_nothing_twice(
    parts: Parts, archive: Archive, records: RecordStore
) -> None:
    one_call(parts.store)
    (whole,) = archive.queue.read([SID])
    archive._keep(whole)
    archive._keep(whole)
    assert archive.round("test") == Archived()
    assert (verify(records).rows, len(list_records(records, RecordQuery()))) == (1, 1)


def test_what_is_written_of_a_complete_call_is_added_to_its_record(
    parts: Parts, archive: Archive, records: RecordStore
) -> None:
    store, audit = parts.store, Audit(Scripts(parts.client))
    one_call(store, ended=False)
    store.record_utterance(SID, 2, "hello?")
    late = store.claim(SID, "w@test/1-bb", "claim-2")
    assert isinstance(late, Claimed)
    store.end(SID, "hung_up")
    archive.round("test")
    assert archive.queue.look().again == ()

    audit.record(SID, "ana", "read")
    store.commit(late.lease, 2, "Too late.")
    soon = parts.reader.now_ms() + TIMING.completed_ttl_ms // LOOKS + 1
    again = archive.queue.look(now_ms=soon).again
    assert again == (SID,)
    assert archive.add_later(again, []) == 1
    assert archive.add_later(again, []) == 0

    kept = read_record(records, SID)
    assert [row["kind"] for row in kept.rows] == ["record", "supplement"]
    assert kept.journal[-1]["event"] == "refused"
    assert [view["by"] for view in kept.views] == ["ana"]
    assert len(kept.thread) == len(parts.record().conversation_thread)
    assert verify(records).holds


def test_the_last_look_takes_the_keys_away_and_never_a_line_that_is_not_kept(
    parts: Parts, archive: Archive, records: RecordStore
) -> None:
    one_call(parts.store)
    Audit(Scripts(parts.client)).record(SID, "ana", "read")
    archive.round("test")
    keys = (*call_keys(SID).own, call_keys(SID).audit)
    left = [parts.client.pttl(key) for key in keys]
    assert 0 < min(left) <= max(left) <= TIMING.completed_ttl_ms * (1 + 1 / LOOKS)
    for key in keys:
        parts.client.pexpire(key, TIMING.completed_ttl_ms // LOOKS)

    Audit(Scripts(parts.client)).record(SID, "bo", "read")
    through = records.through([SID])[SID]
    assert archive.queue.settle(SID, through) is Settled.GROWN
    assert archive.add_later([SID], []) == 1

    assert parts.client.exists(*keys) == 0
    assert [view["by"] for view in read_record(records, SID).views] == ["ana", "bo"]
    assert archive.queue.settle(SID, through) is Settled.OVER


def test_a_database_that_was_put_back_gets_the_calls_whose_keys_still_live(
    parts: Parts, archive: Archive, tmp_path: Path
) -> None:
    one_call(parts.store)
    archive.round("test")
    put_back = RecordStore.open(f"sqlite:///{tmp_path}/put_back.db", KEY)
    assert archive_into(parts.client, put_back).add_later([SID], []) == 1
    assert read_record(put_back, SID).fields["outcome"] == "hung_up"


def test_a_line_between_reading_and_settling_keeps_the_keys_for_the_next_round(
    parts: Parts, archive: Archive, records: RecordStore
) -> None:
    one_call(parts.store)
    (whole,) = archive.queue.read([SID])
    Audit(Scripts(parts.client)).record(SID, "ana", "read")
    archive._keep(whole)
    assert lifetimes(parts) == {-1}
    assert archive.round("test") == Archived(kept=1)
    assert [view["by"] for view in read_record(records, SID).views] == ["ana"]
    assert -1 not in lifetimes(parts)


def test_a_database_that_is_gone_costs_no_record(
    parts: Parts, tmp_path: Path, records: RecordStore
) -> None:
    parts.store = archiving(parts.client)
    nowhere = archive_into(parts.client, RecordStore.open(url_in(tmp_path / "gone")))
    one_call(parts.store)
    with pytest.raises(RecordsUnavailable):
        nowhere.round("test")
    assert lifetimes(parts) == {-1}
    assert archive_into(parts.client, records).round("test").kept == 1


def test_a_call_whose_record_was_lost_does_not_stay_in_the_index(
    parts: Parts, archive: Archive
) -> None:
    one_call(parts.store)
    parts.client.delete(*call_keys(SID).own)
    archive.round("test")
    assert archive.queue.look().count == 0


def test_a_call_whose_end_a_failover_took_back_goes_on_and_is_kept_in_the_end(
    parts: Parts, archive: Archive, records: RecordStore
) -> None:
    one_call(parts.store, ended=False)
    keys = call_keys(SID)
    before: dict[Any, Any] = parts.client.hgetall(keys.call)
    parts.store.end(SID, "hung_up")
    archive.round("test")
    for key in keys.own:
        parts.client.persist(key)
    parts.client.hset(keys.call, mapping=before)
    parts.client.zadd(keys.shard.active, {SID: 1})

    assert archive.queue.settle(SID, "") is Settled.OPEN
    parts.store.record_utterance(SID, 2, "are you still there?")
    parts.store.end(SID, "abandoned")
    assert archive.round("test") == Archived(kept=1)

    kept = read_record(records, SID)
    assert kept.fields["outcome"] == "abandoned"
    assert kept.thread[-1]["text"] == "are you still there?"
    assert verify(records).holds


def test_one_record_that_cannot_be_kept_holds_up_no_other(
    parts: Parts, archive: Archive, records: RecordStore
) -> None:
    for sid in ("CA1", "CA2"):
        one_call(parts.store, sid)
    parts.client.hdel(call_keys("CA1").call, "created_at")
    with pytest.raises(Exception, match="call CA1 cannot be kept for good: KeyError"):
        archive.round("test")
    assert [row.call_sid for row in list_records(records, RecordQuery())] == ["CA2"]
    parts.client.hset(call_keys("CA1").call, "created_at", 1)
    assert archive.round("test").kept == 1


def test_what_is_older_than_records_are_kept_is_erased_by_the_archive(
    parts: Parts, records: RecordStore
) -> None:
    parts.store = archiving(parts.client)
    unarchived = ArchiveQueue(Scripts(parts.client), TIMING.completed_ttl_ms)
    archive = Archive(unarchived, records, {}, keep_days=7)
    now = parts.reader.now_ms()
    one_call(parts.store, "CA1")
    parts.store.open("CA2", now_ms=now - 9 * DAY_MS)
    parts.store.end("CA2", "hung_up", now_ms=now - 8 * DAY_MS)

    assert archive.round("test") == Archived(kept=2, erased=1)

    erased = read_record(records, "CA2").erasure
    assert erased is not None
    assert (erased["by"], erased["why"]) == ("retention", "older than 7 days")
    assert parts.client.exists(*call_keys("CA2").own) == 0
    assert read_record(records, "CA1").erasure is None
    assert verify(records).holds


def test_an_archivist_runs_one_round_at_a_time_and_nobody_waits_for_it(
    parts: Parts, archive: Archive
) -> None:
    one_call(parts.store)
    archivist = Archivist(archive.queue, lambda: archive)
    assert archivist.start_round("test")
    assert archivist.wait(10)
    assert -1 not in lifetimes(parts)
    assert not archivist.start_if_missed("another"), "somebody has just archived"
    parts.client.delete("callflow:archived")
    assert archivist.start_if_missed("another")
    assert archivist.wait(10)


def test_an_archivist_tells_of_a_failure_once_and_of_its_end(
    parts: Parts, archive: Archive, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    one_call(parts.store)
    broken = archive_into(parts.client, RecordStore.open(url_in(tmp_path / "gone")))
    now = [broken]
    archivist = Archivist(archive.queue, lambda: now[0])
    for _ in range(2):
        archivist.start_round("test")
        archivist.wait(10)
    assert len([one for one in caplog.records if one.levelname == "ERROR"]) == 1
    now[0] = archive
    archivist.start_round("test")
    archivist.wait(10)
    assert caplog.records[-1].getMessage() == "records are archived again"
    assert "stuck in the lift" not in caplog.text


def test_a_beat_to_a_complete_call_says_that_it_is_over(parts: Parts, archive: Archive) -> None:
    """Calls that wait for their archive are as complete as any."""
    parts.store.open(SID)
    parts.store.record_utterance(SID, 1, "hello")
    claimed = parts.store.claim(SID, "w@test/1-aa", "claim-1")
    assert isinstance(claimed, Claimed)
    parts.store.end(SID, "hung_up")
    assert parts.store.beat(claimed.lease) == [Result.ENDED]
    archive.round("test")
