"""Whole calls, heard at the simulated carrier: what a dispatcher says is heard exactly once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from callflow.lab.carrier.carrier import Carrier
from callflow.lab.carrier.carrier_call import Call
from callflow.lab.carrier.simulated_people import Behaviour
from callflow.web import operator_messages
from tests.dispatchers import Dispatcher, dispatcher, staffed_exchange
from tests.exchange import ACCOUNT, GATHER, PUBLIC, RELAY, TOKEN, Exchange
from tests.parts import SID, Parts
from tests.phone.liftline import FAST
from tests.waiting import wait_until

pytestmark = pytest.mark.chaos  # Silence takes its time at every speed of speech.

PHRASE = "The engineer is at the door."
REPLY = "Please stay inside and keep away from the doors."


@dataclass
class Ear:
    """A caller at the simulated carrier, and who acts meanwhile."""

    exchange: Exchange
    ana: Dispatcher
    call: Call

    def hears(self, text: str) -> int:
        """How often the caller has heard `text` to its end."""
        return sum(one.text.count(text) for one in self.call.report.heard if not one.cut)

    async def until(self, condition: Callable[[], bool], what: str) -> None:
        await asyncio.to_thread(wait_until, condition, what, 20)

    async def says(self, text: str, **fields: str) -> None:
        await asyncio.to_thread(self.ana.does, "say", self.call.call_sid, text=text, **fields)


@asynccontextmanager
async def calling(
    parts: Parts, redis_url: str, folder: Path, number: str, *lines: str, **more: Any
) -> AsyncIterator[Ear]:
    """A caller with these lines, at a carrier that speaks fast, and a worker."""
    settings = {"twilio_account_sid": ACCOUNT, "speech_letters_per_s": 1_000, **more}
    async with Carrier([], PUBLIC, ACCOUNT, TOKEN, speed=FAST, seed=7) as carrier:
        with (
            staffed_exchange(
                parts, redis_url, folder, api_url=carrier.api_url, **settings
            ) as exchange,
            exchange.worker(REPLY),
        ):
            carrier.targets.append(f"http://127.0.0.1:{exchange.port}")
            with dispatcher(exchange, "ana") as ana:
                quiet = Behaviour(lines, think_s=(0.0, 0.01), turns=len(lines), patience_s=20.0)
                call = carrier.place(quiet, to=number, call_sid=SID)
                yield Ear(exchange, ana, call)
                call.hang_up()
                await call.ended()


def run(story: Callable[[], Awaitable[None]]) -> None:
    async def told() -> None:
        async with asyncio.timeout(40):
            await story()

    asyncio.run(told())


@pytest.mark.parametrize("number", [GATHER, RELAY])
def test_a_caller_hears_it_exactly_once(
    parts: Parts, redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: str
) -> None:
    monkeypatch.setattr(operator_messages, "LATE_MS", 200)

    async def story() -> None:
        lines = ("we are stuck", "", "are you there", "", "hello", "")
        async with calling(parts, redis_url, tmp_path, number, *lines) as ear:
            await ear.until(lambda: ear.hears(REPLY) >= 1, "no reply")
            await ear.says(PHRASE, request="p1")
            await ear.says(PHRASE, request="p1")
            await ear.until(lambda: parts.record().sayings == (), "it was never heard")
            turns = parts.record().answered
            await ear.until(lambda: parts.record().answered > turns, "the call does not go on")
            assert ear.hears(PHRASE) == 1
        assert ear.call.report.lost == []
        assert not ear.call.report.failed
        assert ear.hears(PHRASE) == 1

    run(story)


@pytest.mark.parametrize("number", [GATHER, RELAY])
def test_whatever_died_on_the_way_the_caller_hears_it_exactly_once(
    parts: Parts, redis_url: str, tmp_path: Path, number: str
) -> None:
    """Each phrase is left by a web process that was killed somewhere between store and carrier."""
    one, two, three = "The first engineer.", "A second one.", "And the third."

    async def story() -> None:
        lines = ("we are stuck", *("", "are you there") * 5)
        async with calling(parts, redis_url, tmp_path, number, *lines) as ear:
            await ear.until(lambda: ear.hears(REPLY) >= 1, "no reply")
            sayings = parts.store.staff
            sayings.say(SID, one, "ana", request="p1")  # Killed behind the store.
            await ear.until(lambda: parts.record().sayings == (), "the first was not heard")
            sayings.say(SID, two, "ana", request="p2")
            sayings.claim_fetch(SID)  # Killed before it asked the carrier for the line.
            await ear.until(lambda: parts.record().sayings == (), "the second was not heard")
            sayings.say(SID, three, "ana", request="p3")
            sayings.take_phrases(SID, "dead")  # Killed when it had it, before it was sent.
            await ear.until(lambda: parts.record().sayings == (), "the third was not heard")
            for request, text in (("p1", one), ("p2", two), ("p3", three)):
                await ear.says(text, request=request)  # The browser asks again.
            turns = parts.record().answered
            await ear.until(lambda: parts.record().answered > turns, "the call does not go on")
        assert [ear.hears(text) for text in (one, two, three)] == [1, 1, 1]
        spoken = parts.record().conversation_thread
        assert [entry.text for entry in spoken if entry.role == "human"] == [one, two, three]
        assert ear.call.report.lost == []

    run(story)
