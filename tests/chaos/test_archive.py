"""Records last whatever dies: the archiver at each of its steps, the server of the calls, the
database, and whoever should archive. And a database that hangs costs no sweep."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from callflow.lab.chaos.chaos_servers import ServerPair, server_pair
from callflow.records.record_store import RecordStore
from callflow.records.search import RecordQuery, list_records, read_record
from callflow.records.verify import verify
from callflow.redis.client import connect
from callflow.store.archive_queue import MISSED_AFTER_MS
from callflow.store.keys import call_keys
from callflow.store.leases import UNDERSTUDY_AFTER_MS
from tests.archiving import KEY, archive_into, archiving, one_call, url_in
from tests.parts import SID, Parts
from tests.postgres import postgres
from tests.stack_parts import Running, running
from tests.waiting import wait_until

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(500)]

ROOT = Path(__file__).parents[2]

DYING = """
import os, signal, sys
from redis.connection import Connection
from sqlalchemy import event
from callflow.records.record_store import RecordStore
from callflow.redis.client import connect
from tests.archiving import KEY, archive_into

redis_url, records_url = sys.argv[1:]
steps, at = 0, 0

def step(*_, **__):
    global steps
    steps += 1
    if steps == at:
        os.kill(os.getpid(), signal.SIGKILL)

def around(name):
    real = getattr(Connection, name)
    def wrapped(self, *args, **options):
        step()
        told = real(self, *args, **options)
        step()
        return told
    setattr(Connection, name, wrapped)

def a_round():
    records = RecordStore.open(records_url, KEY)
    for name in ("begin", "before_cursor_execute", "after_cursor_execute", "commit"):
        event.listen(records.database._engine, name, step)
    event.listen(records.database._engine.pool, "reset", step)
    event.listen(records.database._engine.pool, "close", step)
    with connect(redis_url) as client:
        client.ping()
        around("send_packed_command"), around("read_response")
        archive_into(client, records).round("dying")

for line in sys.stdin:
    at = int(line)
    child = os.fork()
    if child == 0:
        a_round()
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
"""Rounds, each in a process of its own that is killed at its step `at`: before or after anything is
sent to, or read from, either store. Tells how each ended."""


@pytest.fixture(params=["sqlite", "postgresql"])
def records(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RecordStore]:
    with ExitStack() as running_servers:
        url = url_in(tmp_path)
        if request.param == "postgresql":
            url = running_servers.enter_context(postgres()).url
        yield RecordStore.open(url, KEY)


def _url(records: RecordStore) -> str:
    return records.database._engine.url.render_as_string(hide_password=False)


def _kept(records: RecordStore) -> list[str]:
    return [row.call_sid for row in list_records(records, RecordQuery())]


def test_an_archiver_that_is_killed_at_any_step_loses_nothing_and_keeps_nothing_twice(
    parts: Parts, redis_url: str, records: RecordStore
) -> None:
    store = archiving(parts.client)
    command = [sys.executable, "-c", textwrap.dedent(DYING), redis_url, _url(records)]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=env, text=True, bufsize=1, stdin=pipe, stdout=pipe) as dying:
        assert dying.stdin is not None
        assert dying.stdout is not None
        number, killed = 0, -signal.SIGKILL
        while killed == -signal.SIGKILL:
            number += 1
            sid = f"CA{number}"
            one_call(store, sid)
            before = parts.record(sid)
            dying.stdin.write(f"{number}\n")
            killed = int(dying.stdout.readline())
            # Either it is kept, or its keys have no end yet.
            assert sid in _kept(records) or parts.client.pttl(call_keys(sid).call) == -1
            verdict = verify(records)
            assert verdict.holds, verdict.faults
            archive_into(parts.client, records).round("after")
            assert parts.client.pttl(call_keys(sid).call) > 0
            thread = read_record(records, sid).thread
            assert list(thread) == [
                one.model_dump(exclude_none=True) for one in before.conversation_thread
            ]
        dying.stdin.close()
    assert killed == 0
    assert number > 25, "the steps of a round"
    verdict = verify(records)
    assert (verdict.holds, verdict.rows) == (True, number), verdict.faults
    assert sorted(_kept(records)) == sorted(f"CA{one}" for one in range(1, number + 1))


@pytest.fixture
def pair() -> Iterator[ServerPair]:
    with server_pair() as running_pair:
        yield running_pair


