"""A failover takes what the replica did not have: the caller is asked again, or nothing of it was
ever acknowledged. By relay socket, on a real primary and its replica."""

from __future__ import annotations

from functools import partial

import pytest

from callflow.call.history import JournalEntry
from callflow.responder.phrases import generic
from tests.exchange import RELAY, Exchange
from tests.pairs import Pair
from tests.parts import SID, Says
from tests.relay_socket import relay
from tests.waiting import wait_until

pytestmark = pytest.mark.chaos


def _answer(exchange: Exchange, *pieces: str) -> Says:
    """A worker answers what is owed, and is gone."""
    responder = Says(pieces or ("Stay inside.",))
    assert exchange.parts.worker(responder).run(SID) == "answered"
    return responder


def _lost(exchange: Exchange) -> list[JournalEntry]:
    return [entry for entry in exchange.parts.journal() if entry.event == "lost"]


def _has_heard(exchange: Exchange, turn: int) -> bool:
    return exchange.parts.record().heard == turn


def test_a_relay_caller_whose_words_were_lost_is_not_even_asked_again(
    pair: Pair, failing: Exchange
) -> None:
    """The session that took them still has them."""
    failing.line(called=RELAY).arrives()
    with relay(failing) as socket:
        socket.setup()
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


def test_a_relay_call_whose_whole_record_was_lost_goes_on(pair: Pair, failing: Exchange) -> None:
    pair.cut_off_replica()
    failing.line(called=RELAY).arrives()
    with relay(failing) as socket:
        socket.setup()
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
    pair: Pair, failing: Exchange
) -> None:
    failing.line(called=RELAY).arrives()
    with relay(failing) as socket:
        socket.setup()
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


def test_a_relay_socket_sends_no_word_that_no_replica_has(pair: Pair, careful: Exchange) -> None:
    careful.line(called=RELAY).arrives()
    with relay(careful) as socket:
        socket.setup()
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
    pair: Pair, careful: Exchange
) -> None:
    careful.line(called=RELAY).arrives()
    with relay(careful) as socket:
        socket.setup()
        wait_until(lambda: careful.parts.reader.find(SID) is not None, "never opened")
        pair.cut_off_replica()
        socket.says("we are stuck")
        while (frame := socket.hears())["type"] != "end":
            """Holding phrases."""
    assert "we are stuck" in frame["handoffData"]
