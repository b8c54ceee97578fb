"""The server goes away, comes back, changes its role, or its answer is lost: nothing is done twice,
nobody waits for long, and what is asked again finds the primary."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from callflow.errors import StoreReadOnly, StoreUnavailable
from callflow.lab.chaos.chaos_servers import ServerPair, freeze, server_pair, thaw
from callflow.lab.chaos.network_proxy import Endpoint
from callflow.lab.embedded_server import EmbeddedServer
from callflow.redis.client import connect
from callflow.redis.scripts import Scripts
from callflow.store.encoding import on_call
from callflow.store.presence import Presence
from callflow.store.result import Claimed, Lease
from tests.parts import SID, Parts
from tests.waiting import wait_until

CONNECT_TIMEOUT_S, ANSWER_TIMEOUT_S = 0.2, 0.3
"""Shorter than the web process has them, for the sake of the tests."""

BOUND_S = 2 * ANSWER_TIMEOUT_S + CONNECT_TIMEOUT_S + 0.3
"""One answer that does not come, a new connection and another answer; and a busy machine."""


@pytest.fixture
def pair() -> Iterator[ServerPair]:
    """A primary and its replica behind one endpoint."""
    with server_pair() as running:
        yield running


@pytest.fixture
def at_pair(pair: ServerPair) -> Iterator[Parts]:
    """One process's worth of callflow that knows the endpoint alone."""
    with connect(pair.url) as client:
        yield Parts(client)


@pytest.fixture
def proxy(own_server: EmbeddedServer) -> Iterator[Endpoint]:
    with Endpoint.start(own_server.port) as endpoint:
        yield endpoint


@pytest.fixture
def through(own_server: EmbeddedServer, proxy: Endpoint) -> Iterator[Parts]:
    """As impatient as a web process, behind a network that can misbehave."""
    url = f"redis://:{own_server.password}@127.0.0.1:{proxy.port}/0"
    with connect(
        url, connect_timeout_s=CONNECT_TIMEOUT_S, answer_timeout_s=ANSWER_TIMEOUT_S
    ) as client:
        yield Parts(client)


def _claim(parts: Parts, sid: str = SID) -> Lease:
    claimed = parts.store.claim(sid, "w@test/1-aa", "claim-1")
    assert isinstance(claimed, Claimed)
    return claimed.lease


def _owed(parts: Parts, sid: str = SID) -> None:
    parts.store.open(sid)
    parts.store.record_utterance(sid, 1, "stuck")


# A failover behind one name.


def test_after_the_primary_was_killed_the_first_question_is_answered_by_the_new_one(
    pair: ServerPair, at_pair: Parts
) -> None:
    _owed(at_pair)
    pair.wait_until_in_step()
    pair.fail_over()
    began = time.monotonic()
    lease = _claim(at_pair)
    assert time.monotonic() - began < BOUND_S
    assert at_pair.store.commit(lease, 1, "Hello.").result == "ok"
    assert at_pair.record().said(1, "agent") == "Hello."


def test_fault_22_a_primary_that_is_demoted_while_its_connections_stay_open_is_left_at_once(
    pair: ServerPair, at_pair: Parts
) -> None:
    _owed(at_pair)
    at_pair.store.open("CA2")
    presence = Presence(at_pair.client, "w@test/1-aa")
    presence.keep()
    at_pair.watchdog.sweep("before")
    pair.wait_until_in_step()
    pair.promote()
    pair.follow()
    pair.lead_clients(keep_open=True)

    lease = _claim(at_pair)
    assert at_pair.store.commit(lease, 1, "Hello.").result == "ok"
    # What is asked for many calls at once takes other connections.
    at_pair.store.record_utterance(SID, 2, "still here")
    again = at_pair.store.claim(SID, "w@test/1-aa", "claim-2")
    assert isinstance(again, Claimed)
    assert at_pair.store.beat(again.lease) == ["ok"]
    at_pair.watchdog.sweep("w@test")
    assert pair.client.get("callflow:swept") == "w@test"
    # And the line by which this process is known is at the server where that is asked.
    wait_until(
        lambda: _kept(presence) and at_pair.leases.present_now() == ["w@test/1-aa"],
        "never present again",
    )
    presence.close()


def _kept(presence: Presence) -> bool:
    try:
        presence.keep()
    except StoreUnavailable:
        return False
    return True


def test_fault_22_a_server_that_stays_a_replica_is_named_and_soon(
    own_server: EmbeddedServer,
) -> None:
    with connect(own_server.url) as client:
        parts = Parts(client)
        parts.store.open(SID)
        client.replicaof("127.0.0.1", 1)
        began = time.monotonic()
        with pytest.raises(StoreReadOnly, match="replica"):
            parts.store.record_utterance(SID, 1, "stuck")
        assert time.monotonic() - began < 1
        client.replicaof("NO", "ONE")
        parts.store.end(SID, "hung_up")


