"""What was erased is readable nowhere: not in the working keys either."""

from __future__ import annotations

from pathlib import Path

import pytest

from callflow.archive import Archived
from callflow.records.record_store import RecordStore
from callflow.records.search import read_record
from callflow.records.verify import verify
from callflow.redis.client import Client, connect
from callflow.store.archive_queue import LOOKS
from callflow.store.keys import call_keys
from tests.archiving import archive_into, archiving, complete, one_call, url_in
from tests.cli.running import Cli
from tests.parts import SID, TIMING

ASKED = ("--by", "ana", "--why", "asked by the caller")


@pytest.fixture
def client(redis_url: str) -> Client:
    return connect(redis_url)


@pytest.fixture
def records(cli: Cli) -> RecordStore:
    cli.set("CALLFLOW_RECORDS_URL", url_in(cli.home))
    return RecordStore.open(url_in(cli.home))


def archived(client: Client, records: RecordStore) -> None:
    one_call(archiving(client))
    archive_into(client, records).round("test")
    assert client.exists(*call_keys(SID).own) == 3


def left(client: Client) -> int:
    return int(client.exists(*call_keys(SID).own, call_keys(SID).audit))


def test_the_working_keys_of_an_erased_call_go_in_the_same_step(
    cli: Cli, redis_url: str, client: Client, records: RecordStore
) -> None:
    archived(client, records)
    cli.set("CALLFLOW_REDIS_URL", redis_url)
    assert "stuck in the lift" in cli.run("calls", "show", SID).out
    done = cli.run("records", "erase", SID, "--json", *ASKED)
    assert (done.code, done.json["erased"], done.json["working_keys_of"]) == (0, [SID], [SID])
    assert cli.run("calls", "show", SID).code == 1
    assert left(client) == 0
    assert cli.run("records", "erase", SID, *ASKED).code == 1, "there is nothing any more"


def test_where_the_working_keys_cannot_be_reached_it_is_said_until_when_they_can_be_read(
    cli: Cli, redis_url: str, client: Client, records: RecordStore
) -> None:
    archived(client, records)
    cli.set("CALLFLOW_REDIS_URL", "redis://127.0.0.1:1/0")
    ran = cli.run("records", "erase", SID, *ASKED)
    assert ran.code == 1
    assert "1 call erased" in ran.err
    assert f"in the working keys of {SID} until" in ran.err
    cli.set("CALLFLOW_REDIS_URL", "")
    again = cli.run("records", "erase", SID, *ASKED)
    assert (again.code, left(client)) == (1, 3)
    assert "no server is named here" in again.err
    cli.set("CALLFLOW_REDIS_URL", redis_url)
    assert (cli.run("records", "erase", SID, *ASKED).code, left(client)) == (0, 0)


def test_of_calls_whose_keys_have_ended_long_ago_nothing_is_said(cli: Cli) -> None:
    cli.set("CALLFLOW_RECORDS_URL", url_in(cli.home))
    RecordStore(RecordStore.open(url_in(cli.home)).database, clock_ms=lambda: 1).keep(complete(SID))
    assert cli.run("records", "erase", SID, *ASKED).code == 0


def test_a_call_whose_end_was_taken_back_keeps_its_working_keys(
    cli: Cli, redis_url: str, client: Client, records: RecordStore
) -> None:
    archived(client, records)
    client.hset(call_keys(SID).call, "outcome", "null")
    cli.set("CALLFLOW_REDIS_URL", redis_url)
    done = cli.run("records", "erase", SID, "--json", *ASKED)
    assert (done.json["working_keys_of"], left(client)) == ([], 3)


def test_the_archiver_does_not_bring_an_erased_call_back(client: Client, tmp_path: Path) -> None:
    """It was read before the erasure, and is kept after it."""
    records = RecordStore.open(url_in(tmp_path))
    archived(client, records)
    archive = archive_into(client, records)
    (read,) = archive.queue.read([SID])
    records.erase([SID], by="ana", why="asked")
    archive._keep(read)
    assert left(client) == 0
    assert read_record(records, SID).thread == ()
    assert verify(records).holds


def test_the_archiver_takes_away_what_an_erasure_could_not_reach(
    client: Client, tmp_path: Path
) -> None:
    records = RecordStore.open(url_in(tmp_path))
    archived(client, records)
    archive = archive_into(client, records)
    records.erase([SID], by="ana", why="asked")
    soon = archive.queue.look().now_ms + TIMING.completed_ttl_ms // LOOKS + 1
    assert archive.add_later(archive.queue.look(now_ms=soon).again, []) == 0
    assert left(client) == 0
    assert archive.round("test") == Archived()


@pytest.mark.parametrize("blank", ["", "  "])
def test_an_erasure_for_nobody_or_for_no_reason_is_refused(
    cli: Cli, records: RecordStore, blank: str
) -> None:
    records.keep(complete(SID))
    for asked in (("--by", blank, "--why", "asked"), ("--by", "ana", "--why", blank)):
        ran = cli.run("records", "erase", SID, *asked)
        assert (ran.code, "is blank" in ran.err) == (2, True)
    assert read_record(records, SID).erasure is None
