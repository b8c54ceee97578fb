"""A failover takes what the replica did not have: the caller is asked again, or nothing of it was
ever acknowledged. By webhooks and by relay socket, on a real primary and its replica."""

from __future__ import annotations

from functools import partial

import pytest

from callflow.call.history import JournalEntry
from callflow.lab.chaos.chaos_servers import ServerPair
from callflow.responder.phrases import generic
from tests.exchange import HUMANS, RELAY, Answer, Exchange, Line
from tests.parts import SID, Says
from tests.relay_socket import open_socket
from tests.waiting import wait_until

pytestmark = pytest.mark.chaos

SAY_AGAIN = generic("en")["say_again"]


def _answer(exchange: Exchange, *pieces: str) -> Says:
    """A worker answers what is owed, and is gone."""
    responder = Says(pieces or ("Stay inside.",))
    assert exchange.parts.worker(responder).run(SID) == "answered"
    return responder


def _lost(exchange: Exchange) -> list[JournalEntry]:
    return [entry for entry in exchange.parts.journal() if entry.event == "lost"]


def _has_heard(exchange: Exchange, turn: int) -> bool:
    return exchange.parts.record().heard == turn


def _until(line: Line, answer: Answer, verb: str) -> Answer:
    """Follow the redirects to an answer with this verb; the caller always hears something."""
    for _ in range(30):
        if verb in answer.names:
            return answer
        assert answer.says, "the caller was left in silence"
        answer = line.follow(answer, "Redirect")
    raise AssertionError(f"never {verb}")


def test_a_caller_whose_words_were_lost_is_asked_for_them_again(
    pair: ServerPair, failing: Exchange
) -> None:
    line = failing.arrived()
    pair.wait_until_in_step()
    pair.cut_off_replica()
    holding = line.says(1, "we are stuck")
    pair.fail_over()

    again = _until(line, holding, "Gather")
    assert SAY_AGAIN in again.says
    assert again.target("Gather") == ("/voice/turn", {"n": "2"})
    (lost,) = _lost(failing)
    assert (lost.turn, lost.count) == (1, 1)
    _until(line, holding, "Gather")
    assert len(_lost(failing)) == 1, "the same request again is no other loss"

    held = line.follow(again, "Gather", SpeechResult="we are stuck, I said")
    _answer(failing)
    assert _until(line, held, "Gather").says == "Stay inside."
    assert failing.parts.record().said(2, "caller") == "we are stuck, I said"


def test_a_reply_that_was_lost_after_it_was_spoken_is_not_spoken_again(
    pair: ServerPair, failing: Exchange
) -> None:
    line = failing.arrived()
    held = line.says(1, "we are stuck")
    pair.wait_until_in_step()
    pair.cut_off_replica()
    _answer(failing, "First.")
    assert _until(line, held, "Gather").says == "First."
    pair.fail_over()

    held = line.says(2, "and now?")
    (lost,) = _lost(failing)
    assert (lost.write, lost.turn) == ("committed", 1)
    second = _answer(failing, "Second.")
    assert [record.answered for record in second.seen] == [1]
    assert _until(line, held, "Gather").says == "Second."
    assert failing.parts.record().answered == 2


def test_a_call_whose_whole_record_was_lost_is_opened_again_and_goes_on(
    pair: ServerPair, failing: Exchange
) -> None:
    pair.cut_off_replica()
    line = failing.arrived()
    held = line.says(1, "we are stuck")
    _answer(failing, "First.")
    assert _until(line, held, "Gather").says == "First."
    held = line.says(2, "and now?")
    pair.fail_over()

    again = _until(line, held, "Gather")
    assert SAY_AGAIN in again.says
    record = failing.parts.record()
    assert (record.site, record.heard, record.answered, record.lost) == ("tower", 2, 2, 2)
    held = line.follow(again, "Gather", SpeechResult="and now, I said")
    _answer(failing, "Third.")
    assert _until(line, held, "Gather").says == "Third."


def test_words_that_no_replica_has_ride_in_the_address_until_one_has_them(
    pair: ServerPair, careful: Exchange
) -> None:
    line = careful.arrived()
    pair.cut_off_replica()
    held = line.says(1, "we are stuck")
    assert held.target("Redirect")[1]["u"] == "we are stuck"
    held = line.follow(held, "Redirect")
    assert held.target("Redirect")[1]["u"] == "we are stuck"
    # A failover loses them, and nobody minds: they were not acknowledged.
    pair.fail_over()
    pair.follow()
    pair.wait_until_in_step()
    with careful.worker("Stay inside."):
        assert _until(line, held, "Gather").says == "Stay inside."
    record = careful.parts.record()
    assert record.said(1, "caller") == "we are stuck"
    assert (record.heard, record.lost) == (1, 0)


def test_without_replicas_the_caller_is_put_through_to_a_human(
    pair: ServerPair, careful: Exchange
) -> None:
    line = careful.arrived()
    pair.cut_off_replica()
    answer = _until(line, line.says(1, "we are stuck"), "Dial")
    assert answer.verbs[-1][0].text == HUMANS[0]
    remarks = [e.reason for e in careful.parts.journal() if e.event == "remarked"]
    assert remarks == ["unreplicated"]


