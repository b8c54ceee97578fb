"""What a dispatcher says reaches a caller by webhooks: the next request has it, once."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from callflow.call import ladder
from callflow.call.record import CallStatus
from callflow.errors import StoreUnavailable
from callflow.store.replies import Replies
from callflow.store.staff_actions import StaffActions
from tests.dispatchers import Dispatcher
from tests.exchange import Exchange, WebServer
from tests.parts import SID, Parts

PHRASE = "The engineer is at the door."
REPLY = "Please stay inside and keep away from the doors."

SILENCE_S = 1.5
"""A reply is waited for 0.5 s here, and each question to the store 0.15 s."""


@pytest.fixture
def exchange(parts: Parts, staffed_web: WebServer) -> Iterator[Exchange]:
    with staffed_web.exchange(parts) as running:
        yield running


def said(exchange: Exchange) -> list[tuple[str, str]]:
    return [(one.role, one.text) for one in exchange.parts.record().conversation_thread]


def test_the_next_request_of_the_line_says_it_and_the_one_after_proves_it(
    exchange: Exchange, ana: Dispatcher
) -> None:
    line = exchange.arrived()
    ana.does("say", text=PHRASE, request="p1")
    with exchange.worker(REPLY):
        first = line.says(1, "stuck")
        assert (first.names, first.says) == (["Say", "Redirect"], PHRASE)
        assert first.target("Redirect") == ("/voice/wait", {"n": "1", "k": "0", "p": "p1"})
        again = line.says(1, "stuck")
        assert again.says == PHRASE, "the first answer may have been lost"
        then = line.follow(first, "Redirect")
        assert then.says == REPLY
        assert line.says(2, "yes").says == REPLY
    record = exchange.parts.record()
    assert record.sayings == ()
    assert [one.text for one in record.conversation_thread].count(PHRASE) == 1
    assert exchange.parts.events().count("said") == 1


def test_a_line_that_arrives_elsewhere_says_it_again(exchange: Exchange, ana: Dispatcher) -> None:
    """The answer that had it was lost with its process, and the carrier asks the fallback."""
    line = exchange.arrived()
    ana.does("say", text=PHRASE)
    assert line.says(1, "stuck").says == PHRASE
    fallback = line.post("/voice/fallback", ErrorCode="11200")
    assert fallback.says == PHRASE
    assert line.follow(fallback, "Redirect").names == ["Say", "Redirect"]
    assert exchange.parts.record().sayings == ()


def test_a_reply_that_the_fetched_line_did_not_hear_is_said_after_the_phrase(
    exchange: Exchange, ana: Dispatcher
) -> None:
    line = exchange.arrived()
    with exchange.worker(REPLY):
        line.says(1, "stuck")
    ana.does("say", text=PHRASE)
    joined = line.post("/voice/join", {"told": 0})
    assert joined.says == PHRASE
    onward = line.follow(joined, "Redirect")
    assert onward.target("Redirect") == ("/voice/wait", {"n": "1", "k": "0"})
    assert line.follow(onward, "Redirect").says == REPLY


def test_a_fetched_line_listens_after_the_phrase(exchange: Exchange, ana: Dispatcher) -> None:
    line = exchange.arrived()
    ana.does("say", text=PHRASE)
    joined = line.post("/voice/join", {"told": 0})
    onward = line.follow(joined, "Redirect")
    assert onward.target("Gather") == ("/voice/turn", {"n": "1"})


def test_a_caller_whom_a_human_has_hears_no_phrase(exchange: Exchange, ana: Dispatcher) -> None:
    line = exchange.arrived()
    ana.does("say", text=PHRASE)
    exchange.parts.store.handovers.accept(SID, ladder.accepted(ladder.fresh("asked"), "CAhuman"))
    answer = line.says(1, "hello")
    assert PHRASE not in answer.says
    if "Dial" not in answer.names:  # A phrase came first.
        answer = line.follow(answer, "Redirect")
    assert answer.names == ["Say", "Dial"]
    assert PHRASE not in str(said(exchange))


def test_what_was_heard_and_could_not_be_noted_is_noted_later(
    exchange: Exchange, ana: Dispatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The addresses carry it, as they carry what a caller says in an outage."""
    line = exchange.arrived()
    ana.does("say", text=PHRASE, request="p1")
    answer = line.says(1, "stuck")
    kept = StaffActions.mark_heard
    gone = StoreUnavailable("here", "gone")

    def fails(*_: object, **__: object) -> None:
        raise gone

    monkeypatch.setattr(StaffActions, "mark_heard", fails)
    answer = line.follow(answer, "Redirect")
    monkeypatch.setattr(StaffActions, "mark_heard", kept)
    assert PHRASE not in answer.says
    assert answer.target("Redirect")[1]["p"] == "p1"
    with exchange.worker(REPLY):
        assert PHRASE not in line.follow(answer, "Redirect").says
    assert exchange.parts.record().sayings == ()


def test_a_store_that_is_slow_to_note_it_keeps_no_caller_in_silence(
    exchange: Exchange, ana: Dispatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = exchange.arrived()
    ana.does("say", text=PHRASE, request="p1")
    answer = line.says(1, "stuck")
    kept, free = StaffActions.mark_heard, threading.Event()
    monkeypatch.setattr(StaffActions, "mark_heard", lambda *_, **__: free.wait(5))
    began = time.monotonic()
    answer = line.follow(answer, "Redirect")
    assert time.monotonic() - began < SILENCE_S
    free.set()
    monkeypatch.setattr(StaffActions, "mark_heard", kept)
    assert PHRASE not in answer.says
    assert answer.target("Redirect")[1]["p"] == "p1"


def test_a_store_that_is_slow_to_give_it_keeps_no_caller_in_silence(
    exchange: Exchange, ana: Dispatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = exchange.arrived()
    ana.does("say", text=PHRASE, request="p1")
    kept, free = StaffActions.take_phrases, threading.Event()
    monkeypatch.setattr(StaffActions, "take_phrases", lambda *_, **__: free.wait(5) and ())
    began = time.monotonic()
    answer = line.says(1, "stuck")
    assert time.monotonic() - began < SILENCE_S
    free.set()
    monkeypatch.setattr(StaffActions, "take_phrases", kept)
    spoken = [answer.says]
    while PHRASE not in spoken[-1] and len(spoken) < 4:
        answer = line.follow(answer, "Redirect")
        spoken.append(answer.says)
    assert PHRASE in spoken[-1]


def test_a_turn_for_which_no_phrase_waits_asks_nothing_more_of_the_store(
    exchange: Exchange, ana: Dispatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    kept = Replies.status

    async def counted(self: Replies, call_sid: str) -> CallStatus:
        asked.append(call_sid)
        return await kept(self, call_sid)

    line = exchange.arrived()
    monkeypatch.setattr(Replies, "status", counted)
    with exchange.worker(REPLY):
        assert line.says(1, "stuck").says == REPLY
        assert asked == []
        ana.does("say", text=PHRASE)
        assert PHRASE in line.says(2, "hello").says
        assert asked
