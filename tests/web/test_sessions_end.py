"""A session ends with its socket, whatever it was doing: one that lives on would hear silences."""

from __future__ import annotations

import asyncio
import gc
import threading

import pytest

from callflow.web.relay import SocketSession, cancel_quietly
from tests.exchange import RELAY, Exchange
from tests.relay_socket import relay

pytestmark = pytest.mark.leaves_live_calls


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
    with relay(exchange) as socket:
        socket.setup()
    assert ended.wait(5)
    assert forgot.is_set()


def test_a_mistake_of_ours_on_a_socket_is_not_taken_for_its_end(
    exchange: Exchange, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def speak(_: SocketSession) -> None:
        raise KeyError("a mistake")

    monkeypatch.setattr(SocketSession, "speak", speak)
    exchange.line(called=RELAY).arrives()
    with relay(exchange) as socket:
        socket.setup()
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
