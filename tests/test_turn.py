"""One turn, from the wake-up to the reply, and every way in which it may be cut short."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from threading import Event

import pytest

from callflow.call.ladder import fresh
from callflow.call.record import CallRecord, Draft
from callflow.call.state import CallState
from callflow.responder import Piece
from callflow.store.result import Claimed
from callflow.turn import TurnOutcome, UnfinishedReply
from tests.parts import SID, Parts, Says
from tests.waiting import wait_until

HELLO = Says(("Hello. ", "Stay inside."))


@dataclass
class Interrupted:
    """Says one piece, lets something happen, and goes on."""

    happens: Callable[[], object]

    def respond(self, record: CallRecord, stop: Event) -> Iterator[Piece]:
        yield Piece("Hello. ")
        self.happens()
        yield Piece("Stay inside.", last=True)


@dataclass
class Raises:
    """A responder that cannot bear what it is asked."""

    error: BaseException

    def respond(self, record: CallRecord, stop: Event) -> Iterator[Piece]:
        if record.draft is None:
            yield Piece("Hello. ")
        raise self.error


@pytest.fixture
def call(parts: Parts) -> Parts:
    """A caller has said something."""
    parts.intake.open(SID, site="lift 7")
    parts.intake.hear(SID, 1, "stuck between floors")
    return parts


def test_an_owed_utterance_is_answered_and_the_call_is_let_go(call: Parts) -> None:
    assert call.worker(HELLO).run(SID) is TurnOutcome.ANSWERED

    record = call.record()
    assert record.said(1, "agent") == "Hello. Stay inside."
    assert record.call_state is CallState.PENDING
    assert record.assigned_worker is None
    assert record.draft is None
    assert record.scenario_type == "stuck"
    assert call.events() == ["opened", "heard", "claimed", "understood", "drafted", "committed"]


def test_woken_twice_it_answers_once(call: Parts) -> None:
    worker = call.worker(HELLO)

    assert worker.run(SID) is TurnOutcome.ANSWERED
    assert worker.run(SID) is TurnOutcome.IDLE
    assert call.events().count("committed") == 1


def test_a_call_that_another_worker_has_is_left_to_it(call: Parts) -> None:
    second = call.worker(HELLO)
    outcomes: list[TurnOutcome] = []

    first = call.worker(Interrupted(lambda: outcomes.append(second.run(SID))))

    assert first.run(SID) is TurnOutcome.ANSWERED
    assert outcomes == [TurnOutcome.HELD]


def test_a_message_for_a_call_that_nobody_knows_does_nothing(parts: Parts) -> None:
    assert parts.worker(HELLO).run(SID) is TurnOutcome.UNKNOWN


def test_a_hang_up_in_the_middle_of_the_reply_ends_the_turn(call: Parts) -> None:
    worker = call.worker(Interrupted(lambda: call.intake.end(SID, "hung_up")))

    assert worker.run(SID) is TurnOutcome.ENDED
    assert call.record().said(1, "agent") is None


def test_more_said_meanwhile_wakes_the_call_at_once(call: Parts) -> None:
    _, before = call.queued()
    worker = call.worker(Interrupted(lambda: call.intake.hear(SID, 2, "hurry")))

    assert worker.run(SID) is TurnOutcome.ANSWERED
    assert call.queued() == (0, before + 1)
    assert worker.run(SID) is TurnOutcome.ANSWERED
    assert call.record().answered == 2


def test_a_takeover_goes_on_after_what_the_caller_has_heard(call: Parts) -> None:
    claimed = call.store.claim(SID, "dead", "claim-1")
    assert isinstance(claimed, Claimed)
    call.store.save_draft(claimed.lease, 1, "Hello. ")
    call.store.reclaim(SID, claimed.lease.fence, claimed.record.last_heartbeat or 0, "gone")
    responder = Says(("Hello. ", "Stay inside."))

    call.worker(responder).run(SID)

    assert responder.seen[0].draft == Draft(turn=1, text="Hello. ")
    assert call.record().said(1, "agent") == "Hello. Stay inside."


def test_a_takeover_does_not_retrieve_again(call: Parts) -> None:
    with pytest.raises(RuntimeError):
        call.worker(Raises(RuntimeError())).run(SID)
    assert call.engine.asked == 1

    call.worker(HELLO).run(SID)

    assert call.engine.asked == 1
    assert call.record().retrieved_sop_chunks


def test_a_responder_that_fails_gives_the_call_to_another_worker(call: Parts) -> None:
    with pytest.raises(ValueError, match="poison"):
        call.worker(Raises(ValueError("poison"))).run(SID)

    record = call.record()
    assert record.call_state is CallState.INCOMPLETE
    assert (record.attempts, record.assigned_worker) == (1, None)
    assert call.queued()[0] == 1
    assert call.journal()[-1].reason == "ValueError"
    assert call.worker(HELLO).run(SID) is TurnOutcome.ANSWERED


def test_what_failed_is_told_without_what_was_said(call: Parts) -> None:
    with pytest.raises(ValueError, match="secret"):
        call.worker(Raises(ValueError("secret words"))).run(SID)

    assert "secret" not in str([entry.model_dump() for entry in call.journal()])


def test_a_worker_that_is_drained_hands_the_call_back_as_good_as_new(call: Parts) -> None:
    with pytest.raises(SystemExit):
        call.worker(Raises(SystemExit())).run(SID)

    assert call.record().call_state is CallState.INCOMPLETE
    assert call.record().attempts == 0
    assert call.queued()[0] == 1


def test_a_responder_that_ends_without_its_last_piece_is_a_failure(call: Parts) -> None:
    class Trails:
        def respond(self, record: CallRecord, stop: Event) -> Iterator[Piece]:
            yield Piece("Hello… ")

    with pytest.raises(UnfinishedReply, match="Trails"):
        call.worker(Trails()).run(SID)
    assert call.record().attempts == 1


def test_a_worker_that_was_taken_over_writes_nothing_more(call: Parts) -> None:
    def taken_over() -> None:
        record = call.record()
        call.store.reclaim(SID, record.fence, record.last_heartbeat or 0, "silent")
        call.worker(Says(("The other worker's reply.",))).run(SID)

    quiet = call.patient(beat_ms=60_000, stale_ms=600_000)
    assert quiet.worker(Interrupted(taken_over)).run(SID) is TurnOutcome.LOST
    quiet.close()

    assert call.record().said(1, "agent") == "Hello. The other worker's reply."
    assert call.events().count("committed") == 1
    assert "refused" in call.events()


def test_the_heartbeat_stops_a_turn_whose_lease_is_lost(call: Parts) -> None:
    stopped = Event()

    class WaitsForStop:
        def respond(self, record: CallRecord, stop: Event) -> Iterator[Piece]:
            call.store.reclaim(SID, record.fence, 2**53, "silent")
            if stop.wait(10):
                stopped.set()
            yield Piece("Too late.", last=True)

    assert call.worker(WaitsForStop()).run(SID) is TurnOutcome.LOST
    assert stopped.is_set()
    assert call.record().said(1, "agent") is None


def test_a_wedged_turn_is_given_away_at_its_deadline_although_it_beats(call: Parts) -> None:
    unwedge = Event()

    class Wedged:
        def respond(self, record: CallRecord, stop: Event) -> Iterator[Piece]:
            unwedge.wait(30)
            yield Piece("Too late.", last=True)

    hasty = call.patient(turn_ms=300)
    outcomes: list[TurnOutcome] = []
    worker = hasty.worker(Wedged())
    turn = threading.Thread(target=lambda: outcomes.append(worker.run(SID)))
    turn.start()
    wait_until(lambda: call.record().attempts == 1, "the wedged turn was never given away")

    assert call.journal()[-1].reason == "deadline"
    assert call.worker(HELLO).run(SID) is TurnOutcome.ANSWERED
    unwedge.set()
    turn.join()
    hasty.close()
    assert outcomes == [TurnOutcome.LOST]
    assert call.record().said(1, "agent") == "Hello. Stay inside."


def _costs(call: Parts, workers: int) -> None:
    for _ in range(workers):
        with pytest.raises(ValueError, match="poison"):
            call.worker(Raises(ValueError("poison"))).run(SID)


def test_a_turn_that_has_cost_three_workers_is_answered_by_the_plain_script(call: Parts) -> None:
    _costs(call, workers=3)

    script = Says(("Hello. ", "Help is near."))
    assert call.worker(Raises(ValueError("poison")), script).run(SID) is TurnOutcome.ANSWERED

    record = call.record()
    assert record.said(1, "agent") == "Hello. Help is near."
    assert record.needs_human
    assert record.attempts == 0


def test_a_turn_that_kills_the_script_too_ends_at_a_human(call: Parts) -> None:
    _costs(call, workers=3)
    with pytest.raises(ValueError, match="poison"):
        call.worker(HELLO, script=Raises(ValueError("poison"))).run(SID)

    record = call.record()
    assert record.call_state is CallState.PENDING
    assert record.handling == "human"
    assert record.alert == fresh("poison")
    assert record.said(1, "caller") == "stuck between floors"
    assert call.worker(HELLO).run(SID) is TurnOutcome.IDLE


def test_a_transfer_that_was_cut_short_is_made_good_by_whoever_is_woken(call: Parts) -> None:
    """The process that counted the fourth worker died before it could pass the call on."""
    _costs(call, workers=3)
    claimed = call.store.claim(SID, "dead", "claim-4")
    assert isinstance(claimed, Claimed)
    call.store.hand_back(claimed.lease, "test", costs=True)

    assert call.worker(HELLO).run(SID) is TurnOutcome.TRANSFERRED
    assert call.record().handling == "human"


def test_where_a_procedure_fetches_a_person_one_is_rung_before_a_word_is_said(call: Parts) -> None:
    call.engine.fetches = "fire_smoke is P1"
    rung: list[bool] = []

    @dataclass
    class Looks:
        def respond(self, record: CallRecord, stop: Event) -> Iterator[Piece]:
            rung.append(call.record().alert is not None)
            yield Piece("Stay low.", last=True, needs_human=record.fetches_human)

    call.worker(Looks()).run(SID)
    assert rung == [True]
    record = call.record()
    assert record.needs_human == "fire_smoke is P1"
    assert call.events().count("alerted") == 1


def test_a_worker_that_is_told_to_end_begins_no_turn_and_wakes_another(call: Parts) -> None:
    takeovers, turns = call.queued()
    worker = call.worker(HELLO)
    worker.heartbeat.drain.begin()

    assert worker.run(SID) is TurnOutcome.DRAINED
    assert call.queued() == (takeovers + 1, turns)
    assert "claimed" not in call.events()
    assert call.worker(HELLO).run(SID) is TurnOutcome.ANSWERED


def test_a_turn_that_outlasts_its_worker_goes_to_another_and_costs_no_attempt(call: Parts) -> None:
    @dataclass
    class Waits:
        def respond(self, record: CallRecord, stop: Event) -> Iterator[Piece]:
            yield Piece("Hello. ")
            ending.heartbeat.drain.begin()
            assert stop.wait(10)

    ending = call.worker(Waits())
    assert ending.run(SID) is TurnOutcome.LOST

    record = call.record()
    assert record.call_state is CallState.INCOMPLETE
    assert record.attempts == 0
    assert [e.reason for e in call.journal() if e.event == "handed_back"] == ["drained"]
    assert call.queued()[0] == 1
    assert call.worker(HELLO).run(SID) is TurnOutcome.ANSWERED
    assert call.record().said(1, "agent") == "Hello. Stay inside."
