"""The table of the four states: complete, narrow, and the same for people and for scripts."""

from __future__ import annotations

from callflow.call.limits import Escalation, Timing, escalation
from callflow.call.state import LEASED, MOVES, OPENED, CallState, Event, Refusal, after, moves_row


def test_the_table_says_something_about_every_event_in_every_state() -> None:
    assert set(MOVES) == set(Event)
    for row in MOVES.values():
        assert set(row) == set(CallState)


def test_the_states_are_the_customers_words() -> None:
    assert [str(state) for state in CallState] == [
        "pending",
        "in_progress",
        "incomplete",
        "complete",
    ]


def test_nothing_leaves_the_end() -> None:
    assert {after(event, CallState.COMPLETE) for event in Event} == {Refusal.ENDED}


def test_only_a_held_call_is_written_by_a_worker_and_it_is_given_to_nobody_else() -> None:
    for event in (Event.BEAT, Event.DRAFT, Event.COMMIT, Event.HAND_BACK, Event.RECLAIM):
        for state in set(CallState) - LEASED:
            assert isinstance(after(event, state), Refusal), (event, state)
    assert after(Event.CLAIM, CallState.IN_PROGRESS) is Refusal.HELD


def test_a_call_can_end_and_pass_to_a_human_or_lose_its_turn_in_any_state() -> None:
    for state in set(CallState) - {CallState.COMPLETE}:
        assert after(Event.END, state) is CallState.COMPLETE
        # No worker holds it then.
        for event in (Event.TRANSFER, Event.HEAR_AFTER_LOSS):
            assert after(event, state) is CallState.PENDING


def test_every_state_can_be_reached_from_the_first() -> None:
    reached = {OPENED}
    for _ in CallState:
        reached |= {
            then
            for row in MOVES.values()
            for now, then in row.items()
            if now in reached and isinstance(then, CallState)
        }
    assert reached == set(CallState)


def test_the_scripts_read_the_same_table() -> None:
    for event in Event:
        words = moves_row(event).split()
        assert len(words) == len(CallState)
        for state, then in MOVES[event].items():
            sign = "!" if isinstance(then, Refusal) else ">"
            assert f'"{state}"{sign}{then}' in words


def test_the_ladder_ends_at_a_human() -> None:
    assert {escalation(attempts) for attempts in range(3)} == {Escalation.RESPONDER}
    assert escalation(3) is Escalation.SCRIPT
    assert {escalation(attempts) for attempts in range(4, 12)} == {Escalation.HUMAN}


def test_a_worker_stops_believing_before_others_may_take_its_call() -> None:
    timing = Timing(250, 10_000, 2_500, 8_000, 60_000, 60_000)
    assert timing.trusted_ms < timing.stale_ms
    assert timing.beat_ms < timing.overdue_ms < timing.stale_ms
