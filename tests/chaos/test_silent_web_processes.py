"""A web process that falls silent keeps no caller waiting: another one goes on with its calls."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial

import pytest

from callflow.lab.carrier.carrier_call import Call
from callflow.lab.chaos.audio_checks import compare_with_record
from callflow.lab.chaos.environment import WebProcesses
from callflow.lab.chaos.network_proxy import Endpoint
from tests.chaos.test_telephone import GATHER, RELAY, SPEED, Telephone

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(180)]

BEARABLE_S = 4.0


Strike = Callable[[str], AbstractContextManager[None]]


@contextmanager
def _frozen(telephone: Telephone, name: str) -> Iterator[None]:
    pid = telephone.run.stack.processes[name].pid
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def _call_under(telephone: Telephone, strike: Strike, to: str, turns: int, for_s: float) -> None:
    """One process after the other is struck, each for so long, at moments of no choice."""

    async def strike_each(call: Call) -> None:
        while len(call.report.turns) < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        for number, name in enumerate(telephone.web.ports):
            with strike(name):
                await asyncio.sleep(for_s)
            await asyncio.sleep(1.0 + 0.37 * number)

    report = telephone.call(to, turns, meanwhile=strike_each)
    assert not report.failed, report.failures
    assert report.longest_silence_s <= BEARABLE_S
    record = telephone.run.parts.record(report.call_sid)
    assert compare_with_record(report, record, slack=0.1 * 15 * SPEED) == []
    agent = [e.turn for e in record.conversation_thread if e.role == "agent"]
    assert agent == sorted(set(agent))
    if to == RELAY:
        assert "line_lost" in telephone.run.parts.events(report.call_sid)


@pytest.mark.parametrize(
    ("for_s", "turns"), [(6.0, 14), pytest.param(20.0, 40, marks=pytest.mark.night)]
)
@pytest.mark.parametrize("to", [GATHER, RELAY])
def test_a_web_process_that_is_frozen_makes_no_silence(
    telephone: Telephone, to: str, for_s: float, turns: int
) -> None:
    _call_under(telephone, partial(_frozen, telephone), to, turns, for_s)


def test_a_web_process_that_the_carrier_cannot_reach_makes_no_silence(
    telephone: Telephone,
) -> None:
    """Its own network to the server is well, so that it beats; but nothing comes through."""
    with ExitStack() as stack:
        ways = {
            name: stack.enter_context(Endpoint.start(port))
            for name, port in telephone.line.ports.items()
        }
        telephone.web = WebProcesses(
            telephone.run.stack, {name: way.port for name, way in ways.items()}
        )

        @contextmanager
        def mute(name: str) -> Iterator[None]:
            ways[name].mute()
            yield
            ways[name].heal()

        _call_under(telephone, mute, RELAY, 14, 8.0)
