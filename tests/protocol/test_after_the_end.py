"""What the search finds about a call that is over: a sweep that has looked just before the end."""

from __future__ import annotations

from dataclasses import replace

from callflow.store.keys import call_keys
from callflow.store.result import Result
from tests.parts import SID, Parts
from tests.protocol import promises
from tests.protocol.explorer import explore
from tests.protocol.moves import Size
from tests.protocol.report import story
from tests.protocol.sizes import RULES
from tests.protocol.steps import Protocol


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
