"""Too much of anything: callers too many, frames too fast, calls too long. Nobody is dropped."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed

from callflow.call.limits import LIMIT, OVERLOAD
from callflow.call.utterance import MAX_UTTERANCE_CHARS
from tests.exchange import HUMANS, RELAY, Exchange, Line, open_exchange
from tests.parts import SID, Parts
from tests.relay_socket import Socket, open_socket, relay
from tests.waiting import wait_until

Open = Callable[..., AbstractContextManager[Exchange]]


@pytest.fixture
def opened(parts: Parts, redis_url: str, tmp_path: Path) -> Open:
    """Opens a web process with the given settings."""
    return lambda **settings: open_exchange(parts, redis_url, tmp_path, **settings)


def _sid(number: int) -> str:
    return f"CA{number:032x}"


def test_a_call_too_many_is_put_through_to_its_humans_without_a_worker(opened: Open) -> None:
    with opened(open_calls_most=2) as exchange:
        for number in (1, 2):
            assert "Gather" in exchange.line(_sid(number)).arrives().names
        line = exchange.line(_sid(3))

        answer = line.arrives()
        assert answer.names == ["Say", "Dial"]
        assert answer.verbs[-1][0].text == HUMANS[0]
        assert line.arrives().text.count(HUMANS[0]) == 1, "the same again is the same answer"
        answer = line.follow(answer, "Dial", DialCallStatus="no-answer")
        assert answer.verbs[-1][0].text == HUMANS[1]

        record, events = exchange.parts.record(_sid(3)), exchange.parts.journal(_sid(3))
        assert (record.needs_human, record.alert) == (OVERLOAD, None), "rung by the line, not by us"
        assert [line.reason for line in events if line.event == "put_through"] == [OVERLOAD]
        assert exchange.parts.queued() == (0, 0), "no worker is needed"


def test_a_call_that_no_human_took_comes_to_the_agent(opened: Open) -> None:
    with opened(open_calls_most=1) as exchange:
        exchange.line(_sid(1)).arrives()
        line = exchange.line(_sid(2))
        answer = line.arrives()
        for _ in HUMANS:
            answer = line.follow(answer, "Dial", DialCallStatus="no-answer")
        assert "I'm still here" in answer.says
        with exchange.worker("Stay inside."):
            while "Gather" not in answer.names:
                answer = line.follow(answer, "Redirect")
        assert answer.says == "Stay inside."


def test_the_human_who_is_rung_for_a_call_too_many_hears_why(opened: Open) -> None:
    with opened(open_calls_most=1) as exchange:
        exchange.line(_sid(1)).arrives()
        answer = exchange.line(_sid(2)).arrives()
        whisper = answer.verbs[-1][0].get("url") or ""
        assert f"why={OVERLOAD}" in whisper

        leg = exchange.line(call_sid="CAhuman", called=HUMANS[0])
        leg.calling = "+441632960010"
        assert "more calls than" in leg.post("/voice/human", {"out": 1, "why": OVERLOAD}).says


def test_as_soon_as_a_call_ends_the_next_one_is_greeted(opened: Open) -> None:
    with opened(open_calls_most=1) as exchange:
        exchange.line(_sid(1)).arrives()
        assert "Dial" in exchange.line(_sid(2)).arrives().names
        for number in (1, 2):
            exchange.line(_sid(number)).post("/voice/status", CallStatus="completed")
        assert "Gather" in exchange.line(_sid(3)).arrives().names


def test_who_waits_for_a_worker_hears_two_phrases_and_then_has_a_human_rung(
    exchange: Exchange, line: Line
) -> None:
    line.called = HUMANS[0]  # No site rings for it from the start.
    line.arrives()
    answer = line.says(1, "we are stuck")
    heard = []
    for _ in range(3):
        heard.append(answer.says)
        answer = line.follow(answer, "Redirect")

    assert len(set(heard[:2])) == 2
    assert exchange.parts.record().needs_human == "no_reply"
    told = [(one.event, one.reason) for one in exchange.parts.journal()]
    assert ("alerted", "no_reply") in told
    assert told.count(("unserved", OVERLOAD)) == 1


def test_a_carrier_that_does_not_answer_keeps_no_caller_waiting(opened: Open) -> None:
    mute = socket.create_server(("127.0.0.1", 0), backlog=512)
    url = f"http://127.0.0.1:{mute.getsockname()[1]}"
    with opened(api_url=url) as exchange, ThreadPoolExecutor(24) as callers:

        def waits(number: int) -> float:
            line = exchange.line(_sid(number))
            line.arrives()
            answer = line.says(1, "we are stuck")
            longest = 0.0
            for _ in range(3):
                began = time.monotonic()
                answer = line.follow(answer, "Redirect")
                longest = max(longest, time.monotonic() - began)
                assert answer.says
            return longest

        # An errand takes 4.5 s with such a carrier, and there are more of them than threads.
        longest = max(callers.map(waits, range(24)))
        mute.close()
    assert longest < 4


def test_a_storm_of_one_webhook_is_answered_soon_and_stored_once(
    opened: Open, parts: Parts
) -> None:
    with opened(reply_wait_s=4) as exchange, ThreadPoolExecutor(60) as senders:
        line = exchange.arrived()
        began = time.monotonic()
        answers = [senders.submit(line.says, 1, "we are stuck") for _ in range(120)]
        statuses = {answer.result().status for answer in answers}
        took_s = time.monotonic() - began

    assert statuses == {200}
    # 120 who wait for four seconds, sixty at a time, take eight.
    assert took_s < 7
    assert parts.events().count("heard") == 1
    assert parts.queued() == (0, 1)
    assert len(parts.record().conversation_thread) == 2


def test_a_call_that_is_full_goes_to_a_human_and_says_so(opened: Open) -> None:
    with opened(thread_most_entries=20) as exchange:
        line = exchange.arrived()
        for turn in range(1, 40):
            exchange.parts.store.record_utterance(SID, turn, "and another thing")

        answer = line.says(40, "and one more")

        record = exchange.parts.record()
        assert (record.handling, record.needs_human) == ("human", LIMIT)
        assert answer.says
        assert answer.target("Redirect")[0] == "/voice/wait"
        assert len(record.conversation_thread) == 40


def test_more_letters_than_anybody_says_are_cut_and_the_rest_is_heard(line: Line) -> None:
    line.arrives()
    assert line.says(1, "a" * (MAX_UTTERANCE_CHARS + 500)).status == 200
    assert line.post("/voice/turn", {"n": 2}, SpeechResult="a" * 300_000).status == 413


@pytest.fixture
def strict(opened: Open) -> Iterator[Exchange]:
    """A web process that takes few frames a second, with a relay call."""
    with opened(frames_per_s_most=20) as exchange:
        exchange.line(called=RELAY).arrives()
        yield exchange


def _end_of(socket: Socket) -> dict[str, Any]:
    while True:
        frame = socket.hears()
        if frame["type"] == "end":
            return frame


def test_a_flood_of_frames_ends_at_a_human_and_goes_on_by_webhooks(strict: Exchange) -> None:
    with open_socket(strict) as socket:
        for number in range(60):
            socket.send(type="dtmf", digit=str(number % 10))
        handoff = _end_of(socket)["handoffData"]

    assert json.loads(handoff)["reason"] == LIMIT
    parts = strict.parts
    wait_until(lambda: parts.record().needs_human is not None, "nobody was wanted")
    assert ("flooded", LIMIT) in [(one.event, one.reason) for one in parts.journal()]
    # Keys before the flood count as any; 0 among them has asked for a person.
    assert parts.record().alert is not None
    for turn in range(parts.record().answered + 1, parts.record().heard + 1):
        claimed = parts.store.claim(SID, "w", f"c{turn}")
        parts.store.commit(claimed.lease, turn, "Stay inside.")  # type: ignore[union-attr]

    line = strict.line(called=RELAY)
    answer = line.post("/voice/relay-ended", {"k": 0}, HandoffData=handoff, SessionStatus="ended")
    assert "Gather" in answer.names


def _closed_with(socket: Socket, *frames: dict[str, Any]) -> int:
    """The code with which the other side closes while these are sent, again and again."""
    deadline = time.monotonic() + 20
    try:
        while time.monotonic() < deadline:
            for frame in frames:
                socket.send(**frame)
    except ConnectionClosed as closed:
        return 0 if closed.rcvd is None else closed.rcvd.code
    raise AssertionError("it was never closed")


def test_a_flood_that_goes_on_is_closed_with_a_word_for_it(
    strict: Exchange, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("callflow.web.relay.LINGER_S", 0.2)
    with open_socket(strict) as socket:
        part = {"type": "prompt", "voicePrompt": "x", "lang": "en-GB", "last": False}
        assert _closed_with(socket, part) == 1008


def test_a_flood_before_the_call_is_named_is_closed(strict: Exchange) -> None:
    with relay(strict) as socket:
        assert _closed_with(socket, {"type": "nonsense"}) == 1008


def test_as_many_frames_as_are_allowed_disturb_nobody(strict: Exchange) -> None:
    with relay(strict) as socket, strict.worker("Stay inside."):
        socket.setup()
        for _ in range(18):
            socket.says("we are", last=False)
        socket.says("we are stuck")
        assert socket.hears_reply() == "Stay inside."
