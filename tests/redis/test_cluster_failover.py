"""Masters that die or freeze: their calls go on at their replicas, those of others all the time."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest
from redis.crc import key_slot

from callflow.errors import StoreUnavailable
from callflow.heartbeat import Heartbeat, LeaseGuard
from callflow.redis.client import connect
from callflow.store.keys import EPOCH
from callflow.store.presence import Presence
from callflow.store.replies import Replies
from callflow.store.result import Claimed
from tests.cluster import MASTERS, TestCluster, cluster
from tests.parts import SID, Parts
from tests.store.turns import WORKER, patiently, whole_turn
from tests.waiting import wait_until

pytestmark = pytest.mark.chaos


@pytest.fixture
def own_cluster() -> Iterator[TestCluster]:
    """One that may be broken; a master that is gone is replaced within a few seconds."""
    with cluster(node_timeout_ms=1_000) as built:
        yield built


def test_a_dead_masters_calls_go_on_at_its_replica(own_cluster: TestCluster) -> None:
    with connect(own_cluster.url) as client:
        parts = Parts(client)
        parts.store.open(SID)
        whole_turn(parts, SID, 1)
        dead = own_cluster.owner_of(SID)
        own_cluster.wait_for_replicas()
        own_cluster.servers[dead].kill()

        patiently(lambda: whole_turn(parts, SID, 2))

        assert [e.turn for e in parts.record().conversation_thread] == [1, 1, 2, 2]
        own_cluster.servers[dead].restart()
        wait_until(own_cluster.settled, "the dead one never came back", within_s=20)
        whole_turn(parts, SID, 3)
        parts.close()


def test_absence_proves_nothing_while_a_master_is_gone_and_for_a_while_after(
    own_cluster: TestCluster,
) -> None:
    with connect(own_cluster.url) as client:
        parts = Parts(client).patient(beat_ms=100, stale_ms=60_000)
        parts.store.open(SID)
        parts.store.record_utterance(SID, 1, "stuck")
        assert isinstance(parts.store.claim(SID, WORKER, "claim-1"), Claimed)
        wait_until(lambda: parts.leases.look().suspects, "its beat is never overdue")
        wait_until(lambda: parts.leases.look().presence_counts, "it never counted", within_s=10)
        # Another master than those of the call and of the epoch: both can be asked all the time.
        busy = {own_cluster.owner_of(SID), own_cluster.owner(key_slot(EPOCH.encode()))}
        dead = min(set(range(MASTERS)) - busy)
        own_cluster.servers[dead].kill()
        before = own_cluster.masters()
        assert not parts.leases._presence_counts(parts.reader.now_ms())

        wait_until(lambda: own_cluster.masters() != before, "nobody took over", within_s=20)
        taken = time.monotonic()
        wait_until(
            lambda: parts.leases._presence_counts(parts.reader.now_ms()), "never", within_s=20
        )
        assert time.monotonic() - taken > 2
        parts.close()


def test_while_a_master_is_gone_the_calls_of_the_others_are_looked_after() -> None:
    with cluster(node_timeout_ms=30_000) as slow, connect(slow.url) as client:
        parts = Parts(client).patient(stale_ms=500)
        sids = [f"CA{number}" for number in range(40)]
        for sid in sids:
            parts.store.open(sid)
            parts.store.record_utterance(sid, 1, "stuck")
            assert isinstance(parts.store.claim(sid, WORKER, sid), Claimed)
        parts.watchdog.sweep("test", now_ms=1)  # Every node knows every script.

        def all_silent() -> bool:
            suspects = parts.leases.look().suspects
            return len([one for one in suspects if one.silent_ms >= 500]) == len(sids)

        wait_until(all_silent, "their beats are never too old")
        for gone in range(MASTERS):
            theirs = [sid for sid in sids if slow.owner_of(sid) != gone]
            assert 0 < len(theirs) < len(sids)
            slow.servers[gone].kill()
            with pytest.raises(StoreUnavailable):
                parts.watchdog.sweep("test")
            parts.leases.mark_sweep("test")
            swept = parts.leases.last_sweep()
            slow.servers[gone].restart()
            wait_until(slow.settled, "it never came back")
            assert swept is not None, "an understudy would sweep as well, and another, all the time"
            states = {sid: str(parts.record(sid).call_state) for sid in theirs}
            assert states == dict.fromkeys(theirs, "incomplete")
        parts.close()


def test_while_a_master_is_gone_the_turns_at_the_others_are_beaten_for() -> None:
    with cluster(node_timeout_ms=30_000) as slow, connect(slow.url) as client:
        parts = Parts(client).patient(beat_ms=100, stale_ms=600_000, turn_ms=600_000)
        leases = []
        for number in range(40):
            parts.store.open(f"CA{number}")
            parts.store.record_utterance(f"CA{number}", 1, "stuck")
            claimed = parts.store.claim(f"CA{number}", WORKER, f"claim-{number}")
            assert isinstance(claimed, Claimed)
            leases.append(claimed.lease)
        heartbeat = Heartbeat(parts.store, Presence(client, WORKER), WORKER)
        with ExitStack() as held:
            guards = [
                held.enter_context(heartbeat.guard(lease, time.monotonic(), lambda *_: None))
                for lease in leases
            ]
            heartbeat.start()
            for gone in range(MASTERS):
                theirs = [one for one in guards if slow.owner_of(one.lease.call_sid) != gone]
                assert 0 < len(theirs) < len(leases)
                slow.servers[gone].kill()
                struck = time.monotonic()

                def trusted(theirs: list[LeaseGuard] = theirs, struck: float = struck) -> bool:
                    return min(one.beaten_at for one in theirs) > struck

                wait_until(trusted, "their beats wait for the one that is gone", within_s=10)
                slow.servers[gone].restart()
                wait_until(slow.settled, "it never came back", within_s=20)
        heartbeat.close()
        parts.close()


def test_a_listener_whose_node_freezes_hears_at_another_one(own_cluster: TestCluster) -> None:
    with connect(own_cluster.url) as client:
        parts = Parts(client)
        parts.store.open(SID)

        async def story() -> None:
            async with Replies.listening(own_cluster.url):
                frozen = next(
                    n for n in range(MASTERS) if own_cluster.subscribers(n, "callflow:said")
                )
                os.kill(own_cluster.servers[frozen].pid, signal.SIGSTOP)
                try:
                    others = [n for n in range(2 * MASTERS) if n != frozen]
                    await asyncio.to_thread(
                        wait_until,
                        lambda: any(own_cluster.subscribers(n, "callflow:said") for n in others),
                        "it stayed with the frozen one",
                        10,
                    )
                finally:
                    os.kill(own_cluster.servers[frozen].pid, signal.SIGCONT)

        asyncio.run(story())
        parts.close()


def test_while_every_node_is_frozen_no_thread_waits_for_another_that_looks_for_them(
    own_cluster: TestCluster,
) -> None:
    with connect(own_cluster.url) as client, ThreadPoolExecutor(6) as threads:
        parts = Parts(client)
        parts.store.open(SID)
        for server in own_cluster.servers:
            os.kill(server.pid, signal.SIGSTOP)
        try:
            waits = sorted(threads.map(lambda _: _wait_for_refusal(parts), range(6)))
        finally:
            for server in own_cluster.servers:
                os.kill(server.pid, signal.SIGCONT)
        # Twice the time-out of an answer; one of them has asked every node besides.
        assert waits[-2] < 6
        wait_until(own_cluster.settled, "it never came back", within_s=20)
        patiently(lambda: parts.store.end(SID, "hung_up"))
        parts.close()


def _wait_for_refusal(parts: Parts) -> float:
    began = time.monotonic()
    with pytest.raises(StoreUnavailable):
        parts.store.record_utterance(SID, 1, "stuck")
    return time.monotonic() - began
