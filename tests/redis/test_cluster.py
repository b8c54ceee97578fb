"""What only a cluster has: nodes that hold a part each, slots that move, and several clocks."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import pytest
from redis.crc import key_slot

from callflow.errors import SettingsError, StoreError, StoreUnavailable, StoreUnreplicated
from callflow.health.worker_reports import ReportStore, WorkerReport
from callflow.lab.embedded_server import EmbeddedServer, keys_without_lifetime
from callflow.redis import connection as connection_module
from callflow.redis.client import connect, nodes
from callflow.redis.cluster import Cluster
from callflow.redis.connection import Command, ThreadConnection
from callflow.redis.scripts import Replicas, ScriptReply, Scripts
from callflow.settings import load
from callflow.store.breaker import Breakers
from callflow.store.calls import CallStore
from callflow.store.keys import ALL_SHARDS, SHARDS, call_keys
from callflow.store.result import Claimed, Lease
from tests.cluster import MASTERS, TestCluster
from tests.parts import SID, TIMING, Parts

SLOT = key_slot(call_keys(SID).call.encode())


def _sids() -> list[str]:
    """One call for each shard."""
    found: dict[str, str] = {}
    for number in range(500):
        sid = f"CA{number}"
        found.setdefault(call_keys(sid).shard.leases, sid)
    assert len(found) == SHARDS
    return list(found.values())


def _claimed(parts: Parts, sid: str = SID) -> Lease:
    parts.store.open(sid)
    parts.store.record_utterance(sid, 1, "stuck")
    claimed = parts.store.claim(sid, "w@test/1-aa", f"claim-{sid}")
    assert isinstance(claimed, Claimed)
    return claimed.lease


@contextmanager
def _requests() -> Iterator[list[str]]:
    """What is sent to the nodes: the names of the commands of each request."""
    sent: list[str] = []
    real = connection_module.send

    def send(connection: Any, commands: Sequence[Command]) -> None:
        sent.append(" ".join(str(args[0]) for args, _ in commands))
        real(connection, commands)

    with patch("callflow.redis.cluster.send", send):
        yield sent


def test_fault_24_a_broker_in_the_cluster_is_refused_before_anything_connects() -> None:
    """celery/celery#9436, #2852; celery/kombu#732: kombu's keys lie in many slots."""
    given = {"CALLFLOW_REDIS_URL": "rediss+cluster://:secret@calls.example:6379"}
    with pytest.raises(SettingsError, match="CALLFLOW_BROKER_URL") as error:
        load(given)
    assert "name a server of their own" in str(error.value)
    assert "secret" not in str(error.value)
    with pytest.raises(SettingsError, match="CALLFLOW_BROKER_URL"):
        load(given | {"CALLFLOW_BROKER_URL": "redis+cluster://calls.example:6379"})

    settings = load(given | {"CALLFLOW_BROKER_URL": "redis://queues.example:6379/0"})
    assert settings.queue_url == "redis://queues.example:6379/0"


def test_fault_24_no_script_and_no_list_ever_touches_two_slots(clustered: Parts) -> None:
    """The cluster itself answers CROSSSLOT otherwise."""
    parts, sids = clustered, _sids()
    leases = [_claimed(parts, sid) for sid in sids]
    assert parts.store.beat(*leases) == ["ok"] * SHARDS
    parts.store.handovers.want(sids[1], "asked")
    for lease in leases[1:]:
        assert parts.store.save_draft(lease, 1, "Hel") == "ok"
        assert parts.store.commit(lease, 1, "Hello.").result == "ok"
    parts.store.hand_back(leases[0], "test", costs=True)

    assert set(parts.reader.find_all(sids)) == set(sids)
    assert len(parts.reader.active()) == SHARDS
    assert parts.reader.counts()["owed"] == 1
    assert parts.leases.look().rings == (sids[1],)
    assert Breakers(Scripts(parts.client)).may_ask("openai:m@h", "a1")
    vitals = ReportStore(Scripts(parts.client))
    vitals.save(WorkerReport("w1@test"))
    assert [one.node for one in vitals.read().reports] == ["w1@test"]
    vitals.forget("w1@test")


