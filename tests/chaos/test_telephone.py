"""Whole calls by real webhooks and sockets, with everything done to them that a network does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from callflow.lab.carrier.call_report import CallReport
from callflow.lab.carrier.carrier import Carrier
from callflow.lab.carrier.carrier_call import Call
from callflow.lab.carrier.network_faults import NetworkFaults
from callflow.lab.carrier.simulated_people import Behaviour, HumanBehaviour
from callflow.lab.chaos.audio_checks import HOLDING_PHRASES, compare_with_record
from callflow.lab.chaos.environment import PhoneSetup, WebProcesses
from callflow.lab.embedded_server import EmbeddedServer
from callflow.responder.phrases import generic
from callflow.twilio.rest import wanted_settings
from tests.stack_parts import Running

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(300)]

GATHER, RELAY = "+441632960010", "+441632960020"

SPEED = 4.0
"""Of relay calls: what was heard when a socket broke is reckoned, and wires do not get faster."""

GATHER_SPEED = 16.0

PHRASES = tuple(generic("en")[name] for name in HOLDING_PHRASES)

LINES = tuple(f"this is what i say for the {n}th time we are still stuck" for n in range(1, 21))

NEVER = HumanBehaviour(answer="never")


class Telephone:
    """A running stack with two web processes, and a carrier."""

    def __init__(self, run: Running, line: PhoneSetup) -> None:
        self.run = run
        self.line = line
        self.web = WebProcesses(run.stack, line.ports)

    @asynccontextmanager
    async def carrier(
        self,
        mischief: NetworkFaults | None = None,
        human: HumanBehaviour = NEVER,
        speed: float = GATHER_SPEED,
    ) -> AsyncIterator[Carrier]:
        number = wanted_settings(self.line.public_url)
        async with Carrier(
            self.web.addresses,
            self.line.public_url,
            self.line.account_sid,
            self.line.auth_token,
            api_port=self.line.api_port,
            speed=speed,
            seed=1,
            network_faults=mischief,
            human=human,
            voice_url=number.voice_url,
            status_url=number.status_callback,
            fallback=number.voice_fallback_url,
        ) as carrier:
            yield carrier

    def behaviour(self, turns: int) -> Behaviour:
        return Behaviour(LINES, turns=turns, think_s=(0.1, 0.3), fillers=PHRASES)

    def call(
        self,
        to: str,
        turns: int,
        mischief: NetworkFaults | None = None,
        meanwhile: Callable[[Call], Awaitable[None]] | None = None,
    ) -> CallReport:
        """One call to its end; `meanwhile` runs beside it."""

        async def live() -> CallReport:
            speed = SPEED if to == RELAY else GATHER_SPEED
            async with self.carrier(mischief, speed=speed) as carrier:
                call = carrier.place(self.behaviour(turns), to=to)
                beside = None if meanwhile is None else asyncio.ensure_future(meanwhile(call))
                report = await call.ended()
                if beside is not None:
                    beside.cancel()
                await carrier.settle()
                return report

        return asyncio.run(live())


def _unharmed(telephone: Telephone, report: CallReport, turns: int) -> None:
    """The same conversation, once: everything said is kept and answered, nothing twice."""
    assert not report.failed, report.failures
    assert [turn.number for turn in report.lost] == []
    record = telephone.run.parts.record(report.call_sid)
    said = [e.text for e in record.conversation_thread if e.role == "caller" and e.text]
    assert said == list(LINES[:turns])
    agent = [e.turn for e in record.conversation_thread if e.role == "agent"]
    assert agent == sorted(set(agent))
    events = telephone.run.parts.events(report.call_sid)
    assert events.count("committed") == record.answered
    assert events.count("opened") == 1
    assert compare_with_record(report, record, slack=0.1 * 15 * SPEED) == []


def test_every_request_repeated_at_random_is_the_same_conversation(telephone: Telephone) -> None:
    report = telephone.call(GATHER, 20, NetworkFaults(repeat=0.5, reorder=0.5, delay=0.2))
    _unharmed(telephone, report, 20)
    assert telephone.run.parts.record(report.call_sid).outcome == "hung_up"


def test_answers_that_are_lost_on_the_way_are_asked_for_again(telephone: Telephone) -> None:
    report = telephone.call(GATHER, 20, NetworkFaults(drop=0.2))
    _unharmed(telephone, report, 20)
    assert report.retries > 0


@pytest.mark.parametrize("to", [GATHER, RELAY])
def test_a_web_process_that_dies_at_every_step_is_heard_by_nobody(
    telephone: Telephone, to: str
) -> None:
    """One process after the other is killed, as soon as the one before answers again: at any moment
    before, between and after its write and its answer."""
    killed = 0

    async def kill_one_after_the_other(call: Call) -> None:
        nonlocal killed
        while True:
            for name in telephone.web.ports:
                while not await telephone.web.all_answer():  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
                await asyncio.to_thread(telephone.web.replace, name)
                killed += 1

    report = telephone.call(to, 20, meanwhile=kill_one_after_the_other)
    assert killed > 3
    _unharmed(telephone, report, 20)
    assert report.longest_silence_s <= 4


@pytest.mark.parametrize("gone_s", [1.0, 5.0, pytest.param(30.0, marks=pytest.mark.night)])
def test_what_is_said_while_the_server_is_gone_is_answered_afterwards(
    telephone: Telephone, gone_s: float
) -> None:
    server = telephone.run.server

    async def outage(call: Call) -> None:
        while len(call.report.turns) < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        await asyncio.to_thread(server.kill)
        await asyncio.sleep(gone_s)
        await asyncio.to_thread(server.restart)

    report = telephone.call(GATHER, 4, meanwhile=outage)
    assert not report.failed, report.failures
    assert [turn.number for turn in report.lost] == []
    assert report.longest_silence_s <= 4
    record = telephone.run.parts.record(report.call_sid)
    said = [e.text for e in record.conversation_thread if e.role == "caller" and e.text]
    assert said[:3] == list(LINES[:3])
    assert isinstance(server, EmbeddedServer)


def test_a_caller_who_asks_for_a_person_speaks_with_one_and_has_the_agent_afterwards(
    telephone: Telephone,
) -> None:
    async def live() -> CallReport:
        human = HumanBehaviour(answer="answers", after_s=0.3, presses="1", talks_s=1.0)
        async with telephone.carrier(human=human) as carrier:
            lines = ("can i talk to a real person", "are you still there")
            behaviour = Behaviour(lines, turns=2, think_s=(0.1, 0.2), fillers=PHRASES)
            return await carrier.call(behaviour, to=GATHER)

    report = asyncio.run(live())
    assert report.with_human
    events = telephone.run.parts.events(report.call_sid)
    assert "accepted" in events
    assert events.index("accepted") < events.index("ended")
