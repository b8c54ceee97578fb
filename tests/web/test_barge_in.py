"""Our voice goes on after a noise, and waits for whoever speaks."""

from __future__ import annotations

import pytest

from callflow.responder.phrases import generic
from callflow.web.playback import MOST_S, NO_WORDS_S, WORDS_S, BargeIn
from tests.exchange import Exchange, Line
from tests.relay_socket import Socket, open_socket
from tests.waiting import wait_until

REPLY = "Stay inside. Keep away from the doors. I am here with you."


def test_a_noise_without_words_is_over_soon() -> None:
    heard = BargeIn()
    assert heard.due_in_s(0) is None
    heard.hear_sound(10.0)
    heard.hear_sound(11.0)
    assert heard.due_in_s(11.0) == pytest.approx(NO_WORDS_S - 1.0), (
        "a second noise prolongs nothing"
    )
    heard.go_on()
    assert (heard.due_in_s(12.0), heard.noises) == (None, 1)


def test_guesses_that_do_not_grow_prolong_nothing() -> None:
    heard = BargeIn()
    for second in range(0, 60, 3):
        heard.hear_sound(float(second), "uh " * (second % 2 + 1))
        due = heard.due_in_s(float(second))
        assert due is not None
        assert due <= WORDS_S + 0.001
        if heard.due_in_s(second + WORDS_S) == 0:
            heard.go_on()
    assert heard.noises >= 15


def test_whoever_speaks_on_is_waited_for_but_not_for_ever() -> None:
    heard, now = BargeIn(), 0.0
    for words in range(1, 40):
        heard.hear_sound(now, "we are still stuck in here " * words)
        if heard.due_in_s(now) == 0:
            break
        now += 0.5
    assert MOST_S <= now <= MOST_S + 1


def test_words_end_a_row_of_noises() -> None:
    heard = BargeIn()
    for _ in range(2):
        heard.hear_sound(0.0)
        heard.go_on()
    heard.hear_words()
    assert (heard.noises, heard.due_in_s(0.0)) == (0, None)


def _interrupt(socket: Socket, until: str) -> None:
    socket.send(type="interrupt", utteranceUntilInterrupt=until, durationUntilInterruptMs="400")


def test_a_reply_that_a_noise_has_stopped_goes_on_with_the_sentence_that_broke_off(
    exchange: Exchange, relay_line: Line
) -> None:
    with exchange.worker(REPLY), open_socket(exchange) as socket:
        socket.says("we are stuck")
        assert socket.hears_reply() == REPLY
        _interrupt(socket, "Stay inside. Keep away")
        assert socket.hears_reply() == "Keep away from the doors. I am here with you."
        _interrupt(socket, "Keep away from the doors. I am")
        assert socket.hears_reply() == "I am here with you."
    thread = exchange.parts.record().conversation_thread
    assert [entry.heard for entry in thread if entry.turn == 1 and entry.role == "agent"] == [None]


def test_after_three_noises_a_human_is_rung_and_nothing_stops_our_voice_any_more(
    exchange: Exchange, relay_line: Line
) -> None:
    with exchange.worker(REPLY), open_socket(exchange) as socket:
        socket.says("we are stuck")
        assert socket.hears_reply() == REPLY
        frames = []
        for _ in range(3):
            _interrupt(socket, "Stay")
            frames.append(socket.hears())
    assert [frame["token"] for frame in frames] == [REPLY] * 3
    assert [frame.get("interruptible", True) for frame in frames] == [True, True, False]
    wait_until(
        lambda: exchange.parts.record().needs_human == "not_understood", "no human was asked for"
    )


def test_sounds_while_we_listen_are_asked_about(exchange: Exchange, relay_line: Line) -> None:
    with exchange.worker("Stay inside."), open_socket(exchange) as socket:
        socket.says("we are stuck")
        assert socket.hears_reply() == "Stay inside."
        wait_until(lambda: exchange.parts.record().answered == 1, "it was not answered")
        socket.send(type="prompt", voicePrompt="krrr", last=False)
        assert socket.hears_reply() == generic("en")["say_slower"]
    assert exchange.parts.record().heard == 1
