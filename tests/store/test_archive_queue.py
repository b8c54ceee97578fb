"""Complete calls on their way out: in a cluster, with the rights of deploy/acl, and counted."""

from __future__ import annotations

from pathlib import Path

import pytest

from callflow.archive import Archived
from callflow.lab.embedded_server import EmbeddedServer
from callflow.records.record_store import RecordStore
from callflow.records.search import RecordQuery, list_records
from callflow.redis.client import connect
from callflow.redis.scripts import Scripts
from callflow.store.archive_queue import LOOKS, MISSED_AFTER_MS, ArchiveQueue
from callflow.store.audit import Audit
from callflow.store.keys import ALL_SHARDS, call_keys
from tests.acl import grant, refusals, url_of
from tests.archiving import archive_into, archiving, one_call, url_in
from tests.parts import SID, TIMING, Parts

MANY = tuple(f"CA{number}" for number in range(1, 9))


def test_in_a_cluster_each_call_is_archived_where_it_is(clustered: Parts, tmp_path: Path) -> None:
    records = RecordStore.open(url_in(tmp_path))
    store = archiving(clustered.client)
    for sid in MANY:
        one_call(store, sid)
    archive = archive_into(clustered.client, records)
    assert archive.round("test") == Archived(kept=len(MANY))
    assert {row.call_sid for row in list_records(records, RecordQuery())} == set(MANY)
    assert all(clustered.client.pttl(call_keys(sid).call) > 0 for sid in MANY)


def test_archiving_needs_no_more_than_deploy_acl_grants(
    own_server: EmbeddedServer, tmp_path: Path
) -> None:
    grant(own_server)
    refusals(own_server)
    with connect(url_of(own_server, "callflow")) as client:
        one_call(archiving(client))
        archive = archive_into(client, RecordStore.open(url_in(tmp_path)))
        archive.round("test")
        Audit(Scripts(client)).record(SID, "ana", "read")
        soon = archive.queue.look().now_ms + TIMING.completed_ttl_ms // LOOKS + 1
        assert archive.add_later(archive.queue.look(now_ms=soon).again, []) == 1
        for key in call_keys(SID).own:
            client.pexpire(key, 1_000)
        archive.add_later([SID], [])
        assert client.exists(*call_keys(SID).own) == 0
        archive.queue.claim_missed("test")
    assert refusals(own_server) == []


def test_what_waits_is_counted_and_the_first_end_is_first(parts: Parts) -> None:
    store = archiving(parts.client)
    for sid in ("CA1", "CA2"):
        one_call(store, sid, ended=False)
    now = parts.reader.now_ms()
    store.end("CA2", "hung_up", now_ms=now - 5_000)
    store.end("CA1", "hung_up", now_ms=now - 3_000)
    unarchived = ArchiveQueue(Scripts(parts.client), TIMING.completed_ttl_ms)
    waiting = unarchived.look(now_ms=now)
    assert (waiting.calls, waiting.count, waiting.oldest_ms) == (("CA2", "CA1"), 2, 5_000)
    for whole in unarchived.read(["CA1", "CA2"]):
        unarchived.settle(whole.call_sid, whole.through)
    assert unarchived.look().count == 0


def test_the_index_of_archived_calls_ends_with_them(parts: Parts) -> None:
    one_call(archiving(parts.client))
    unarchived = ArchiveQueue(Scripts(parts.client), TIMING.completed_ttl_ms)
    (whole,) = unarchived.read([SID])
    unarchived.settle(SID, whole.through)
    (index,) = [one.archived for one in ALL_SHARDS if parts.client.exists(one.archived)]
    assert abs(parts.client.pttl(index) - parts.client.pttl(call_keys(SID).call)) < 100


@pytest.mark.parametrize("missed", [True, False])
def test_a_round_is_missed_when_nobody_has_begun_one_for_long(parts: Parts, missed: bool) -> None:
    unarchived = ArchiveQueue(Scripts(parts.client), 1)
    if not missed:
        unarchived.mark_begun("somebody")
    assert unarchived.claim_missed("test") is missed
    assert not unarchived.claim_missed("another")
    assert 0 < parts.client.pttl("callflow:archived") <= MISSED_AFTER_MS