def test_a_reply_that_no_replica_has_is_not_spoken_and_its_loss_is_heard_by_nobody(
    pair: ServerPair, careful: Exchange
) -> None:
    line = careful.arrived()
    pair.wait_until_in_step()
    held = line.says(1, "we are stuck")
    assert "u" not in held.target("Redirect")[1]
    pair.wait_until_in_step()
    pair.cut_off_replica()
    _answer(careful, "Lost.")
    held = line.follow(held, "Redirect")
    assert "Lost." not in held.says
    assert held.says, "the caller was left in silence"
    pair.fail_over()
    pair.follow()
    pair.wait_until_in_step()
    with careful.worker("Stay inside."):
        careful.parts.watchdog.sweep(
            "test", now_ms=careful.parts.reader.now_ms() + careful.parts.timing.owed_ms
        )
        assert _until(line, held, "Gather").says == "Stay inside."
    assert _lost(careful) == []


def test_the_end_of_a_call_that_no_replica_has_is_asked_for_again(
    pair: ServerPair, careful: Exchange
) -> None:
    line = careful.arrived()
    pair.cut_off_replica()
    assert line.post("/voice/status", CallStatus="completed").status == 503
    pair.follow()
    pair.wait_until_in_step()
    wait_until(
        lambda: line.post("/voice/status", CallStatus="completed").status == 200, "never taken"
    )
    pair.fail_over()
    assert careful.parts.record().outcome == "hung_up"


def test_nobody_is_asked_for_a_turn_that_cannot_be_known(
    pair: ServerPair, failing: Exchange
) -> None:
    line = failing.arrived()
    line.says(1, "we are stuck")
    _answer(failing)
    pair.primary.kill()
    answer = line.post("/voice/join")
    assert answer.target("Redirect")[0] == "/voice/join"
    pair.promote()
    pair.lead_clients()
    answer = _until(line, answer, "Gather")
    assert answer.target("Gather") == ("/voice/turn", {"n": "2"})


def test_a_relay_caller_whose_words_were_lost_is_not_even_asked_again(
    pair: ServerPair, failing: Exchange
) -> None:
    """The session that took them still has them."""
    failing.line(called=RELAY).arrives()
    with open_socket(failing) as socket:
        wait_until(lambda: failing.parts.record().heard == 0, "the call never opened")
        pair.wait_until_in_step()
        pair.cut_off_replica()
        socket.says("we are stuck")
        wait_until(lambda: failing.parts.record().heard == 1, "never heard")
        pair.fail_over()
        wait_until(lambda: failing.parts.record().heard == 1, "never heard again")
        _answer(failing)
        while "Stay inside." not in (said := socket.hears_reply()):
            assert said in generic("en").values(), said
    assert _lost(failing) == []


def test_a_relay_call_whose_whole_record_was_lost_goes_on(
    pair: ServerPair, failing: Exchange
) -> None:
    pair.cut_off_replica()
    failing.line(called=RELAY).arrives()
    with open_socket(failing) as socket:
        for turn, words in ((1, "First."), (2, "Second.")):
            socket.says(f"we are stuck, {turn}")
            wait_until(partial(_has_heard, failing, turn), "never heard")
            _answer(failing, words)
            while words not in socket.hears_reply():
                """Holding phrases."""
        pair.fail_over()
        # Nobody speaks: the session finds out by itself.
        wait_until(
            lambda: (
                failing.parts.reader.find(SID) is not None and failing.parts.record().heard == 2
            ),
            "never opened again",
        )
        assert failing.parts.record().lost == 2
        socket.says("and now?")
        wait_until(lambda: failing.parts.record().heard == 3, "never heard")
        _answer(failing, "Third.")
        while "Third." not in (said := socket.hears_reply()):
            assert said in generic("en").values(), said


def test_a_reply_that_was_lost_after_a_socket_had_sent_it_is_not_sent_again(
    pair: ServerPair, failing: Exchange
) -> None:
    failing.line(called=RELAY).arrives()
    with open_socket(failing) as socket:
        socket.says("we are stuck")
        wait_until(lambda: failing.parts.record().heard == 1, "never heard")
        pair.wait_until_in_step()
        pair.cut_off_replica()
        _answer(failing, "First.")
        while "First." not in socket.hears_reply():
            """Holding phrases."""
        pair.fail_over()
        wait_until(lambda: failing.parts.record().answered == 1, "never let go")
        (lost,) = _lost(failing)
        assert (lost.write, lost.turn) == ("committed", 1)
        socket.says("and now?")
        wait_until(lambda: failing.parts.record().heard == 2, "never heard")
        second = _answer(failing, "Second.")
        assert [record.answered for record in second.seen] == [1]
        while "Second." not in (said := socket.hears_reply()):
            assert "First." not in said


def test_a_relay_socket_sends_no_word_that_no_replica_has(
    pair: ServerPair, careful: Exchange
) -> None:
    careful.line(called=RELAY).arrives()
    with open_socket(careful) as socket:
        socket.says("we are stuck")
        wait_until(lambda: careful.parts.record().heard == 1, "never heard")
        pair.wait_until_in_step()
        pair.cut_off_replica()
        _answer(careful, "Lost. ", "Lost as well.")
        for _ in range(3):
            assert "Lost" not in socket.hears_reply()
        pair.fail_over()
        pair.follow()
        pair.wait_until_in_step()
        _answer(careful, "Stay ", "inside.")
        while "inside." not in (said := socket.hears_reply()):
            assert "Lost" not in said


def test_what_a_relay_caller_says_without_replicas_leaves_by_the_action_address(
    pair: ServerPair, careful: Exchange
) -> None:
    careful.line(called=RELAY).arrives()
    with open_socket(careful) as socket:
        wait_until(lambda: careful.parts.reader.find(SID) is not None, "never opened")
        pair.cut_off_replica()
        socket.says("we are stuck")
        while (frame := socket.hears())["type"] != "end":
            """Holding phrases."""
    assert "we are stuck" in frame["handoffData"]
