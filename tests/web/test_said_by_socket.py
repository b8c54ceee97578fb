"""What a dispatcher says reaches a caller on a relay socket: at once, and once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed

from callflow.errors import StoreUnavailable
from callflow.store.caller_line import ReplyPlayback
from callflow.store.keys import SAID_CHANNEL
from callflow.store.staff_actions import StaffActions
from tests.dispatchers import Dispatcher
from tests.exchange import RELAY, Exchange, WebServer
from tests.parts import SID, Parts
from tests.relay_socket import Socket, open_socket, relay
from tests.waiting import wait_until

PHRASE = "The engineer is at the door."
REPLY = "Please stay inside and keep away from the doors."


@pytest.fixture
def exchange(parts: Parts, staffed_web: WebServer) -> Iterator[Exchange]:
    with staffed_web.exchange(parts) as running:
        yield running


def said(exchange: Exchange) -> list[tuple[str, str]]:
    return [(one.role, one.text) for one in exchange.parts.record().conversation_thread]


def test_a_socket_says_it_at_once_and_once(exchange: Exchange, ana: Dispatcher) -> None:
    exchange.line(called=RELAY).arrives()
    with relay(exchange) as socket, exchange.worker(REPLY):
        socket.setup()
        socket.says("stuck")
        assert socket.hears_reply() == REPLY
        ana.does("say", text=PHRASE, request="p1")
        ana.does("say", text=PHRASE, request="p1")
        assert socket.hears_reply() == PHRASE
        socket.says("thank you")
        assert socket.hears_reply() == REPLY
    assert said(exchange).count(("human", PHRASE)) == 1


def test_a_phrase_does_not_come_into_the_middle_of_a_reply(
    exchange: Exchange, ana: Dispatcher
) -> None:
    exchange.line(called=RELAY).arrives()
    with open_socket(exchange) as socket:
        socket.says("stuck")
        wait_until(lambda: exchange.parts.record().heard == 1, "it was not heard")
        lease = exchange.parts.store.claim(SID, "w@test/1-aa", "c1").lease  # type: ignore[union-attr]
        exchange.parts.store.save_draft(lease, 1, "Stay ")
        assert socket.hears()["token"] == "Stay "
        ana.does("say", text=PHRASE)
        exchange.parts.store.commit(lease, 1, "Stay inside.")
        assert [socket.hears()["token"] for _ in range(2)] == ["inside.", PHRASE]


def test_while_a_reply_does_not_come_the_phrase_is_said_in_place_of_a_holding_phrase(
    exchange: Exchange, ana: Dispatcher
) -> None:
    exchange.line(called=RELAY).arrives()
    with open_socket(exchange) as socket:
        socket.says("stuck")
        assert "with you" in socket.hears_reply(), "it does not wait for a reply"
        ana.does("say", text=PHRASE)
        assert PHRASE in [socket.hears_reply() for _ in range(3)]
        with exchange.worker(REPLY):
            spoken = [socket.hears_reply()]
            while spoken[-1] != REPLY:
                spoken.append(socket.hears_reply())
    assert PHRASE not in spoken


def test_what_was_sent_and_could_not_be_noted_is_not_sent_again(
    parts: Parts, slow_exchange: Exchange, slow_ana: Dispatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, failed = StaffActions.mark_heard, list[object]()

    def fails_once(self: StaffActions, *named: Any, **more: Any) -> None:
        if not failed:
            failed.append(named)
            raise StoreUnavailable("here", "gone")
        kept(self, *named, **more)

    def noted() -> bool:
        parts.client.publish(SAID_CHANNEL, SID)
        return all(one.until for one in parts.record().sayings)

    monkeypatch.setattr(StaffActions, "mark_heard", fails_once)
    slow_exchange.line(called=RELAY).arrives()
    with relay(slow_exchange) as socket, slow_exchange.worker(REPLY):
        socket.setup()
        slow_ana.does("say", text=PHRASE)
        assert socket.hears_reply() == PHRASE
        wait_until(noted, "it is never noted")
        assert failed
        socket.says("thank you")
        assert socket.hears_reply() == REPLY


@contextmanager
def broken(exchange: Exchange, *, until: Callable[[Socket], None]) -> Iterator[None]:
    """A socket to which something happens, and which then breaks."""
    with suppress(ConnectionClosed), open_socket(exchange) as socket:
        until(socket)
    yield


def test_a_phrase_whose_socket_broke_before_it_was_spoken_is_said_by_the_next(
    parts: Parts, slow_exchange: Exchange, slow_ana: Dispatcher
) -> None:
    slow_exchange.line(called=RELAY).arrives()

    def phrase(socket: Socket) -> None:
        slow_ana.does("say", text=PHRASE)
        assert socket.hears_reply() == PHRASE

    with broken(slow_exchange, until=phrase), open_socket(slow_exchange) as socket:
        assert socket.hears_reply() == PHRASE
        socket.send(type="info", name="tokensPlayed", value=PHRASE)
        wait_until(lambda: parts.record().sayings == (), "it is not known to have been heard")
    assert said(slow_exchange).count(("human", PHRASE)) == 1


def test_a_phrase_that_was_spoken_is_not_said_by_the_next_socket(
    exchange: Exchange, ana: Dispatcher
) -> None:
    exchange.line(called=RELAY).arrives()

    def phrase(socket: Socket) -> None:
        ana.does("say", text=PHRASE)
        assert socket.hears_reply() == PHRASE
        wait_until(lambda: exchange.parts.record().sayings == (), "it is not noted as heard", 2)

    with broken(exchange, until=phrase), exchange.worker(REPLY):
        with open_socket(exchange) as socket:
            socket.says("hello")
            assert socket.hears_reply() == REPLY


def test_a_phrase_that_was_dropped_when_the_caller_spoke_into_the_reply_is_said_after_it(
    slow_exchange: Exchange, slow_ana: Dispatcher
) -> None:
    """The carrier drops all that it has not begun to say."""
    with slow_exchange.worker(REPLY):
        slow_exchange.line(called=RELAY).arrives()
        with open_socket(slow_exchange) as socket:
            socket.says("stuck")
            assert socket.hears_reply() == REPLY
            slow_ana.does("say", text=PHRASE)
            assert socket.hears_reply() == PHRASE
            socket.interrupts("Please")
            socket.says("what")
            assert sorted((socket.hears_reply(), socket.hears_reply())) == sorted((REPLY, PHRASE))


def test_a_caller_who_speaks_into_it_does_not_hear_it_again(
    parts: Parts, slow_exchange: Exchange, slow_ana: Dispatcher
) -> None:
    slow_exchange.line(called=RELAY).arrives()
    with open_socket(slow_exchange) as socket:
        slow_ana.does("say", text=PHRASE)
        assert socket.hears_reply() == PHRASE
        socket.interrupts("The")
        with slow_exchange.worker(REPLY):
            for said_by_caller in ("what", "i see"):
                socket.says(said_by_caller)
                assert socket.hears_reply() == REPLY
        assert parts.record().sayings == ()


@pytest.mark.parametrize("slow", ["interrupt", "save_played", "mark_heard"])
def test_a_store_that_is_slow_to_note_what_was_heard_keeps_no_words_waiting(
    slow_exchange: Exchange, slow_ana: Dispatcher, monkeypatch: pytest.MonkeyPatch, slow: str
) -> None:
    free = threading.Event()
    with slow_exchange.worker(REPLY):
        slow_exchange.line(called=RELAY).arrives()
        with open_socket(slow_exchange) as socket:
            socket.says("stuck")
            assert socket.hears_reply() == REPLY
            slow_ana.does("say", text=PHRASE)
            assert socket.hears_reply() == PHRASE
            owner = StaffActions if slow == "mark_heard" else ReplyPlayback
            monkeypatch.setattr(owner, slow, lambda *_, **__: free.wait(5))
            began = time.monotonic()
            for words in (REPLY, PHRASE):
                socket.send(type="info", name="tokensPlayed", value=words)
            socket.interrupts("Please")
            socket.says("what")
            assert socket.hears_reply() == REPLY
            assert time.monotonic() - began < 2.5
            free.set()
