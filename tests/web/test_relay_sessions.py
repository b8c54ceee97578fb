"""A relay session ends with its socket and loses no words, whatever its tasks do."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from callflow.call.record import CallStatus, ReplyProgress
from callflow.celery import use_broker
from callflow.errors import StoreUnavailable
from callflow.intake import Intake
from callflow.lab.embedded_server import EmbeddedServer
from callflow.redis.client import connect
from callflow.store.replies import Replies
from callflow.web import line_webhooks
from callflow.web import relay as web_relay
from callflow.web.relay import SocketSession, cancel_quietly
from tests.exchange import RELAY, Exchange, Line, open_exchange
from tests.parts import SID, Parts
from tests.relay_socket import open_socket
from tests.waiting import wait_until

BEARABLE_S = 4.0


def test_words_that_come_while_the_record_cannot_be_read_are_answered(
    exchange: Exchange, relay_line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = Event()

    async def look(self: SocketSession, standing: CallStatus) -> None:
        if not failed.is_set():
            failed.set()
            raise StoreUnavailable("a server", "it is being restarted")

    monkeypatch.setattr(web_relay, "LOOK_S", 0.3)
    monkeypatch.setattr(SocketSession, "_follow_status", look)
    with exchange.worker("Stay inside."), open_socket(exchange) as socket:
        assert failed.wait(5)
        socket.says("we are stuck")
        assert socket.hears_reply() == "Stay inside."


def test_no_silence_is_heard_while_words_are_being_stored(
    exchange: Exchange, relay_line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    storing, go_on, looks = Event(), Event(), []
    hear, look = Intake.hear, SocketSession._follow_status

    def slowly(self: Intake, *args: Any, **kwargs: Any) -> Any:
        storing.set()
        assert go_on.wait(5)
        return hear(self, *args, **kwargs)

    async def looked(self: SocketSession, standing: CallStatus) -> None:
        looks.append(time.monotonic())
        await look(self, standing)

    monkeypatch.setattr(web_relay, "LOOK_S", 0.05)
    monkeypatch.setattr(web_relay, "SILENCE_S", 0.1)
    monkeypatch.setattr(Intake, "hear", slowly)
    monkeypatch.setattr(SocketSession, "_follow_status", looked)
    with exchange.worker("Stay inside."), open_socket(exchange) as socket:
        socket.says("we are stuck")
        assert storing.wait(5)
        began = len(looks)
        wait_until(lambda: len(looks) > began + 4, "it never looked while the words were stored")
        monkeypatch.setattr(web_relay, "SILENCE_S", 60.0)
        go_on.set()
        assert socket.hears_reply() == "Stay inside."
    thread = exchange.parts.record().conversation_thread
    assert [(e.turn, e.text) for e in thread if e.role == "caller"] == [(1, "we are stuck")]


@pytest.fixture
def patient(own_server: EmbeddedServer, tmp_path: Path) -> Iterator[Exchange]:
    """A web process with the patience of a real one, on a server that can be struck."""
    use_broker(own_server.url)
    with connect(own_server.url) as client:
        parts = Parts(client)
        with open_exchange(parts, own_server.url, tmp_path, reply_wait_s=3.5) as running:
            yield running
        if not own_server.alive:
            own_server.restart()
        parts.close()


def test_the_end_of_a_call_waits_for_a_server_that_comes_back(
    patient: Exchange, own_server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = patient.arrived()
    own_server.kill()
    monkeypatch.setattr(line_webhooks, "END_WITHIN_S", 0.3)
    assert line.post("/voice/status", CallStatus="completed").status == 503
    monkeypatch.setattr(line_webhooks, "END_WITHIN_S", 10.0)
    own_server.restart()
    assert line.post("/voice/status", CallStatus="completed").status == 200
    assert patient.parts.record(SID).outcome == "hung_up"


@pytest.mark.chaos
def test_a_server_that_falls_silent_while_a_caller_waits_makes_no_silence(
    patient: Exchange, own_server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each answer comes before four seconds are over: the one that was waited for when the server
    fell silent, those after it, and the one at which a human is to be rung."""
    looked = Event()
    read = Replies.read

    async def noticed(self: Replies, call_sid: str, turn: int) -> ReplyProgress:
        reply = await read(self, call_sid, turn)
        looked.set()
        return reply

    line = patient.arrived()
    answer = line.says(1, "we are stuck")
    assert answer.names == ["Say", "Redirect"]
    monkeypatch.setattr(Replies, "read", noticed)
    took_s: list[float] = []
    try:
        with ThreadPoolExecutor(1) as carrier:
            for _ in range(3):
                began = time.monotonic()
                asked = carrier.submit(line.follow, answer, "Redirect")
                if not took_s:
                    assert looked.wait(3)
                    os.kill(own_server.pid, signal.SIGSTOP)
                answer = asked.result()
                took_s.append(time.monotonic() - began)
                assert answer.says
    finally:
        os.kill(own_server.pid, signal.SIGCONT)
    assert max(took_s) < BEARABLE_S


@pytest.mark.leaves_live_calls
def test_a_session_that_forgets_that_it_was_cancelled_ends_with_its_socket(
    exchange: Exchange, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `asyncio.wait_for` may before Python 3.12."""
    forgot, ended = threading.Event(), threading.Event()

    async def speak(_: SocketSession) -> None:
        try:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                forgot.set()
            await asyncio.Event().wait()
        finally:
            ended.set()

    monkeypatch.setattr(SocketSession, "speak", speak)
    exchange.line(called=RELAY).arrives()
    with open_socket(exchange):
        """It breaks at once."""
    assert ended.wait(5)
    assert forgot.is_set()


@pytest.mark.leaves_live_calls
def test_a_mistake_of_ours_on_a_socket_is_not_taken_for_its_end(
    exchange: Exchange, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def speak(_: SocketSession) -> None:
        raise KeyError("a mistake")

    monkeypatch.setattr(SocketSession, "speak", speak)
    exchange.line(called=RELAY).arrives()
    with open_socket(exchange) as socket:
        with pytest.raises(Exception, match=r"1011|1006|no close frame"):
            socket.hears()
    assert "a mistake" in caplog.text


def test_a_look_that_fails_when_nobody_waits_for_it_any_more_is_no_error_of_ours() -> None:
    """What was cancelled may have had its answer in the same moment."""
    told: list[str] = []

    async def fails() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise KeyError("nobody's matter") from None

    async def story() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: told.append(str(context)))
        looking = asyncio.create_task(fails())
        await asyncio.sleep(0)
        cancel_quietly(looking)
        await asyncio.wait({looking}, timeout=5)
        assert looking.done()
        del looking
        gc.collect()
        await asyncio.sleep(0)

    asyncio.run(story())
    assert told == []
