"""What the callers of a run say: told apart by codes, and without bearing on anything else."""

from __future__ import annotations

from typing import Any, cast

import pytest

from callflow import bootstrap
from callflow.call.record import CallRecord, ThreadEntry
from callflow.call.urgency import AHEAD, LAST
from callflow.lab.carrier.carrier import Carrier
from callflow.lab.carrier.simulated_people import Behaviour
from callflow.lab.chaos.chaos_plan import Plan
from callflow.lab.chaos.simulated_callers import CODE_WORDS, LIFTS, POISON, CallGenerator
from callflow.responder.synthetic import code_of
from callflow.understand import Understanding


class Exchange:
    """In place of a carrier: remembers who called."""

    def __init__(self) -> None:
        self.called: list[tuple[Behaviour, str]] = []

    def place(self, person: Behaviour, *, to: str) -> Any:
        self.called.append((person, to))


def generate(count: int, **plan: Any) -> tuple[CallGenerator, Exchange]:
    exchange = Exchange()
    placing = CallGenerator(Plan(**plan), cast(Carrier, exchange))
    for _ in range(count):
        placing.place()
    return placing, exchange


def lines(exchange: Exchange) -> list[str]:
    return [line for person, _ in exchange.called for line in person.lines]


def test_no_utterance_of_a_run_has_the_code_of_another() -> None:
    said = lines(generate(2_000, seed=4)[1])

    assert len({code_of(line) for line in said}) == len(said) > 4_000


def test_a_code_says_nothing_but_itself() -> None:
    for line in lines(generate(50, seed=4)[1]):
        assert set(code_of(line).split()) <= set(CODE_WORDS)


def test_the_same_seed_gives_the_same_callers() -> None:
    assert generate(20, seed=4)[1].called == generate(20, seed=4)[1].called
    assert generate(20, seed=4)[1].called != generate(20, seed=5)[1].called


def test_both_kinds_of_lines_are_called() -> None:
    assert {to for _, to in generate(20, seed=4)[1].called} == set(LIFTS["en"].values())
    assert {to for _, to in generate(20, relay_share=1.0)[1].called} == {LIFTS["en"]["relay"]}
    assert {to for _, to in generate(20, relay_share=0.0)[1].called} == {LIFTS["en"]["gather"]}


def test_a_poisoned_caller_has_one_deadly_utterance_that_is_not_the_first() -> None:
    placing, exchange = generate(0)
    for _ in range(20):
        placing.place(poison=True)

    for person, _ in exchange.called:
        assert [POISON in line for line in person.lines].index(True) == 1
        assert sum(POISON in line for line in person.lines) == 1
    assert all(placed.poison for placed in placing.placed)


@pytest.mark.parametrize("poison", [False, True], ids=["plain", "poison"])
def test_what_is_said_fetches_nobody_and_is_as_urgent_as_anything_else(poison: bool) -> None:
    placing, exchange = generate(0, seed=2)
    understanding = Understanding(bootstrap.procedures().current)
    for _ in range(60):
        placing.place(poison=poison)
    for person, _ in exchange.called:
        record = OPENED
        for turn, line in enumerate(person.lines, 1):
            said = ThreadEntry(role="caller", turn=turn, text=line, at=turn)
            thread = (*record.conversation_thread, said)
            record = record.model_copy(
                update={"conversation_thread": thread, "heard": turn, "answered": turn - 1}
            )
            record = understanding.analyse(record).applied_to(record)
            assert record.needs_human is None, line
            assert record.urgency not in AHEAD | LAST, line


OPENED = CallRecord.model_validate(
    {
        "call_sid": "CA1",
        "call_state": "in_progress",
        "conversation_thread": [],
        "assigned_worker": "w1@here/1-a",
        "last_heartbeat": 1,
        "created_at": 1,
        "updated_at": 1,
        "fence": 1,
        "heard": 0,
        "answered": 0,
        "attempts": 0,
    }
)
