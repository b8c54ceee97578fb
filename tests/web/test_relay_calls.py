"""A call by ConversationRelay: tokens out as they are worded, interruptions, sockets that break."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from threading import Event

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from callflow.call.record import CallRecord
from callflow.messages import wake
from callflow.responder import Piece
from callflow.store.result import Claimed
from tests.exchange import PUBLIC, RELAY, Exchange, Line
from tests.parts import SID
from tests.relay_socket import SOCKET, open_socket, parameters_of, relay
from tests.waiting import wait_until


def test_a_relay_site_is_answered_with_a_socket_and_greeted_once(exchange: Exchange) -> None:
    answer = exchange.line(called=RELAY).arrives()
    assert answer.names == ["Connect"]
    (relay_verb,) = answer.verbs[0]
    assert relay_verb.get("url") == SOCKET
    assert "automated assistant" in (relay_verb.get("welcomeGreeting") or "")
    assert answer.verbs[0].get("action", "").startswith(f"{PUBLIC}/voice/relay-ended")


@pytest.mark.parametrize("token", ["", "another-token"])
def test_a_socket_that_nobody_signed_is_not_opened(
    exchange: Exchange, relay_line: Line, token: str
) -> None:
    with pytest.raises(InvalidStatus), relay(exchange, token=token):
        """Never opened."""


def test_the_caller_is_heard_and_answered(exchange: Exchange, relay_line: Line) -> None:
    with exchange.worker("Stay inside. ", "How many are you?"), open_socket(exchange) as socket:
        socket.says("we are stu", last=False)
        socket.says("we are stuck")
        assert socket.hears_reply() == "Stay inside. How many are you?"
    assert exchange.parts.record().said(1, "caller") == "we are stuck"


def test_a_caller_who_speaks_another_language_is_answered_and_heard_in_it(
    exchange: Exchange, relay_line: Line
) -> None:
    with exchange.worker("Quédese dentro."), open_socket(exchange) as socket:
        socket.says("no hablo inglés estamos encerrados en el ascensor por favor")
        changed = socket.hears()
        assert changed["type"] == "language"
        assert changed["ttsLanguage"] == changed["transcriptionLanguage"] == "es-ES"
        assert socket.hears_reply() == "Quédese dentro."
        socket.says("somos dos y estamos bien los dos")
        assert socket.hears_reply() == "Quédese dentro."


def test_a_socket_that_is_opened_again_goes_on_with_the_call(
    exchange: Exchange, relay_line: Line
) -> None:
    with exchange.worker("Reply."):
        with open_socket(exchange) as socket:
            socket.says("first")
            socket.hears_reply()
        with open_socket(exchange) as socket:
            socket.says("second")
            assert socket.hears_reply() == "Reply."
    record = exchange.parts.record()
    assert [record.said(turn, "caller") for turn in (1, 2)] == ["first", "second"]


def test_words_replayed_on_a_new_socket_are_not_said_twice(
    exchange: Exchange, relay_line: Line
) -> None:
    with open_socket(exchange) as socket:
        socket.says("we are stuck")
        wait_until(lambda: exchange.parts.record().heard == 1, "nothing was heard")
    with exchange.worker("Reply."), open_socket(exchange) as socket:
        socket.says("we are stuck")
        assert socket.hears_reply() == "Reply."
    assert exchange.parts.record().heard == 1


def test_what_was_owed_when_the_socket_broke_is_said_on_the_next(
    exchange: Exchange, relay_line: Line
) -> None:
    with open_socket(exchange) as socket:
        socket.says("we are stuck")
        wait_until(lambda: exchange.parts.record().heard == 1, "nothing was heard")
    back = relay_line.socket_ended()
    (verb,) = back.verbs[0]
    assert "automated" not in (verb.get("welcomeGreeting") or "")
    assert verb.get("welcomeGreeting")
    with (
        exchange.worker("Reply."),
        open_socket(exchange, **parameters_of(back)) as socket,
    ):
        assert socket.hears_reply() == "Reply."


def test_a_reply_that_came_while_the_next_socket_opened_is_said_on_it(
    exchange: Exchange, relay_line: Line
) -> None:
    with open_socket(exchange) as socket:
        socket.says("we are stuck")
        wait_until(lambda: exchange.parts.record().heard == 1, "nothing was heard")
    back = relay_line.socket_ended()
    with exchange.worker("Reply."):
        wait_until(lambda: exchange.parts.record().answered == 1, "nothing was answered")
    with open_socket(exchange, **parameters_of(back)) as socket:
        assert socket.hears_reply() == "Reply."


def test_what_the_caller_cannot_have_heard_when_the_socket_broke_is_said_again(
    exchange: Exchange, relay_line: Line
) -> None:
    reply = "Stay inside. " + "Keep away from the doors and do not force them. " * 10
    with exchange.worker(reply), open_socket(exchange) as socket:
        socket.says("we are stuck")
        assert socket.hears_reply() == reply
    back = relay_line.socket_ended()
    again = back.verbs[0][0].get("welcomeGreeting") or ""
    assert again.startswith("I'm still here with you.")
    assert again.strip().endswith("Keep away from the doors and do not force them.")
    assert len(again) > 200

    never = relay_line.follow(back, "Connect", SessionStatus="failed")
    assert never.verbs[0][0].get("welcomeGreeting") == again


def test_a_reply_that_no_socket_was_sent_is_said_when_the_next_one_opens(
    exchange: Exchange, relay_line: Line
) -> None:
    with open_socket(exchange) as socket:
        socket.says("we are stuck")
        wait_until(lambda: exchange.parts.record().heard == 1, "nothing was heard")
    with exchange.worker("Stay inside."):
        wait_until(lambda: exchange.parts.record().answered == 1, "nothing was answered")
    back = relay_line.socket_ended()
    assert (back.verbs[0][0].get("welcomeGreeting") or "").endswith("Stay inside.")
    twice = relay_line.follow(back, "Connect", SessionStatus="failed")
    thrice = relay_line.follow(twice, "Connect", SessionStatus="failed")
    assert thrice.names == ["Gather", "Redirect"]
    assert thrice.says.endswith("Stay inside.")


def test_an_interruption_is_kept_and_the_rest_is_not_sent(
    exchange: Exchange, relay_line: Line
) -> None:
    speaking, go_on = Event(), Event()

    class Slow:
        def respond(self, record: CallRecord, stop: Event) -> Iterator[Piece]:
            if record.answered == 0:
                yield Piece("Stay inside. ")
                speaking.set()
                go_on.wait(5)
                yield Piece("Keep away from the doors.", last=True)
            else:
                yield Piece("What is it?", last=True)

    turns = exchange.parts.worker(Slow())
    with exchange.worker("unused") as worker, relay(exchange) as socket:
        worker.turns = turns
        socket.setup()
        socket.says("we are stuck")
        first = socket.hears()
        assert (first["token"], first["last"]) == ("Stay inside. ", False)
        assert speaking.wait(5)
        socket.interrupts("Stay")
        socket.says("wait what")
        wait_until(lambda: exchange.parts.record().heard == 2, "the interruption was not heard")
        go_on.set()
        assert socket.hears_reply() == "What is it?"
    thread = exchange.parts.record().conversation_thread
    reply = next(entry for entry in thread if (entry.role, entry.turn) == ("agent", 1))
    assert reply.text == "Stay inside. Keep away from the doors."
    assert reply.heard == "Stay"


def test_the_next_worker_goes_on_after_what_was_sent(exchange: Exchange, relay_line: Line) -> None:
    with open_socket(exchange) as socket:
        socket.says("we are stuck")
        wait_until(lambda: exchange.parts.record().heard == 1, "nothing was heard")
        dead = exchange.parts.store.claim(SID, "dead", "claim-1")
        assert isinstance(dead, Claimed)
        exchange.parts.store.save_draft(dead.lease, 1, "Stay inside. ")
        assert socket.hears()["token"] == "Stay inside. "
        exchange.parts.store.hand_back(dead.lease, "test", costs=True)
        wake(SID, takeover=True)
        with exchange.worker("Stay inside. ", "Help is near."):
            assert socket.hears_reply() == "Help is near."
        assert exchange.parts.store.save_draft(dead.lease, 1, "Stay inside. Late.") == "fenced"


def test_a_reply_goes_on_after_what_the_carrier_has_told_to_be_heard(
    exchange: Exchange, relay_line: Line
) -> None:
    with (
        exchange.worker("Stay inside. ", "How many people? ", "I am here."),
        open_socket(exchange) as socket,
    ):
        socket.says("we are stuck")
        assert socket.hears_reply() == "Stay inside. How many people? I am here."
        socket.send(type="info", name="tokensPlayed", value="Stay inside.")
        socket.send(type="info", name="agentSpeaking", value="on")

        def told() -> bool:
            sent = exchange.parts.record().sent
            return sent is not None and sent.played == len("Stay inside.")

        wait_until(told, "what was heard is not in the record")
    back = relay_line.socket_ended("failed", ErrorCode="64105")
    greeting = back.verbs[0][0].get("welcomeGreeting", "")
    assert greeting.endswith(" How many people? I am here.")
    assert "Stay inside." not in greeting


def test_malformed_frames_are_logged_and_harm_nobody(
    exchange: Exchange, relay_line: Line, caplog: pytest.LogCaptureFixture
) -> None:
    with exchange.worker("Reply."), relay(exchange) as socket:
        socket.connection.send("no json, but a secret")
        socket.setup()
        for bad in ("[]", "null", "{}", '{"type": 5}', '{"type":"prompt"}', "{" * 50):
            socket.connection.send(bad)
        socket.connection.send(b"\x00\xff")
        socket.send(type="from-the-future", x=1)
        socket.send(type="error", description="Invalid message received")
        socket.says("we are stuck")
        assert socket.hears_reply() == "Reply."
    assert "relay socket" in caplog.text
    assert "secret" not in caplog.text


def test_a_caller_who_waits_hears_phrases_and_then_a_human_is_wanted(
    exchange: Exchange, relay_line: Line
) -> None:
    with open_socket(exchange) as socket:
        socket.says("we are stuck")
        phrases = [socket.hears_reply() for _ in range(3)]
        assert len(set(phrases[:2])) == 2
        wait_until(lambda: exchange.parts.record().needs_human == "no_reply", "no human was wanted")


def test_when_a_human_joins_the_socket_ends_and_the_caller_is_put_through(
    exchange: Exchange, relay_line: Line
) -> None:
    with open_socket(exchange) as socket:
        exchange.parts.store.handovers.want(SID, "asked")
        exchange.ringing.accept(SID, "ring", "CAhuman")
        frame = socket.hears()
        assert frame["type"] == "end"
    answer = relay_line.socket_ended(HandoffData=frame["handoffData"])
    assert answer.names == ["Say", "Dial"]


def test_a_caller_who_hangs_up_ends_the_call(
    exchange: Exchange, relay_line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("callflow.web.relay.LOOK_S", 0.2)
    with open_socket(exchange) as socket:
        relay_line.socket_ended(CallStatus="completed")
        assert socket.hears()["type"] == "end"
    assert exchange.parts.record().outcome == "hung_up"


def test_a_socket_that_fails_twice_is_not_tried_a_third_time(
    exchange: Exchange, relay_line: Line
) -> None:
    once = relay_line.socket_ended("failed", ErrorCode="64105")
    assert once.names == ["Connect"]
    twice = relay_line.follow(once, "Connect", SessionStatus="failed", ErrorCode="64105")
    assert twice.names == ["Gather", "Redirect"]


def test_handoff_data_that_is_not_ours_does_no_harm(exchange: Exchange, relay_line: Line) -> None:
    for data in ("", "{", "[]", '"x"', '{"reason":"nonsense"}', "\x00"):
        answer = relay_line.socket_ended(HandoffData=data)
        assert answer.names == ["Connect"], data


def test_a_socket_for_a_call_that_nobody_opened_opens_it(exchange: Exchange) -> None:
    with exchange.worker("Reply."), open_socket(exchange) as socket:
        socket.says("we are stuck")
        assert socket.hears_reply() == "Reply."
    assert exchange.parts.record().site == "mill"


def test_a_socket_for_a_call_that_is_over_is_ended(exchange: Exchange, relay_line: Line) -> None:
    exchange.parts.intake.end(SID, "hung_up")
    with open_socket(exchange) as socket:
        assert socket.hears()["type"] == "end"


def test_a_socket_that_never_says_who_it_is_is_closed(
    exchange: Exchange, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("callflow.web.relay.SETUP_WITHIN_S", 0.1)
    with relay(exchange) as socket, pytest.raises(ConnectionClosed):
        socket.connection.recv(timeout=5)


def test_a_caller_who_says_nothing_is_heard_as_silent(
    exchange: Exchange, relay_line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("callflow.web.relay.SILENCE_S", 0.2)
    monkeypatch.setattr("callflow.web.relay.LOOK_S", 0.1)
    with exchange.worker("Can you hear me?"), open_socket(exchange) as socket:
        assert socket.hears_reply() == "Can you hear me?"
    assert exchange.parts.record().unclear >= 1


def test_what_cannot_be_stored_leaves_by_the_action_address(
    exchange: Exchange, relay_line: Line, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from callflow.errors import StoreUnavailable

    with open_socket(exchange) as socket:

        async def gone(*_: object, **__: object) -> None:
            raise StoreUnavailable("test", "gone")

        with monkeypatch.context() as broken:
            broken.setattr("callflow.web.call_access.CallAccess.record_utterance", gone)
            socket.says("we are stuck")
            frame = socket.hears()
    assert frame["type"] == "end"
    with exchange.worker("Reply."):
        answer = relay_line.socket_ended(HandoffData=frame["handoffData"])
    assert answer.names == ["Connect"]
    (verb,) = answer.verbs[0]
    assert verb.get("welcomeGreeting") == "Reply."
    assert exchange.parts.record().said(1, "caller") == "we are stuck"
