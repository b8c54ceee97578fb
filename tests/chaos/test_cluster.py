"""A whole stack whose calls are on a Redis Cluster; every process of it has the least rights."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from threading import Event

import pytest
from redis.crc import key_slot

from callflow.celery import use_broker
from callflow.errors import StoreError
from callflow.intake import Intake
from callflow.lab.embedded_server import EmbeddedServer, keys_without_lifetime
from callflow.lab.stack import LocalStack
from callflow.redis.client import connect
from callflow.redis.scripts import Replicas, Scripts
from callflow.settings import load
from callflow.store.calls import CallStore
from callflow.store.keys import ALL_SHARDS
from tests.acl import PASSWORD, refusals, url_of, users
from tests.cluster import MASTERS, TestCluster, cluster
from tests.parts import Parts
from tests.stack_parts import Running
from tests.waiting import wait_until

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(300)]

CALLS = 8
WORKERS, SLOTS = 2, 4

LONGEST_S = 12
"""For a reply: a second until the others give a master up, an election, its lease and the turn."""


@contextmanager
def _running(log_dir: Path, **settings: str) -> Iterator[tuple[Running, TestCluster]]:
    """Workers, watchdog and beat; the calls in a cluster, the messages on a server beside it."""
    with ExitStack() as up:
        broker = up.enter_context(EmbeddedServer.start(options=users()))
        nodes = up.enter_context(cluster(node_timeout_ms=1_000, options=users()))
        hosts = nodes.url.partition("@")[2]
        calls = f"redis+cluster://callflow:{PASSWORD}@{hosts}"
        messages = url_of(broker, "callflow-broker")
        given = {f"CALLFLOW_{name.upper()}": value for name, value in settings.items()}
        given |= {"CALLFLOW_REDIS_URL": calls, "CALLFLOW_BROKER_URL": messages}
        use_broker(messages)
        stack = up.enter_context(LocalStack(given, log_dir))
        parts = Parts(up.enter_context(connect(calls)), load(given).timing)
        for number in range(1, WORKERS + 1):
            stack.start_worker(f"w{number}", slots=SLOTS)
        stack.start_watchdog()
        stack.start_beat()
        running = Running(stack, parts, calls, SLOTS, broker)
        running.wait_for_workers(WORKERS * SLOTS)
        wait_until(running.watchdog_sweeps, "the watchdog never swept", within_s=20)
        yield running, nodes
        parts.close()
        for server in (broker, *nodes.servers):
            assert refusals(server) == []
        with connect(nodes.url) as client:
            assert keys_without_lifetime(client) == []


def _patiently(act: Callable[[], object], what: str) -> None:
    """As the carrier and our own redirects do: the same again, until it is answered."""

    def done() -> bool:
        try:
            act()
        except StoreError:
            return False
        return True

    wait_until(done, what, within_s=60)


def _speak(intake: Intake, sid: str, turn: int) -> None:
    if turn == 1:
        intake.open(sid)
    intake.hear(sid, turn, f"we are stuck, word {turn}")


def _call(running: Running, intake: Intake, sid: str, struck: Event) -> list[float]:
    """One call, until all strikes are over; returns how long each reply took, s."""
    waited: list[float] = []
    while not struck.is_set():
        began, turn = time.monotonic(), len(waited) + 1
        _patiently(partial(_speak, intake, sid, turn), f"{sid} {turn} is never taken")
        _patiently(partial(running.reply, sid, turn, within_s=60), f"{sid} {turn} has no reply")
        waited.append(time.monotonic() - began)
    return waited


def _strike(nodes: TestCluster) -> None:
    """Slots go round while a master dies, is replaced, and comes back as a replica."""
    slots = [key_slot(shard.owed.encode()) for shard in ALL_SHARDS]
    for slot in slots[::2]:
        nodes.move_slot(slot, (nodes.owner(slot) + 1) % MASTERS)
    dead = nodes.owner(slots[0])
    nodes.servers[dead].kill()
    wait_until(lambda: dead not in nodes.masters(), "nobody took over", within_s=30)
    nodes.servers[dead].restart()
    wait_until(nodes.settled, "the dead one never came back", within_s=30)
    for slot in slots[::2]:
        owner = nodes.owner(slot)
        nodes.move_slot(slot, next(one for one in nodes.masters() if one != owner))


def test_fault_24_calls_go_on_in_a_cluster_whose_slots_move_and_whose_master_dies(
    tmp_path: Path,
) -> None:
    """celery/celery#9436, #2852; celery/kombu#732: the state in the cluster, the broker not."""
    with _running(tmp_path, min_replicas="1", pace_s="0.1", stale_after_s="4") as (running, nodes):
        parts = running.parts
        scripts = Scripts(parts.client, replicas=Replicas(1, 500))
        intake = Intake(CallStore(scripts, parts.timing))
        sids = [f"CA{number:032x}" for number in range(CALLS)]
        struck = Event()
        with ThreadPoolExecutor(CALLS) as threads:
            calls = [threads.submit(_call, running, intake, sid, struck) for sid in sids]
            try:
                _strike(nodes)
            finally:
                struck.set()
            waited = [call.result() for call in calls]
        assert max(max(call) for call in waited) < LONGEST_S
        for sid, call in zip(sids, waited, strict=True):
            thread = parts.record(sid).conversation_thread
            said = [(entry.role, entry.turn) for entry in thread]
            turns = range(1, len(call) + 1)
            assert said == [(who, turn) for turn in turns for who in ("caller", "agent")]


def test_a_killed_workers_calls_are_taken_over_by_presence_in_a_cluster(tmp_path: Path) -> None:
    with _running(tmp_path, pace_s="0.7", stale_after_s="20") as (running, _):
        parts, sid = running.parts, f"CA{1:032x}"
        running.caller_says(sid, 1, "we are stuck please help")
        record = running.being_answered(sid)
        struck = parts.reader.now_ms()
        running.process_of(record).kill()

        assert running.reply(sid, 1).done
        assert running.seconds_to_next_claim(sid, struck) < 5
