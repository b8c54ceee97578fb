"""When a phrase of a person counts as heard on a relay socket: when the carrier says so, or when
the socket has lived long enough; and never because time alone has passed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest

from callflow.call.record import CallStatus
from callflow.errors import StoreUnavailable
from callflow.store.staff_actions import StaffActions
from callflow.web.call_access import CallAccess
from callflow.web.executor import StoreExecutor
from callflow.web.operator_messages import SocketMessages
from callflow.web.playback import Playback
from callflow.web.web_context import DUE_S, WebContext
from tests.parts import SID, Parts

PHRASE = "The engineer is at the door."
SOON_S = 0.2
"""So long it takes to say it here."""


class Line:
    """One socket of a call, and what it has said."""

    def __init__(self, parts: Parts, *, tells: bool = False) -> None:
        self.heard: list[str] = []
        self.parts = parts
        self.executor = StoreExecutor("here")
        web = SimpleNamespace(store=parts.store, executor=self.executor)
        web.run_soon = partial(WebContext.run_soon, cast(WebContext, web))
        call = SimpleNamespace(web=web, call_sid=SID)
        self.playback = Playback(len(PHRASE) / SOON_S, tells=tells)
        self.phrases = SocketMessages(cast(CallAccess, call), self.playback, self._send)

    async def _send(self, text: str) -> None:
        self.heard.append(text)

    async def says(self) -> bool:
        return await self.phrases.say(CallStatus.of(self.parts.record()))

    async def played(self, words: str) -> None:
        self.playback.mark_played(words)
        await self.phrases.note_heard_if_possible()

    async def interrupted(self, until: str) -> None:
        await self.phrases.interrupt(until)

    async def breaks(self) -> None:
        self.playback.stop(time.monotonic())
        await self.phrases.note_heard()


@pytest.fixture
def call(parts: Parts) -> Parts:
    parts.store.open(SID)
    parts.store.staff.say(SID, PHRASE, "ana", request="p1")
    return parts


def run(story: Callable[[], Awaitable[None]]) -> None:
    async def told() -> None:
        async with asyncio.timeout(20):
            await story()

    asyncio.run(told())


async def passes(seconds: float) -> None:
    """Time itself is what is tested here."""
    await asyncio.sleep(seconds)


@pytest.mark.parametrize("how", ["played", "interrupted"])
def test_a_phrase_is_noted_as_heard_twice_at_once(
    call: Parts, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    async def story() -> None:
        line = Line(call)
        await line.says()
        await passes(SOON_S)
        kept = StaffActions.mark_heard

        def slow(self: StaffActions, *named: Any, **more: Any) -> None:
            time.sleep(DUE_S / 3)
            kept(self, *named, **more)

        monkeypatch.setattr(StaffActions, "mark_heard", slow)
        once = getattr(line, how)(PHRASE)
        await asyncio.gather(line.phrases.note_heard(), once, line.says())
        assert call.record().sayings == ()
        assert line.heard == [PHRASE]

    run(story)


def test_what_the_carrier_dropped_is_said_again_however_late(call: Parts) -> None:
    async def story() -> None:
        line = Line(call)
        await line.says()
        await line.interrupted("Please")
        await passes(SOON_S + 0.1)
        assert await line.says()
        assert line.heard == [PHRASE, PHRASE]

    run(story)


def test_a_socket_that_broke_before_it_was_spoken_leaves_it_to_a_later_one(call: Parts) -> None:
    async def story() -> None:
        line, later = Line(call), Line(call)
        await line.says()
        await line.breaks()
        await passes(SOON_S + 0.1)
        await line.breaks()  # What is told late is not told as if it had lived on.
        assert await later.says()
        assert later.heard == [PHRASE]

    run(story)


def test_a_process_that_died_over_it_leaves_it_to_a_later_one(call: Parts) -> None:
    async def story() -> None:
        line, later = Line(call), Line(call)
        await line.says()
        await passes(SOON_S + 0.1)
        assert await later.says()

    run(story)


def test_a_socket_that_lived_on_says_that_it_was_heard(call: Parts) -> None:
    async def story() -> None:
        line, later = Line(call), Line(call)
        await line.says()
        assert line.playback.next_phrase_s(3.0, time.monotonic()) <= SOON_S + 0.1
        await passes(SOON_S)
        await line.breaks()
        assert not await later.says()
        assert later.heard == []
        assert line.playback.next_phrase_s(3.0, time.monotonic()) == 3.0

    run(story)


@pytest.mark.parametrize("tells", [False, True])
def test_what_the_carrier_tells_to_have_been_played_is_never_said_again(
    call: Parts, monkeypatch: pytest.MonkeyPatch, tells: bool
) -> None:
    """Also where that cannot be noted before the socket breaks."""

    async def story() -> None:
        line, later = Line(call, tells=tells), Line(call, tells=tells)
        await line.says()

        def gone(*_: object, **__: object) -> None:
            raise StoreUnavailable("here", "gone")

        with monkeypatch.context() as patch:
            patch.setattr(StaffActions, "mark_heard", gone)
            await line.played(PHRASE)
            with pytest.raises(StoreUnavailable):
                await line.breaks()
        await passes(0.3)  # As long as the server is taken for gone.
        await line.breaks()
        assert not await later.says()
        assert later.heard == []

    run(story)


def test_where_the_carrier_tells_time_alone_does_not_say_that_it_was_heard(call: Parts) -> None:
    async def story() -> None:
        line, later = Line(call, tells=True), Line(call, tells=True)
        await line.says()
        await passes(SOON_S + 0.1)
        await line.breaks()
        assert await later.says()

    run(story)


def test_a_store_that_is_slow_to_give_it_keeps_nobody_waiting(
    call: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        line, kept = Line(call), StaffActions.take_phrases

        def slow(self: StaffActions, *named: Any, **more: Any) -> Any:
            given = kept(self, *named, **more)
            time.sleep(1.0)
            return given

        with monkeypatch.context() as patch:
            patch.setattr(StaffActions, "take_phrases", slow)
            began = time.monotonic()
            assert not await line.says()
            assert time.monotonic() - began < 0.6
        assert await line.says(), "it is not given again"
        assert line.heard == [PHRASE]

    run(story)