@pytest.mark.parametrize("when", ["ended", "kept", "settled"])
def test_a_failover_between_any_two_steps_loses_nothing_and_keeps_nothing_twice(
    pair: ServerPair, records: RecordStore, when: str
) -> None:
    """`when`: the last step that the replica has, which then becomes the primary."""
    with connect(pair.url) as client:
        archive = archive_into(client, records)
        one_call(archiving(client))
        pair.wait_until_in_step()
        if when == "ended":
            # The primary alone learns that it is archived.
            pair.cut_off_replica()
            assert archive.round("test").kept == 1
        (whole,) = archive.queue.read([SID])
        if when == "kept":
            records.keep(archive.complete(whole))
        elif when == "settled":
            archive.round("test")
            pair.wait_until_in_step()
        pair.fail_over()

        archive.round("test")

        assert client.pttl(call_keys(SID).call) > 0
        assert archive.queue.look().count == 0
    verdict = verify(records)
    assert (verdict.holds, verdict.rows) == (True, 1), verdict.faults
    assert read_record(records, SID).fields["outcome"] == "hung_up"


def _ends(run: Running, *numbers: int) -> list[str]:
    """So many calls that are answered and end."""
    store = archiving(run.parts.client)
    sids = [f"CA{number}" for number in numbers]
    for sid in sids:
        run.caller_says(sid, 1, "we are stuck please help")
    for sid in sids:
        run.reply(sid, 1)
        store.end(sid, "hung_up")
    return sids


def _all_kept(records: RecordStore, sids: list[str]) -> Callable[[], bool]:
    return lambda: set(sids) <= set(_kept(records))


def test_without_its_watchdog_and_beat_a_stack_archives_all_the_same(tmp_path: Path) -> None:
    url = url_in(tmp_path)
    records = RecordStore.open(url, KEY)
    with running(
        tmp_path / "logs", workers=1, records_url=url, records_key=KEY.decode(), responder="echo"
    ) as run:
        sids = _ends(run, 1, 2)
        wait_until(_all_kept(records, sids), "the watchdog archives", within_s=20)
        run.stack.processes["watchdog"].kill()
        run.stack.processes["beat1"].kill()
        more = _ends(run, 3)
        within_s = MISSED_AFTER_MS / 1000 + 15
        wait_until(_all_kept(records, more), "an understudy archives", within_s=within_s)
    assert verify(records).holds


@pytest.mark.parametrize(
    ("how", "for_s"),
    [
        ("killed", 15),
        pytest.param("frozen", 30, marks=pytest.mark.night),
        pytest.param("killed", 120, marks=pytest.mark.night),
        pytest.param("frozen", 120, marks=pytest.mark.night),
    ],
)
def test_a_database_that_is_gone_costs_no_sweep_and_no_record(
    tmp_path: Path, how: str, for_s: int
) -> None:
    with postgres() as server:
        records = RecordStore.open(server.url, KEY)
        with running(
            tmp_path / "logs",
            workers=1,
            records_url=server.url,
            records_key=KEY.decode(),
            responder="echo",
        ) as run:
            sids = _ends(run, 1)
            wait_until(_all_kept(records, sids), "the first is kept", within_s=20)
            server.kill() if how == "killed" else server.freeze()
            sids += _ends(run, 2, 3)
            gap_ms = _longest_gap_between_sweeps(run, for_s)
            print(f"a database that is {how} for {for_s} s: longest age of a sweep {gap_ms} ms")
            assert gap_ms < UNDERSTUDY_AFTER_MS
            assert {run.parts.client.pttl(call_keys(sid).call) for sid in sids[1:]} == {-1}
            server.start() if how == "killed" else server.thaw()
            wait_until(_all_kept(records, sids), "all are kept", within_s=40)
            wait_until(
                lambda: all(run.parts.client.pttl(call_keys(sid).call) > 0 for sid in sids),
                "their keys get their lifetime",
            )
        verdict = verify(records)
        assert (verdict.holds, verdict.rows) == (True, 3), verdict.faults


def _longest_gap_between_sweeps(run: Running, for_s: float) -> int:
    """The greatest age that the watchdog's last sweep reached, ms; all of the time where it had
    none that counts."""
    longest, until = 0, time.monotonic() + for_s

    def looked() -> bool:
        nonlocal longest
        swept = run.parts.leases.last_sweep()
        longest = max(longest, UNDERSTUDY_AFTER_MS if swept is None else swept[1])
        return time.monotonic() > until

    wait_until(looked, "the end of it", within_s=for_s + 5)
    return longest