def test_who_is_patient_waits_for_the_new_primary(pair: ServerPair, at_pair: Parts) -> None:
    _owed(at_pair)
    pair.wait_until_in_step()
    patient = Scripts(at_pair.client, patience_s=10)
    pair.primary.kill()

    def promote() -> None:
        pair.promote()
        pair.lead_clients()

    later = threading.Timer(0.6, promote)
    later.start()
    played = on_call("save_playback", SID, turn=1, length=0, left_ms=0)
    assert patient.run(played).word == "ok"
    later.join()
    pair.primary.kill()
    with pytest.raises(StoreUnavailable):
        at_pair.store.record_utterance(SID, 2, "again")
    began = time.monotonic()
    with pytest.raises(StoreUnavailable):
        Scripts(at_pair.client, patience_s=0.4).run(played)
    assert 0.2 < time.monotonic() - began < 1


# A server that does not answer.


@pytest.mark.parametrize("idle", [False, True], ids=["at the first question", "in the middle"])
@pytest.mark.parametrize("how", ["frozen", "cut off", "dead"])
def test_fault_05_nobody_waits_for_a_server_that_does_not_answer(
    own_server: EmbeddedServer, proxy: Endpoint, through: Parts, how: str, idle: bool
) -> None:
    if idle:
        through.store.open(SID)
        through.record()
    strike = {
        "frozen": lambda: freeze(own_server),
        "cut off": proxy.mute,
        "dead": own_server.kill,
    }
    strike[how]()
    questions: list[Callable[[], Any]] = [
        lambda: through.store.record_utterance(SID, 1, "stuck"),
        lambda: through.reader.find(SID),
        lambda: through.leases.look(),
        lambda: through.leases.mark_sweep("w@test"),
    ]
    for question in questions:
        began = time.monotonic()
        with pytest.raises(StoreUnavailable):
            question()
        assert time.monotonic() - began < BOUND_S
    thaw(own_server)
    proxy.heal()
    if not own_server.alive:
        own_server.restart()
    through.store.open(SID)
    assert through.store.record_utterance(SID, 1, "stuck").result in ("ok", "again")
    through.store.end(SID, "hung_up")


def test_fault_05_a_host_that_takes_no_connection_is_tried_twice_and_no_more() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as deaf, ExitStack() as queue:
        for _ in range(3):
            # What waits to be accepted fills its queue: whoever comes then is not answered.
            waiting = queue.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(deaf.getsockname())
        url = f"redis://127.0.0.1:{deaf.getsockname()[1]}"
        with connect(url, connect_timeout_s=0.3, answer_timeout_s=0.4) as client:
            parts = Parts(client)
            for question in (lambda: parts.store.open(SID), lambda: parts.leases.look()):
                began = time.monotonic()
                with pytest.raises(StoreUnavailable):
                    question()
                assert time.monotonic() - began < 1.0


def test_a_server_that_reads_its_data_is_waited_for_and_refuses_nothing() -> None:
    """LOADING: it has started, and nothing is known of the calls yet."""
    with (
        EmbeddedServer.start(
            options=("key-load-delay 15000", "loading-process-events-interval-bytes 1024")
        ) as server,
        connect(server.url) as client,
    ):
        parts = Parts(client)
        parts.store.open(SID)
        client.mset({f"key{number}": "x" * 100 for number in range(80)})
        client.bgrewriteaof()
        wait_until(
            lambda: client.info("persistence")["aof_last_rewrite_time_sec"] >= 0, "never rewritten"
        )
        server.kill()
        restarting = threading.Thread(target=server.restart)
        restarting.start()
        seen = []

        def heard() -> bool:
            try:
                return parts.store.record_utterance(SID, 1, "stuck").result == "ok"
            except StoreUnavailable as error:
                seen.append(str(error))
                return False

        wait_until(heard, "the server never had its data")
        restarting.join()
        assert any("loading" in one.lower() for one in seen), seen


@pytest.mark.parametrize(
    "setting",
    [
        {"min-replicas-to-write": 1},
        {"replica-serve-stale-data": "no", "replicaof": "127.0.0.1 1"},
    ],
    ids=["NOREPLICAS", "MASTERDOWN"],
)
def test_an_answer_that_may_be_another_one_in_a_moment_is_no_refusal(
    own_server: EmbeddedServer, setting: dict[str, Any]
) -> None:
    with connect(own_server.url) as client:
        parts = Parts(client)
        parts.store.open(SID)
        parts.store.end(SID, "hung_up")
        for name, value in setting.items():
            if name == "replicaof":
                client.replicaof(*value.split())
            else:
                client.config_set(name, value)
        with pytest.raises(StoreUnavailable):
            parts.store.open("CA2")


def test_fault_24_a_cluster_without_its_slots_is_no_refusal() -> None:
    with (
        EmbeddedServer.start(options=("cluster-enabled yes",)) as server,
        connect(server.url) as client,
        pytest.raises(StoreUnavailable, match=r"CLUSTERDOWN|not served"),
    ):
        Parts(client).store.open(SID)


def test_a_plain_restart_costs_no_question(own_server: EmbeddedServer, through: Parts) -> None:
    _owed(through)
    lease = _claim(through)
    own_server.restart()
    assert through.store.commit(lease, 1, "Hello.").result == "ok"
    assert through.record().answered == 1
    through.store.end(SID, "hung_up")
