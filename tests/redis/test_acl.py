"""The users that deploy/acl grants no more than callflow needs, and no less."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
import redis
from redis.crc import key_slot

from callflow.call.state import CallState
from callflow.errors import StoreError, StoreUnreplicated
from callflow.health.check import Severity, run_checks
from callflow.health.server_checks import SERVER_CHECKS, StoreServer, refuse_unfit
from callflow.health.worker_reports import ReportStore, WorkerReport
from callflow.lab.embedded_server import EmbeddedServer, keys_without_lifetime
from callflow.redis.client import Client, connect
from callflow.redis.scripts import Replicas, Scripts
from callflow.store.archive_queue import ArchiveQueue
from callflow.store.breaker import Breakers
from callflow.store.calls import CallStore
from callflow.store.handovers import AlertStep
from callflow.store.keys import call_keys
from callflow.store.presence import Presence
from callflow.store.reader import FROM_THE_START, CallWatcher
from callflow.store.replies import Replies
from callflow.store.result import Claimed, Lease
from tests.acl import ACL, PASSWORD, allow, grant, granted, refusals, url_of, users
from tests.acts import desk_work
from tests.cluster import MASTERS, TestCluster
from tests.parts import SID, TIMING, Parts
from tests.servers import EACH, KINDS, binary_of
from tests.waiting import wait_until

LUA = Path(__file__).parents[2] / "callflow" / "store" / "lua"

MINE = {"auth", "acl|log", "config|resetstat", "config|get", "script|flush"}
"""Commands of the tests themselves; and AUTH, which comes before anybody is known."""

CLUSTER_ONLY = {"asking", "cluster|slots"}


@pytest.fixture(params=EACH, scope="module")
def guarded(request: pytest.FixtureRequest) -> Iterator[EmbeddedServer]:
    """A server of each kind that knows them."""
    with EmbeddedServer.start(binary=binary_of(request.param), options=users()) as server:
        yield server


@dataclass
class Guarded:
    """A worker's doors, the reader's, and the master key."""

    server: EmbeddedServer
    admin: Client
    worker: Parts
    reader: Parts


@pytest.fixture
def doors(guarded: EmbeddedServer) -> Iterator[Guarded]:
    """Each connected with its own rights."""
    with (
        connect(guarded.url) as admin,
        connect(url_of(guarded, "callflow")) as worker,
        connect(url_of(guarded, "callflow-reader")) as reader,
    ):
        admin.flushall()
        refusals(guarded)
        built = Guarded(guarded, admin, Parts(worker), Parts(reader))
        yield built
        built.worker.close()
        assert keys_without_lifetime(admin) == []


def _claimed(parts: Parts, sid: str, turn: int = 1) -> Lease:
    parts.store.open(sid, greeting="This is a machine.")
    parts.store.record_utterance(sid, turn, "stuck", understood=turn > 1)
    claimed = parts.store.claim(sid, f"w@test/{turn}-aa", f"claim-{turn}")
    assert isinstance(claimed, Claimed)
    return claimed.lease


def everything(doors: Guarded) -> None:
    """All that workers, web processes, watchdogs and people's commands ask the server for."""
    parts, url = doors.worker, url_of(doors.server, "callflow")
    _a_day_at_work(parts, url)
    _reading(parts)
    parts.store.end(SID, "hung_up")
    assert parts.record().call_state is CallState.COMPLETE


