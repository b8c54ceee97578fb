"""Slots that move and nodes that go, in the middle of calls: nothing is lost or doubled."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from threading import Event

import pytest
from redis.crc import key_slot

from callflow.errors import StoreUnavailable
from callflow.store.keys import call_keys, presence_channel
from callflow.store.presence import Presence
from callflow.store.replies import Replies
from tests.cluster import MASTERS, TestCluster, slot_of_call
from tests.parts import SID, Parts
from tests.store.turns import whole_turn
from tests.waiting import wait_until

SLOT = slot_of_call(SID)


def _speak(parts: Parts, sid: str, over: Event) -> int:
    parts.store.open(sid)
    turn = 0
    while not over.is_set():
        turn += 1
        whole_turn(parts, sid, turn)
    return turn


@contextmanager
def _callers(parts: Parts) -> Iterator[list[tuple[str, Future[int]]]]:
    """Calls of the same slot as SID's that go on for as long as the block runs."""
    numbers = (f"CA{number}" for number in range(1_000))
    same = [sid for sid in numbers if call_keys(sid).shard == call_keys(SID).shard][:4]
    over = Event()
    with ThreadPoolExecutor(len(same)) as threads:
        try:
            calls = [(sid, threads.submit(_speak, parts, sid, over)) for sid in same]
            wait_until(lambda: all(parts.reader.find(sid) for sid in same), "no call began")
            yield calls
        finally:
            over.set()


def _judge(parts: Parts, calls: list[tuple[str, Future[int]]]) -> int:
    """Every turn that was acknowledged is in its record, once; returns how many there were."""
    turns = 0
    for sid, call in calls:
        said = call.result()
        turns += said
        thread = parts.record(sid).conversation_thread
        expected = [(role, turn) for turn in range(1, said + 1) for role in ("caller", "agent")]
        assert [(entry.role, entry.turn) for entry in thread] == expected
        assert parts.events(sid).count("committed") == said
    return turns


def test_calls_go_on_while_their_slot_moves_key_by_key(
    clustered: Parts, shared_cluster: TestCluster
) -> None:
    with _callers(clustered) as calls:
        for _ in range(2 * MASTERS):
            shared_cluster.move_slot(SLOT, (shared_cluster.owner(SLOT) + 1) % MASTERS)
    assert _judge(clustered, calls) > 0


def test_calls_go_on_while_their_slot_moves_at_one_stroke(
    clustered: Parts, shared_cluster: TestCluster
) -> None:
    """Valkey 9 moves a slot as a whole."""
    with _callers(clustered) as calls:
        for _ in range(MASTERS):
            shared_cluster.move_at_once(SLOT, (shared_cluster.owner(SLOT) + 1) % MASTERS)
    assert _judge(clustered, calls) > 0


def test_a_call_that_comes_while_its_slot_moves_opens_as_soon_as_it_has(
    clustered: Parts, shared_cluster: TestCluster
) -> None:
    """Redis lets nobody make several keys in a slot that is on the move."""
    there = (shared_cluster.owner(SLOT) + 1) % MASTERS
    with ThreadPoolExecutor(1) as caller:
        with shared_cluster.moving(SLOT, there):
            opened = caller.submit(clustered.store.open, SID)
            with pytest.raises(TimeoutError):
                opened.result(0.2)
        assert opened.result(5) == "ok"


def test_a_call_is_read_whole_wherever_its_parts_are(
    clustered: Parts, shared_cluster: TestCluster
) -> None:
    clustered.store.open(SID)
    whole_turn(clustered, SID, 1)
    before = clustered.record()

    async def story(move: Callable[..., None]) -> None:
        async with Replies.listening(shared_cluster.url) as replies:
            assert (await replies.read(SID, 1)).text == "Reply 1."
            move(call_keys(SID).call)
            assert (await replies.read(SID, 1)).text == "Reply 1."
            assert clustered.record() == before
            move(call_keys(SID).thread)
            assert (await replies.read(SID, 1)).text == "Reply 1."
            assert clustered.record() == before

    there = (shared_cluster.owner(SLOT) + 1) % MASTERS
    with shared_cluster.moving(SLOT, there) as move:
        asyncio.run(story(move))
    assert clustered.record() == before


def test_a_call_that_is_half_moved_for_long_is_as_good_as_not_there_and_loses_nothing(
    clustered: Parts, shared_cluster: TestCluster
) -> None:
    clustered.store.open(SID)
    whole_turn(clustered, SID, 1)
    there = (shared_cluster.owner(SLOT) + 1) % MASTERS
    with shared_cluster.moving(SLOT, there) as move:
        move(call_keys(SID).thread)
        began = time.monotonic()
        with pytest.raises(StoreUnavailable, match=r"not settled in 1\.5 s"):
            clustered.store.record_utterance(SID, 2, "word 2")
        assert time.monotonic() - began < 4, "a caller's turn has four seconds"
    assert clustered.record().heard == 1
    whole_turn(clustered, SID, 2)


def test_who_is_present_is_found_at_whichever_master_and_moves_with_it(
    clustered: Parts, shared_cluster: TestCluster
) -> None:
    leases = clustered.leases
    workers = [f"w{number}@test/1-aa" for number in range(12)]
    slots = {worker: key_slot(presence_channel(worker).encode()) for worker in workers}
    assert len({shared_cluster.owner(slot) for slot in slots.values()}) == MASTERS
    with ExitStack() as living:
        lines = [Presence(clustered.client, worker) for worker in workers]
        for line in lines:
            living.enter_context(closing(line))
            line.keep()
        assert leases.present(workers) == set(workers)
        assert leases.present_now() == sorted(workers)
        lines[0].close()
        wait_until(lambda: leases.present(workers) == set(workers[1:]), "it never vanished")

        moved = workers[1]
        there = (shared_cluster.owner(slots[moved]) + 1) % MASTERS
        shared_cluster.move_slot(slots[moved], there)
        with shared_cluster.node(there) as node:
            channel = presence_channel(moved)
            assert node.pubsub_numsub(channel) == [(channel, 0)]

            def at_home() -> bool:
                lines[1].keep()
                return bool(node.pubsub_numsub(channel) == [(channel, 1)])

            wait_until(at_home, "it stayed where nobody may ask for it one day")
        assert moved in leases.present(workers)


def test_a_reply_is_heard_at_whichever_node_it_was_written(
    clustered: Parts, shared_cluster: TestCluster
) -> None:
    sids = [f"CA{number}" for number in range(12)]
    slots = {key_slot(call_keys(sid).call.encode()) for sid in sids}
    assert len({shared_cluster.owner(slot) for slot in slots}) == MASTERS

    async def story() -> None:
        async with Replies.listening(shared_cluster.url) as replies:
            for sid in sids:
                with replies.expect(sid, 1) as expected:
                    clustered.store.open(sid)
                    whole_turn(clustered, sid, 1)
                    reply = await expected.wait(5)
                assert reply is not None
                assert (reply.text, reply.status) == ("Reply 1.", None), "it was told, not read"

    asyncio.run(story())
