"""What a record keeps of humans who are rung, of words that were not heard, and of lost turns."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from callflow.call import ladder
from callflow.call.state import CallState
from callflow.errors import CallEnded, TurnOutOfOrder
from callflow.store.handovers import AlertStep
from callflow.store.keys import call_keys
from callflow.store.result import Claimed, Lease, Result
from tests.parts import SID, Parts


def claimed(parts: Parts, worker: str = "w1") -> Lease:
    found = parts.store.claim(SID, worker, f"claim-{worker}")
    assert isinstance(found, Claimed)
    return found.lease


def due(parts: Parts) -> float | None:
    score = parts.client.zscore(call_keys(SID).shard.rings, SID)
    assert score is None or isinstance(score, float)
    return score


@pytest.fixture
def call(parts: Parts) -> Parts:
    parts.store.open(SID, greeting="This is a machine. Are you inside the lift?")
    return parts


def test_what_opens_a_call_is_the_agents_turn_nought(call: Parts) -> None:
    (opening,) = call.record().conversation_thread
    assert (opening.role, opening.turn) == ("agent", 0)
    assert opening.text == "This is a machine. Are you inside the lift?"


def test_a_call_in_assist_mode_has_a_human_rung_from_its_start(parts: Parts) -> None:
    parts.store.open(SID, alert="assist", now_ms=1_000)
    assert parts.record().alert == ladder.fresh("assist")
    assert parts.record().needs_human is None
    assert due(parts) == 1_000
    parts.store.open(SID, alert="assist", now_ms=2_000)
    assert due(parts) == 1_000


def test_a_due_ring_is_given_to_one_sweep_and_again_when_nobody_took_it(call: Parts) -> None:
    call.store.handovers.want(SID, "asked", now_ms=1_000)
    assert call.leases.look(now_ms=1_000).rings == (SID,)
    assert call.leases.look(now_ms=1_500).rings == ()
    assert call.leases.look(now_ms=3_000).rings == (SID,)


def test_whoever_asks_for_a_human_first_has_one_rung_and_the_others_know(call: Parts) -> None:
    with ThreadPoolExecutor(4) as threads:
        words = list(threads.map(lambda n: call.store.handovers.want(SID, f"reason {n}"), range(8)))
    assert words.count(Result.OK) == 1
    assert words.count(Result.STALE) == 7
    assert call.events().count("alerted") == 1


def test_one_step_of_the_ladder_is_taken_once(call: Parts) -> None:
    call.store.handovers.want(SID, "asked")
    before = ladder.fresh("asked")

    def take(number: int) -> Result:
        step = AlertStep(ladder.ringing(before, f"ring-{number}"), 5_000, "ringing")
        return call.store.handovers.move(SID, before, step)

    with ThreadPoolExecutor(4) as threads:
        words = list(threads.map(take, range(8)))

    assert words.count(Result.OK) == 1
    assert call.events().count("ringing") == 1


def test_a_step_whose_answer_was_lost_is_taken_again_without_harm(call: Parts) -> None:
    call.store.handovers.want(SID, "asked")
    step = AlertStep(ladder.ringing(ladder.fresh("asked"), "r1"), 5_000, "ringing")
    for _ in range(2):
        assert call.store.handovers.move(SID, ladder.fresh("asked"), step) is Result.OK
    assert call.events().count("ringing") == 1


def test_nobody_is_rung_for_a_call_that_is_over(call: Parts) -> None:
    call.store.handovers.want(SID, "asked")
    call.store.end(SID, "hung_up")
    assert due(call) is None
    step = AlertStep(ladder.ringing(ladder.fresh("asked"), "r1"), 5_000, "ringing")
    assert call.store.handovers.move(SID, ladder.fresh("asked"), step) is Result.ENDED
    assert due(call) is None
    assert call.store.handovers.want("CAunknown", "asked") is Result.UNKNOWN


@pytest.mark.parametrize("rungs", [1, 2, 3])
def test_the_ladder_goes_round_and_round(rungs: int) -> None:
    alert = ladder.fresh("asked")
    seen = []
    for _ in range(2 * rungs):
        seen.append((alert.round, alert.contact_index))
        alert = ladder.missed(ladder.ringing(alert, "r"), rungs)
    assert seen == [(turn, rung) for turn in (1, 2) for rung in range(rungs)]


def test_two_turns_in_a_row_that_nobody_understood_fetch_a_human(call: Parts) -> None:
    assert not call.store.record_utterance(SID, 1, "mmf", understood=False).alerted
    assert call.store.record_utterance(SID, 2, "", understood=False).alerted
    assert call.record().needs_human == "not_understood"
    assert call.record().alert == ladder.fresh("not_understood")


def test_a_turn_that_was_understood_between_them_forgives_the_first(call: Parts) -> None:
    call.store.record_utterance(SID, 1, "mmf", understood=False)
    call.store.record_utterance(SID, 2, "we are stuck")
    assert not call.store.record_utterance(SID, 3, "mmf", understood=False).alerted
    assert call.record().alert is None


def test_a_repeated_webhook_does_not_count_as_a_second_one(call: Parts) -> None:
    for _ in range(3):
        call.store.record_utterance(SID, 1, "mmf", understood=False)
    assert call.record().unclear == 1


def test_a_pressed_key_is_kept_with_the_turn_and_fetches_who_was_asked_for(call: Parts) -> None:
    assert call.store.record_utterance(SID, 1, "", digits="0", wants_human="pressed_0").alerted
    entry = call.record().conversation_thread[-1]
    assert (entry.text, entry.digits) == ("", "0")
    assert call.record().needs_human == "pressed_0"


def test_a_reply_that_needs_a_human_has_one_rung_in_the_same_write(call: Parts) -> None:
    call.store.record_utterance(SID, 1, "there is smoke")
    committed = call.store.commit(claimed(call), 1, "Stay low.", needs_human="fire is P1")
    assert committed.alerted
    assert call.record().alert == ladder.fresh("fire is P1")


def test_a_human_who_takes_a_call_takes_it_from_the_worker(call: Parts) -> None:
    call.store.record_utterance(SID, 1, "help")
    lease = claimed(call)
    taken = ladder.accepted(ladder.fresh("assist"), "CAhuman")

    assert call.store.handovers.accept(SID, taken) is Result.OK

    assert call.store.commit(lease, 1, "Too late.").result is Result.FENCED
    record = call.record()
    assert (record.call_state, record.handling, record.owed) == (CallState.PENDING, "human", False)
    assert record.alert == taken
    assert due(call) is None
    assert call.store.claim(SID, "w2", "claim-2") == "idle"


def test_a_second_human_joins_the_first(call: Parts) -> None:
    call.store.handovers.accept(SID, ladder.accepted(ladder.fresh("assist"), "CAone"))
    word = call.store.handovers.accept(SID, ladder.accepted(ladder.fresh("assist"), "CAtwo"))
    assert word is Result.AGAIN


def test_what_is_said_while_a_human_is_there_is_kept_and_owed_by_nobody(call: Parts) -> None:
    call.store.handovers.accept(SID, ladder.accepted(ladder.fresh("assist"), "CAhuman"))
    heard = call.store.record_utterance(SID, 1, "thank you")
    assert not heard.wake
    assert not call.record().owed
    assert call.record().said(1, "caller") == "thank you"


def test_when_the_human_has_left_the_agent_answers_again(call: Parts) -> None:
    call.store.handovers.accept(SID, ladder.accepted(ladder.fresh("assist"), "CAhuman"))
    assert call.store.handovers.resume(SID, "left", over=True) is Result.OK
    assert call.store.handovers.resume(SID, "left", over=True) is Result.AGAIN
    assert call.record().alert is None

    assert call.store.record_utterance(SID, 1, "hello?").wake
    assert call.store.handovers.want(SID, "asked") is Result.OK


def test_a_ladder_that_goes_on_is_not_forgotten_when_the_agent_takes_over(call: Parts) -> None:
    call.store.handovers.transfer(SID, "poison")
    call.store.handovers.resume(SID, "nobody has picked up", over=False)
    assert call.record().handling == "agent"
    assert call.record().alert == ladder.fresh("poison")
    assert due(call) is not None


def test_turns_that_a_failover_took_are_journaled_and_the_call_goes_on(call: Parts) -> None:
    call.store.record_utterance(SID, 1, "stuck")
    with pytest.raises(TurnOutOfOrder):
        call.store.record_utterance(SID, 4, "hello")

    assert call.store.record_utterance(SID, 4, "hello", after_loss=True).wake

    record = call.record()
    assert (record.heard, record.answered, record.lost) == (4, 3, 2)
    (line,) = [line for line in call.journal() if line.event == "lost"]
    assert (line.turn, line.count) == (3, 2)
    call.store.commit(claimed(call), 4, "I am here.")
    assert not call.record().owed


def test_a_worker_on_a_turn_older_than_the_loss_is_let_go(call: Parts) -> None:
    call.store.record_utterance(SID, 1, "stuck")
    old = claimed(call)
    call.store.record_utterance(SID, 4, "hello", after_loss=True)

    assert call.store.commit(old, 1, "Too late.").result is Result.FENCED
    new = claimed(call, "w2")
    assert new.fence > old.fence
    assert call.store.commit(new, 4, "I am here.").result is Result.OK


def test_nothing_is_lost_that_was_not_said(call: Parts) -> None:
    call.store.record_utterance(SID, 1, "stuck", after_loss=True)
    call.store.record_utterance(SID, 2, "still stuck", after_loss=True)
    assert call.record().lost == 0
    assert "lost" not in call.events()


def test_an_interrupted_reply_is_kept_whole_with_what_was_heard_of_it(call: Parts) -> None:
    call.store.record_utterance(SID, 1, "stuck")
    call.store.commit(claimed(call), 1, "Stay inside. Keep away from the doors.")

    assert call.store.playback.interrupt(SID, 1, 'Stay "in') is Result.OK
    assert call.store.playback.interrupt(SID, 1, "Stay") is Result.AGAIN

    reply = call.record().conversation_thread[-1]
    assert reply.text == "Stay inside. Keep away from the doors."
    assert reply.heard == reply.reached == 'Stay "in'


def test_the_opening_words_can_be_interrupted_too(call: Parts) -> None:
    assert call.store.playback.interrupt(SID, 0, "This is") is Result.OK
    assert call.record().conversation_thread[0].heard == "This is"


def test_a_reply_interrupted_before_it_was_whole_is_committed_with_what_was_heard(
    call: Parts,
) -> None:
    call.store.record_utterance(SID, 1, "stuck")
    lease = claimed(call)
    call.store.save_draft(lease, 1, "Stay inside. ")
    for _ in range(2):
        call.store.playback.interrupt(SID, 1, "Stay")
    assert call.record().cut is not None

    call.store.commit(lease, 1, "Stay inside. Help is near.")

    record = call.record()
    reply = record.conversation_thread[-1]
    assert (reply.text, reply.heard) == ("Stay inside. Help is near.", "Stay")
    assert record.cut is None
    assert call.events().count("interrupted") == 1


def test_what_was_cut_off_one_reply_is_not_cut_off_the_next(call: Parts) -> None:
    call.store.record_utterance(SID, 1, "stuck")
    call.store.record_utterance(SID, 2, "hello")
    call.store.playback.interrupt(SID, 2, "")
    call.store.commit(claimed(call), 1, "One.")
    assert call.record().conversation_thread[-1].heard is None


def test_a_reply_that_does_not_exist_cannot_be_interrupted(call: Parts) -> None:
    call.store.record_utterance(SID, 1, "stuck")
    call.store.commit(claimed(call), 1, "One.")
    call.client.delete(call_keys(SID).thread)
    assert call.store.playback.interrupt(SID, 1, "O") is Result.UNKNOWN
    assert call.store.playback.interrupt("CAunknown", 1, "O") is Result.UNKNOWN


def test_an_ended_call_is_neither_interrupted_nor_passed_on(call: Parts) -> None:
    call.store.end(SID, "hung_up")
    assert call.store.playback.interrupt(SID, 0, "This") is Result.ENDED
    assert call.store.handovers.transfer(SID, "asked") is Result.ENDED
    assert call.store.handovers.resume(SID, "left", over=True) is Result.ENDED
    with pytest.raises(CallEnded):
        call.store.record_utterance(SID, 1, "hello", after_loss=True)


def test_a_remark_stands_in_the_journal_of_an_open_call_only(call: Parts) -> None:
    call.store.handovers.add_journal_line(SID, "agent_only", "site x says so")
    assert call.events()[-1] == "agent_only"
    call.store.end(SID, "hung_up")
    call.store.handovers.add_journal_line(SID, "agent_only", "site x says so")
    call.store.handovers.add_journal_line("CAunknown", "agent_only", "site x says so")
    assert call.events()[-1] == "ended"


def test_a_call_that_an_older_release_opened_goes_on(call: Parts) -> None:
    call.client.hdel(call_keys(SID).call, "alert", "alert_due", "cut", "unclear", "lost")
    call.store.record_utterance(SID, 1, "stuck", understood=False)
    call.store.commit(claimed(call), 1, "One.")
    call.store.playback.interrupt(SID, 2, "")
    assert call.record().said(1, "agent") == "One."
    assert call.store.handovers.want(SID, "asked") is Result.OK


def test_keys_that_are_no_text_are_stored_as_what_they_can_be(call: Parts) -> None:
    call.store.record_utterance(SID, 1, "", digits="\udcff5")
    assert call.record().conversation_thread[-1].digits == "\ufffd5"