def test_the_calls_of_a_deployment_are_spread_over_all_masters(
    clustered: Parts, shared_cluster: TestCluster
) -> None:
    owners = [shared_cluster.owner(key_slot(shard.owed.encode())) for shard in ALL_SHARDS]
    assert len(set(owners)) == MASTERS


def test_claim_and_commit_are_one_request_and_a_sweep_is_one_for_each_node(
    clustered: Parts,
) -> None:
    parts = clustered
    warm, *sids = _sids()
    parts.store.commit(_claimed(parts, warm), 1, "Hello.")
    parts.leases.look()
    leases = [_claimed(parts, sid) for sid in sids]
    # A node that has never run a script is sent it first.
    parts.store.beat(*leases)
    for one in leases[:-1]:
        parts.store.commit(one, 1, "Hello.")

    with _requests() as sent:
        parts.store.commit(leases[-1], 1, "Hello.")
    assert sent == ["EVALSHA"]
    just_now = parts.reader.now_ms() - 60_000  # No beat is overdue, however slow the machine.
    parts.leases.look(now_ms=just_now)  # Once a second it asks for more.
    with _requests() as sent:
        parts.leases.look(now_ms=just_now)
    assert len(sent) == MASTERS
    assert " ".join(sent) == " ".join(["EVALSHA"] * SHARDS)
    with _requests() as sent:
        parts.store.beat(*leases)
    assert len(sent) == MASTERS


def test_a_node_that_has_forgotten_the_scripts_is_sent_them(
    clustered: Parts, shared_cluster: TestCluster
) -> None:
    lease = _claimed(clustered)
    for node in nodes(clustered.client):
        node.script_flush()
    assert clustered.store.beat(lease) == ["ok"]
    for node in nodes(clustered.client):
        node.script_flush()
    assert clustered.leases.look().suspects == ()
    assert clustered.store.commit(lease, 1, "Hello.").result == "ok"


def test_a_calls_times_are_told_by_the_clock_that_stamped_them(
    clustered: Parts, shared_cluster: TestCluster
) -> None:
    _claimed(clustered)
    with _requests() as sent:
        clustered.store.handovers.read(SID)
    assert sent == ["HMGET TIME"]

    # A shard whose clock is an hour ahead of the others': its leases are no older for that.
    real = Scripts.run_on_all_shards

    def skewed(self: Scripts, looks: Any) -> Any:
        replies = real(self, looks)
        assert isinstance(replies[0], ScriptReply)
        replies[0].facts["now"] = int(replies[0].facts["now"]) + 3_600_000
        return replies

    assert call_keys(SID).shard != ALL_SHARDS[0]
    clustered.store.beat(
        _claimed(clustered), now_ms=clustered.reader.now_ms() - TIMING.overdue_ms - 50
    )
    with patch.object(Scripts, "run_on_all_shards", skewed):
        found = clustered.leases.look()
    (suspect,) = found.suspects
    assert TIMING.overdue_ms <= suspect.silent_ms < 60_000


def test_what_has_to_be_on_a_replica_is_asked_of_the_node_that_wrote_it(
    clustered: Parts, shared_cluster: TestCluster
) -> None:
    """After a MOVED too: elsewhere nothing was written, and WAIT would vouch for nothing."""
    _claimed(clustered)
    store = CallStore(Scripts(clustered.client, replicas=Replicas(1, 2_000)), TIMING)
    assert store.record_utterance(SID, 1, "stuck").result == "again"

    assert isinstance(clustered.client, Cluster)
    topology = clustered.client._topology()
    slots, right = (
        topology.nodes_manager.slots_cache,
        topology.get_node_from_key(call_keys(SID).call),
    )
    wrong = next(one for one in topology.get_primaries() if one != right)
    slots[SLOT] = [wrong]
    with _requests() as sent:
        assert store.record_utterance(SID, 1, "stuck").result == "again"
    assert sent == ["EVALSHA WAIT", "EVALSHA WAIT"]
    store = CallStore(Scripts(clustered.client, replicas=Replicas(2, 50)), TIMING)
    with pytest.raises(StoreUnreplicated):  # Each master has one replica.
        store.record_utterance(SID, 1, "stuck")


