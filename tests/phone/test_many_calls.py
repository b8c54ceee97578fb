"""Hundreds of calls at once from one process, by webhook and by socket."""

from __future__ import annotations

import asyncio
import time

from starlette.websockets import WebSocket

from callflow.lab.carrier.call_report import CallReport, LoadResult, Silence, SpokenTurn
from callflow.lab.carrier.carrier import load
from callflow.lab.percentiles import Percentiles
from tests.phone.liftline import (
    Asked,
    LiftLine,
    carrier_of,
    gather,
    person,
    prompt,
    relay,
    response,
    speak,
)

CALLS = 200


async def turn(asked: Asked) -> str:
    await asyncio.sleep(0.5)
    return response(gather("Help is coming.", int(asked.query["n"]) + 1))


def test_two_hundred_calls_wait_at_once() -> None:
    async def story() -> LoadResult:
        async with carrier_of(LiftLine({"/voice/turn": turn})) as carrier:
            reports = await load(
                carrier,
                lambda number: person(f"caller {number}", "yes"),
                calls=CALLS,
                rate_per_s=2000,
            )
        return LoadResult.of(reports)

    began = time.monotonic()
    result = asyncio.run(story())
    assert (result.calls, result.turns, result.failed, result.lost) == (CALLS, 2 * CALLS, 0, 0)
    assert result.good
    assert result.answer_ms.p50 is not None
    assert result.answer_ms.p50 >= 500
    # One after the other they would take 200 s.
    assert time.monotonic() - began < 15


def test_two_hundred_sockets_talk_at_once() -> None:
    async def talk(websocket: WebSocket) -> None:
        while True:
            await prompt(websocket)
            await speak(websocket, "Help ", "is ", "coming.")

    async def inbound(asked: Asked) -> str:
        return response(relay(welcomeGreeting="Are you inside?"))

    async def story() -> LoadResult:
        async with carrier_of(LiftLine({"/voice/inbound": inbound}, talk)) as carrier:
            reports = await load(
                carrier, lambda _: person("help", "us"), calls=CALLS, rate_per_s=400
            )
        return LoadResult.of(reports)

    result = asyncio.run(story())
    assert (result.calls, result.turns, result.failed, result.lost) == (CALLS, 2 * CALLS, 0, 0)
    assert result.first_token_ms.p50 is not None
    assert result.ended_by == {"caller": CALLS}


def test_numbers_are_those_that_were_measured() -> None:
    spread = Percentiles.of([0.3, None, 0.1, 0.2])
    assert (spread.p50, spread.p99, spread.max) == (0.2, 0.3, 0.3)
    assert Percentiles.of([]) == Percentiles()
    report = CallReport("CA1", "+44", "+45", "en", 0.0)
    report.turns = [
        SpokenTurn(1, "help", 0.0, accepted=True, answered=True),
        SpokenTurn(2, "hello", 1.0, accepted=True),
        SpokenTurn(3, "bye", 2.0, accepted=True),
    ]
    report.silences = [Silence(0.1, 3.0, "reply", 1, mischief_s=2.5)]
    report.ended_by = "caller"
    result = LoadResult.of([report])
    assert (result.lost, result.silence_s.max) == (1, 0.5)
    assert not result.good
    report.ended_by = "application"
    assert [turn.number for turn in report.lost] == [2, 3]
    assert report.as_dict()["lost"] == [2, 3]
