"""The main promise, with real processes: a worker dies in a turn, the call goes on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from callflow.call.state import CallState
from tests.parts import SID
from tests.stack_parts import Running, running
from tests.waiting import wait_until


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Two workers that speak slowly enough to be struck in the middle of a sentence."""
    with running(tmp_path_factory.mktemp("logs"), pace_s="0.6") as started:
        yield started


@pytest.mark.slow
def test_the_caller_hears_a_short_pause_and_never_a_restart(stack: Running) -> None:
    stack.caller_says(SID, 1, "we are stuck between two floors and the doors won't open")
    wait_until(lambda: stack.parts.record(SID).draft is not None, "nothing was ever said")
    before = stack.being_answered(SID)
    victim = stack.process_of(before)

    struck_ms = stack.parts.reader.now_ms()
    victim.kill()
    reply = stack.reply(SID, 1)
    stack.stack.start_worker(victim.name, slots=stack.slots)

    assert before.draft is not None
    assert reply.text.startswith(before.draft.text), "what was heard was unsaid"
    assert reply.text.count(before.draft.text) == 1, "what was heard was said again"
    after = stack.parts.record(SID)
    assert after.fence == before.fence + 1
    assert after.scenario_type == before.scenario_type
    events = stack.parts.events(SID)
    assert events.count("understood") == 1
    assert events.count("committed") == 1
    # By presence, and not by the 10 s after which silence alone would be enough.
    assert stack.seconds_to_next_claim(SID, struck_ms) < 5
    stack.wait_for_workers(2 * stack.slots)


@pytest.mark.stack
def test_the_conversation_goes_on_where_it_was(stack: Running) -> None:
    sid = "CA00000000000000000000000000000002"
    stack.caller_says(sid, 1, "the lift has stopped and we can't get out")
    first = stack.reply(sid, 1).text
    stack.caller_says(sid, 2, "no nobody is hurt")
    victim = stack.process_of(stack.being_answered(sid, after_fence=1))

    victim.kill()
    second = stack.reply(sid, 2).text
    stack.stack.start_worker(victim.name, slots=stack.slots)

    assert second
    assert second != first
    thread = stack.parts.record(sid).conversation_thread
    assert [(entry.role, entry.turn) for entry in thread] == [
        ("caller", 1),
        ("agent", 1),
        ("caller", 2),
        ("agent", 2),
    ]
    stack.wait_for_workers(2 * stack.slots)


@pytest.mark.stack
def test_who_hangs_up_is_let_go_and_the_worker_stops(stack: Running) -> None:
    sid = "CA00000000000000000000000000000003"
    stack.caller_says(sid, 1, "sorry wrong button")
    stack.being_answered(sid)

    stack.parts.intake.end(sid, "hung_up")

    assert stack.reply(sid, 1).over
    record = stack.parts.record(sid)
    assert record.call_state is CallState.COMPLETE
    assert record.assigned_worker is None


@pytest.mark.stack
def test_ten_callers_at_once_are_each_answered_once(stack: Running) -> None:
    sids = [f"CA1000000000000000000000000000000{number}" for number in range(10)]
    for sid in sids:
        stack.caller_says(sid, 1, "hello is anybody there")
    for sid in sids:
        assert stack.reply(sid, 1).done
        assert stack.parts.events(sid).count("committed") == 1
