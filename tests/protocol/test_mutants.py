"""Each rule of the protocol is there for a reason: without it, this happens. The ways are the
shortest there are, and the steps that decide stand here."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.protocol import promises
from tests.protocol.explorer import Counterexample, explore
from tests.protocol.liveness import always_settles
from tests.protocol.moves import ONCE, SAID_AGAIN, Size, Step
from tests.protocol.record import Entry, Rules
from tests.protocol.report import story
from tests.protocol.sizes import RULES
from tests.protocol.steps import Protocol

ONE = Size(utterances=1, faults=1)
TWO = Size(utterances=2, faults=1)
POISON = Size(utterances=1, faults=0, workers=1, poison=True)
REPLICATED = Size(utterances=1, faults=1, late=0, replicated=True, min_replicas=1)


def without(size: Size, *rules: str, only: str | None = None) -> Counterexample:
    """What happens without these rules: the shortest way to a broken promise, or to `only` that."""
    protocol = Protocol(replace(RULES, **dict.fromkeys(rules, False)), size)
    found = explore(protocol, only=only)
    example = found.counterexample or always_settles(found).counterexample
    assert example is not None, f"nothing happens without {', '.join(rules)}"
    print(story(example))
    return example


def told(step: Step) -> str:
    """One step in short: who did what, and what the server made of it."""
    words = f"{step.move.who} {step.move.what}"
    if step.asked is None or step.answer is None:
        return words
    return f"{words}: {step.asked.script} {step.answer.word}"


def last(example: Counterexample, count: int) -> list[str]:
    return [told(step) for step in example.steps[-count:]]


def test_without_a_fence_check_a_worker_answers_that_was_taken_over() -> None:
    example = without(ONE, "fence_in_commit")
    assert example.promise == promises.FENCED
    assert len(example.steps) == 8
    assert last(example, 3) == [
        "a is wedged: hand_back ok",
        "b takes a message: claim ok",
        "a goes on: commit ok",
    ]


def test_without_a_fence_check_two_workers_answer_one_turn() -> None:
    example = without(TWO, "fence_in_commit", "turn_in_commit", only=ONCE)
    assert len(example.steps) == 11
    end = example.steps[-1]
    agent = [one for one in end.after.record.thread if one.role == "agent"]
    assert [one.turn for one in agent] == [1, 1]
    assert last(example, 1) == ["a asks again: commit moved"]


def test_without_a_fence_check_two_workers_speak_into_one_reply() -> None:
    example = without(ONE, "fence_in_draft", only=SAID_AGAIN)
    assert last(example, 3) == [
        "b takes a message: claim ok",
        "b goes on: draft ok",
        "a goes on: draft ok",
    ]


def test_without_a_fence_check_a_dead_worker_is_kept_alive_by_the_one_before() -> None:
    example = without(ONE, "fence_in_beat")
    assert example.promise == promises.FENCED
    assert last(example, 2) == ["b takes a message: claim ok", "a beats: beat ok"]


def test_without_a_fence_check_a_worker_gives_away_what_another_holds() -> None:
    example = without(Size(utterances=1, faults=2, late=0), "fence_in_release")
    assert example.promise == promises.FENCED
    assert last(example, 2) == [
        "b takes a message: claim ok",
        "a is wedged: hand_back ok",
    ]


def test_without_a_growing_fence_two_workers_hold_one_lease() -> None:
    example = without(ONE, "fence_grows", "lease_names_its_claim")
    assert example.promise == promises.ALONE
    assert last(example, 1) == ["b takes a message: claim ok"]


def test_a_claim_that_is_not_repeatable_is_held_by_its_own_first_copy() -> None:
    example = without(ONE, "claim_once")
    assert example.promise == promises.CLAIM_REPEATED
    assert len(example.steps) == 5
    assert last(example, 2) == ["a loses the answer", "a asks again: claim held"]


def test_a_webhook_that_is_not_recognised_is_heard_twice() -> None:
    example = without(ONE, "hear_once")
    assert example.promise == ONCE
    assert last(example, 2) == ["web loses the answer", "web asks again: hear ok"]
    assert example.steps[-1].after.record.thread == (Entry("caller", 1), Entry("caller", 1))


def test_a_message_acknowledged_early_and_no_index_lose_a_caller() -> None:
    assert without(ONE, "hear_owes").promise == promises.NOT_FORGOTTEN
    example = without(ONE, "hear_owes", only=promises.COMES_BACK)
    end = example.steps[-1].after
    assert end.caller.acknowledged == 1
    assert end.record.owed
    assert end.messages == 0


def test_a_commit_that_forgets_the_index_loses_what_was_said_meanwhile() -> None:
    example = without(TWO, "commit_owes_the_rest")
    assert example.promise == promises.NOT_FORGOTTEN
    assert last(example, 1) == ["a goes on: commit moved"]


def test_a_hand_back_that_forgets_the_index_loses_the_turn() -> None:
    example = without(ONE, "release_owes")
    assert example.promise == promises.NOT_FORGOTTEN
    assert len(example.steps) == 4
    assert example.steps[-1].asked is not None
    assert example.steps[-1].asked.script == "hand_back"


def test_a_reclaim_that_compares_no_beat_takes_from_the_living() -> None:
    example = without(ONE, "reclaim_compares_beats")
    assert example.promise == promises.ALIVE_KEEPS
    assert last(example, 3) == [
        "watchdog guesses wrongly",
        "a beats: beat ok",
        "watchdog asks to reclaim: reclaim ok",
    ]


@pytest.mark.parametrize("rule", ["hand_back_counts", "reclaim_counts"])
def test_where_a_takeover_counts_nothing_a_poisoned_turn_goes_round_for_ever(rule: str) -> None:
    example = without(POISON, rule)
    assert example.promise == promises.NO_LOOP
    worlds = [step.after.record._replace(fence=0, claim=0, beat=0) for step in example.steps]
    assert worlds[-1] in worlds[:-1], "the last step closes the circle"


def test_a_ladder_without_an_end_asks_a_fifth_worker() -> None:
    example = without(POISON, "ladder_ends_at_a_human")
    assert example.promise == promises.HUMAN_AT_LAST
    assert sum(told(step).endswith("claim ok") for step in example.steps) == 5


def test_a_successor_that_ignores_the_draft_says_it_again() -> None:
    example = without(ONE, "successor_reads_draft")
    assert example.promise == SAID_AGAIN
    heard = [step.after.caller.heard for step in example.steps if step.after.caller.heard]
    assert heard[0] == ("1a",)
    assert heard[-1] == ("1b",)


def test_a_complete_call_that_takes_anything_is_not_complete() -> None:
    example = without(ONE, "complete_refuses")
    assert example.promise == promises.FINAL
    assert last(example, 1) == ["caller hangs up: end ok"]


def test_acknowledged_before_it_is_replicated_it_is_lost_with_the_primary() -> None:
    example = without(REPLICATED, "acknowledges_what_is_replicated")
    assert example.promise == promises.NOT_LOST
    assert last(example, 2) == ["web hears", "replica becomes primary"]
    assert example.steps[-1].after.record.heard == 0


def test_a_story_is_readable(capsys: pytest.CaptureFixture[str]) -> None:
    without(ONE, "claim_once")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "broken: a claim that is sent again gets the same lease"
    assert lines[3].startswith("  3. a takes a message: claim → ok (fence 1)")
    assert lines[3].endswith("| in_progress, 0 of 1 answered, fence 1, w1 has it")
    assert lines[-1].startswith("  5. a asks again: claim → held")


def test_every_rule_of_the_product_has_a_mutant() -> None:
    """Here, or beside the search that found the rule missing."""
    tests = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    missing = [
        rule
        for rule in Rules.__slots__
        if f'"{rule}"' not in tests and f"{rule}=False" not in tests
    ]
    assert not missing