def _a_day_at_work(parts: Parts, url: str) -> None:
    store, handovers = parts.store, parts.store.handovers
    scripts = Scripts(parts.client, replicas=Replicas(1, 1))
    with closing(Presence(parts.client, "w@test/1-aa")) as line:
        line.keep()
        lease = _claimed(parts, SID)
        store.beat(lease)
        store.save_analysis(lease, parts.record().model_copy(update={"understood": 1}))
        store.save_draft(lease, 1, "Hel")
        store.playback.interrupt(SID, 0, "This is a mach")
        store.playback.save_sent(SID, 1, 3)
        store.commit(lease, 1, "Hello.", needs_human="asked")
        store.playback.interrupt(SID, 1, "Hell")
        with pytest.raises(StoreUnreplicated):
            CallStore(scripts, TIMING).record_utterance(SID, 1, "stuck")
        handovers.add_journal_line(SID, "noted", "why")

        lost = _claimed(parts, SID, 2)
        wait_until(lambda: parts.leases.look().suspects, "its beat is never overdue")
        parts.watchdog.sweep("test")
        parts.watchdog.sweep_if_missed("test")
        store.hand_back(lost, "test", costs=True)
        overdue_ms = parts.reader.now_ms() + TIMING.owed_ms + 1
        assert parts.leases.take_unclaimed([SID], now_ms=overdue_ms)
        store.record_utterance(SID, 4, "hello?", after_loss=True)
        store.staff.record_fact(SID, "eta_minutes", 5, "ana")
        handovers.want(SID, "asked")
        wanted, _ = handovers.read(SID)
        assert wanted.alert is not None
        handovers.move(SID, wanted.alert, AlertStep(wanted.alert, None, "rung"))
        handovers.transfer(SID, "asked")
        handovers.resume(SID, "left", over=True)
        desk_work(parts, SID)
    breakers = Breakers(scripts)
    for attempt in ("a1", "a2"):
        breakers.failed("m", attempt)
    breakers.may_ask("m", "a3", now_ms=10**13)
    breakers.failed("m", "a3", now_ms=10**13)
    breakers.succeeded("m", "a4")
    vitals = ReportStore(scripts)
    vitals.save(WorkerReport("w1@test"))
    vitals.read()
    vitals.forget("w1@test")
    asyncio.run(_listen(url))


async def _listen(url: str) -> None:
    async with Replies.listening(url) as replies:
        assert await replies.wait(SID, 1, 5)


def _reading(parts: Parts) -> None:
    parts.client.ping()  # As connections do that have been idle.
    refuse_unfit(parts.client)
    parts.leases.last_sweep()
    parts.leases.present_now()
    parts.leases.present(["w@test/1-aa"])
    parts.reader.active()
    parts.reader.ended()
    parts.reader.counts()
    parts.reader.now_ms()
    parts.record()
    parts.journal()
    watching = CallWatcher(parts.client)
    watching.journal_lines({sight.call_sid: FROM_THE_START for sight in watching.look().calls})
    vitals = ReportStore(Scripts(parts.client))
    vitals.read()
    vitals.read("w1@test")
    ArchiveQueue(Scripts(parts.client), TIMING.completed_ttl_ms).look(1)


def test_a_server_reads_the_file_as_it_stands(tmp_path: Path) -> None:
    for kind in KINDS:
        file = tmp_path / f"{kind}.acl"
        file.write_text(f"user default on >{PASSWORD} ~* &* +@all\n{ACL.read_text()}")
        options = (f"aclfile {file}",)
        with EmbeddedServer.start(
            binary=binary_of(kind), password=PASSWORD, options=options
        ) as server:
            with redis.Redis.from_url(server.url, decode_responses=True) as admin:
                assert {"callflow", "callflow-reader", "callflow-broker"} < set(admin.acl_users())
            with pytest.raises(redis.AuthenticationError), connect(url_of(server, "callflow")) as c:
                c.ping()


def test_all_that_callflow_does_is_granted_and_nothing_that_it_does_not(doors: Guarded) -> None:
    doors.admin.script_flush()
    doors.admin.config_resetstat()
    everything(doors)

    assert refusals(doors.server) == []
    used = {name.removeprefix("cmdstat_") for name in doors.admin.info("commandstats")}
    assert used - MINE == granted("callflow") - CLUSTER_ONLY


def test_in_a_cluster_it_may_ask_where_a_call_is_and_follow_it(
    shared_cluster: TestCluster,
) -> None:
    for server in shared_cluster.servers:
        grant(server)
    hosts = ",".join(f"127.0.0.1:{server.port}" for server in shared_cluster.servers[:3])
    url = f"redis+cluster://callflow:{PASSWORD}@{hosts}"
    slot = key_slot(call_keys(SID).call.encode())
    there = (shared_cluster.owner(slot) + 1) % MASTERS
    with connect(url) as client:
        parts = Parts(client)
        parts.store.open(SID)
        with shared_cluster.moving(slot, there) as move:
            move(call_keys(SID).call)
            assert parts.record().heard == 0
            for command in CLUSTER_ONLY:
                for server in shared_cluster.servers:
                    with connect(server.url) as admin:
                        allow(admin, "callflow", f"-{command}")
                with connect(url) as other, pytest.raises(StoreError, match="no permissions"):
                    Parts(other).record()
        for server in shared_cluster.servers:
            grant(server)
        parts.close()


