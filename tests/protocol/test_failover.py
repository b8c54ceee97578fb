"""What the search finds where a failover takes the newest writes with it, and the same in a real
pair of servers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from callflow.lab.embedded_server import EmbeddedServer
from callflow.redis.client import Client, connect
from callflow.store.result import Claimed, Lease, Result
from tests.protocol import promises
from tests.protocol.explorer import explore
from tests.protocol.moves import Size
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
