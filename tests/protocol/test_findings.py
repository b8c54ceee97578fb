"""What the search has found: each rule that was missing once, and the same on real servers.

A failover takes the newest writes with it. A copy that the network still holds is handed over when
its client has long gone on: the data of a closed connection is sent again for seconds. A sweep has
looked at a call just before its end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from callflow.lab.embedded_server import EmbeddedServer
from callflow.redis.client import Client, connect
from callflow.store.keys import call_keys
from callflow.store.result import Claimed, Lease, Result
from tests.parts import Parts
from tests.protocol import promises
from tests.protocol.explorer import explore
from tests.protocol.moves import SAID_AGAIN, Size
from tests.protocol.real import SID, RealCall
from tests.protocol.report import story
from tests.protocol.sizes import RULES
from tests.protocol.steps import Protocol
from tests.waiting import wait_until

FAILOVER = Size(utterances=1, faults=1, late=0, replicated=True)
WAITED = Size(utterances=1, faults=1, late=0, replicated=True, min_replicas=1)


@pytest.mark.parametrize("size", [FAILOVER, WAITED], ids=["not waited for", "waited for"])
def test_a_fence_that_a_failover_took_is_given_to_a_second_worker(size: Size) -> None:
    """A claim waits for no replica. So the next primary may not know of it, and gives its fence
    again: two workers hold leases that the server cannot tell apart."""
    found = explore(Protocol(replace(RULES, lease_names_its_claim=False), size))
    example = found.counterexample
    assert example is not None
    print(story(example))
    assert example.promise == promises.ALONE
    claims = [step for step in example.steps if step.asked and step.asked.script == "claim"]
    assert [step.answer and step.answer.fence for step in claims] == [1, 1]
    moves = [step.move.what for step in example.steps]
    assert moves.index("takes a message") < moves.index("becomes primary") < len(moves) - 1


@contextmanager
def _after_a_lost_claim(primary: EmbeddedServer) -> Iterator[tuple[RealCall, Lease, Lease]]:
    """A replica becomes primary that has all but the claim of the first worker; then the second
    worker claims. The call as the new primary has it, and the two leases."""
    options = (f"masterauth {primary.password}",)
    with (
        connect(primary.url) as before,
        EmbeddedServer.start(options=options) as replica,
        connect(replica.url) as after,
    ):
        before.config_set("repl-diskless-sync-delay", 0)
        after.execute_command("REPLICAOF", "127.0.0.1", primary.port)
        old, new = RealCall(before), RealCall(after)
        old.open()
        old.store.record_utterance(SID, 1, "Stuck between floors.")
        wait_until(lambda: _in_step(before, after), "the replica has what was heard")
        after.execute_command("REPLICAOF", "NO", "ONE")
        first = old.store.claim(SID, "w1@test/1-00", "claim-1")
        second = new.store.claim(SID, "w2@test/2-00", "claim-2")
        assert isinstance(first, Claimed)
        assert isinstance(second, Claimed)
        yield new, first.lease, second.lease
        for call in (old, new):
            call.store.end(SID, "hung_up")


def _in_step(primary: Client, replica: Client) -> bool:
    link = replica.info("replication")
    return bool(
        link["role"] == "slave"
        and link["master_link_status"] == "up"
        and link["slave_repl_offset"] == primary.info("replication")["master_repl_offset"]
    )


def test_a_worker_whose_claim_a_failover_took_can_write_nothing_more(
    own_server: EmbeddedServer,
) -> None:
    with _after_a_lost_claim(own_server) as (call, lost, given):
        assert call.store.beat(lost) == [Result.FENCED]
        assert call.store.save_draft(lost, 1, "Stay") == Result.FENCED
        assert call.store.commit(lost, 1, "Stay where you are.").result is Result.FENCED
        assert call.store.save_draft(given, 1, "Help") == Result.OK
        assert call.store.commit(given, 1, "Help is on its way.").result is Result.OK


THREE_PIECES = Size(utterances=1, pieces=3, faults=1, poison=True)


def test_a_late_copy_of_a_shorter_draft_makes_the_successor_say_a_piece_again() -> None:
    found = explore(Protocol(replace(RULES, drafts_only_grow=False), THREE_PIECES))
    example = found.counterexample
    assert example is not None
    print(story(example))
    assert example.promise == SAID_AGAIN
    drafts = [step.after.record.draft for step in example.steps if step.after.record.draft]
    assert ("1a", "2a") in drafts
    assert drafts[-2:] == [("1a",), ("1a", "2b")], "the second piece is worded anew"


@pytest.mark.night
@pytest.mark.timeout(600)
def test_where_drafts_only_grow_no_late_copy_does_harm() -> None:
    found = explore(Protocol(RULES, THREE_PIECES))
    assert found.counterexample is None, story(found.counterexample)


def test_a_late_copy_of_a_draft_takes_nothing_back(parts: Parts) -> None:
    parts.store.open(SID)
    parts.store.record_utterance(SID, 1, "Stuck between floors.")
    claimed = parts.store.claim(SID, "w1@test/1-00", "claim-1")
    assert isinstance(claimed, Claimed)
    for text in ("Help", "Help is on", "Help"):
        assert parts.store.save_draft(claimed.lease, 1, text) is Result.OK
    draft = parts.record(SID).draft
    assert draft is not None
    assert draft.text == "Help is on"


def test_a_sweep_that_looked_before_the_end_would_wake_a_complete_call() -> None:
    protocol = Protocol(replace(RULES, rewake_knows_the_end=False), Size(utterances=1, faults=0))
    example = explore(protocol).counterexample
    assert example is not None
    print(story(example))
    assert example.promise == promises.FINAL
    assert [step.move.what for step in example.steps] == ["is told", "hangs up"]


def test_a_call_that_ended_with_a_turn_owed_is_woken_no_more(parts: Parts) -> None:
    parts.store.open(SID)
    parts.store.record_utterance(SID, 1, "Stuck between floors.", now_ms=1_000)
    unclaimed = parts.leases.look(now_ms=100_000).unclaimed
    assert unclaimed == (SID,)
    assert parts.store.end(SID, "hung_up") is Result.OK
    owed = call_keys(SID).shard.owed
    try:
        assert parts.leases.take_unclaimed(unclaimed, now_ms=100_000) == []
        assert parts.client.zscore(owed, SID) is None
    finally:
        parts.client.delete(owed)