def test_no_script_uses_what_is_not_granted() -> None:
    text = "\n".join(one.read_text() for one in LUA.glob("*.lua"))
    used = {word.lower() for word in re.findall(r"redis\.call\(\s*'([A-Z]+)'", text)}
    assert len(used) > 20
    assert used <= granted("callflow")


FORBIDDEN = [
    "FLUSHALL",
    "FLUSHDB",
    "KEYS *",
    "SCAN 0",
    "CONFIG GET *",
    "CONFIG SET maxmemory 1",
    "SHUTDOWN",
    "SAVE",
    "MONITOR",
    "ACL LIST",
    "CLIENT LIST",
    "CLIENT KILL TYPE normal",
    "REPLICAOF NO ONE",
    "SCRIPT FLUSH",
    "FUNCTION LIST",
    "GET other",
    "SET other 1",
    "SET callflowish 1",
    "DEL other",
    "EVAL return(redis.call('GET','other')) 0",
    "SUBSCRIBE other",
    "PUBLISH other x",
    "PSUBSCRIBE *",
]


def test_what_callflow_does_not_need_is_refused(guarded: EmbeddedServer) -> None:
    granted_to = []
    for user in ("callflow", "callflow-reader", "callflow-broker"):
        with redis.Redis.from_url(url_of(guarded, user)) as client:
            for command in FORBIDDEN:
                try:
                    client.execute_command(*command.split())
                except redis.ResponseError as error:
                    if re.search(r"(?i)permission|can.t (run|access)", str(error)):
                        continue
                granted_to.append((user, command))
    assert granted_to == []


def test_a_reader_sees_all_calls_and_changes_none(doors: Guarded) -> None:
    parts, lease = doors.worker, _claimed(doors.worker, SID)
    ReportStore(Scripts(parts.client)).save(WorkerReport("w1@test"))
    doors.admin.config_resetstat()
    _reading(doors.reader)
    asyncio.run(_watch(url_of(doors.server, "callflow-reader")))
    assert refusals(doors.server) == []
    before = parts.record()
    for write in (
        lambda: doors.reader.store.open("CA2"),
        lambda: doors.reader.store.record_utterance(SID, 2, "no"),
        lambda: doors.reader.store.commit(lease, 1, "no"),
        lambda: doors.reader.store.end(SID, "hung_up"),
        lambda: doors.reader.leases.mark_sweep("reader"),
    ):
        with pytest.raises(StoreError, match=r"(?i)permission|can.t (run|access)"):
            write()
    assert parts.record() == before
    ReportStore(Scripts(parts.client)).forget("w1@test")


async def _watch(url: str) -> None:
    async with Replies.listening(url) as replies:
        await replies.status(SID)


def test_the_doctor_says_unknown_where_it_may_not_look(doors: Guarded) -> None:
    grades = {
        check.name: check.severity
        for check in run_checks(SERVER_CHECKS, StoreServer(doors.reader.client))
    }
    assert grades["eviction"] == grades["primary"] == Severity.OK
    allow(doors.admin, "callflow-reader", "-info")
    try:
        grades = {
            check.name: check.severity
            for check in run_checks(SERVER_CHECKS, StoreServer(doors.reader.client))
        }
    finally:
        grant(doors.server)
    hidden = ("version", "primary", "eviction", "persistence")
    assert {grades[name] for name in hidden} == {Severity.UNKNOWN}


def test_a_reader_is_granted_nothing_that_it_does_not_read_with(doors: Guarded) -> None:
    _claimed(doors.worker, SID)
    doors.admin.script_flush()
    doors.admin.config_resetstat()
    _reading(doors.reader)
    asyncio.run(_watch(url_of(doors.server, "callflow-reader")))

    used = {name.removeprefix("cmdstat_") for name in doors.admin.info("commandstats")}
    assert used - MINE == granted("callflow-reader") - CLUSTER_ONLY