def test_a_forked_child_does_not_read_its_parents_answers(clustered: Parts) -> None:
    sids = [SID, next(sid for sid in _sids() if call_keys(sid).shard == call_keys(SID).shard)]
    for sid in sids:
        clustered.store.open(sid)

    def all_mine(sid: str) -> bool:
        return all(clustered.record(sid).call_sid == sid for _ in range(300))

    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if all_mine(sids[0]) else 1)
        finally:
            os._exit(2)
    mine = all_mine(sids[1])
    assert os.waitpid(child, 0)[1] == 0
    assert mine


def test_what_would_stay_for_ever_is_found_at_every_node(
    clustered: Parts, shared_cluster: TestCluster
) -> None:
    left = sorted(shard.active for shard in ALL_SHARDS)
    for key in left:
        clustered.client.zadd(key, {"CA1": 1})
    assert keys_without_lifetime(clustered.client) == left
    shared_cluster.flush()


def test_an_interrupted_question_leaves_no_answer_for_the_next_one(clustered: Parts) -> None:
    """A drained worker's SystemExit comes at any moment, and the turn is handed back after it."""
    lease = _claimed(clustered)

    def drained(*_: Any, **__: Any) -> Any:
        raise SystemExit

    with patch("callflow.redis.cluster.receive", drained), pytest.raises(SystemExit):
        clustered.store.beat(lease)
    assert clustered.store.hand_back(lease, "drained", costs=False).result == "ok"


def test_a_process_starts_while_the_first_node_that_it_knows_is_down(
    shared_cluster: TestCluster,
) -> None:
    password, port = shared_cluster.servers[0].password, shared_cluster.servers[1].port
    with connect(f"redis+cluster://:{password}@127.0.0.1:1,127.0.0.1:{port}") as client:
        parts = Parts(client)
        assert parts.store.open(SID) == "ok"
        parts.store.end(SID, "hung_up")


def test_a_cluster_that_is_not_there_is_named_without_its_password() -> None:
    with connect("redis+cluster://:secret@127.0.0.1:1,127.0.0.1:2") as client:
        with pytest.raises(StoreUnavailable, match=r"127\.0\.0\.1:1") as error:
            Parts(client).store.open(SID)
    assert "secret" not in str(error.value)


def test_a_wrong_password_is_told_at_once(shared_cluster: TestCluster) -> None:
    port = shared_cluster.servers[0].port
    with connect(f"redis+cluster://:wrong@127.0.0.1:{port}") as client:
        with pytest.raises(StoreError, match="password"):
            Parts(client).store.open(SID)


def test_a_node_that_is_named_as_one_server_is_recognised(shared_cluster: TestCluster) -> None:
    other = (shared_cluster.owner(SLOT) + 1) % MASTERS
    with connect(shared_cluster.servers[other].url) as client:
        with pytest.raises(StoreError, match=r"one node of a cluster.*redis\+cluster"):
            Parts(client).store.open(SID)


def test_one_server_that_is_named_as_a_cluster_is_recognised(embedded: EmbeddedServer) -> None:
    url = embedded.url.replace("redis://", "redis+cluster://")
    with connect(url) as client, pytest.raises(StoreError, match="cluster support disabled"):
        Parts(client).store.open(SID)


def test_a_single_server_is_its_only_node(embedded: EmbeddedServer) -> None:
    with connect(embedded.url) as client:
        assert nodes(client) == [client]
        assert ThreadConnection(client.connection_pool).exchange([(("PING",), {})]) == ["PONG"]
