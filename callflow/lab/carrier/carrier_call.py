"""Runs a call at the carrier: fetches documents, carries them out verb by verb, and ends.

A REST request or a person who hangs up is an order: it stops whatever is being carried out, whose
action is then not asked. A request that is under way is not stopped: the application has it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Final, Protocol

from callflow.lab.carrier.app_network import (
    NOT_XML,
    STOCK_ERROR,
    AddressRefused,
    AppAddress,
    ApplicationFailed,
    TwimlRefused,
)
from callflow.lab.carrier.background_tasks import cancelled
from callflow.lab.carrier.call_report import SpokenTurn
from callflow.lab.carrier.gather_verb import gather
from callflow.lab.carrier.network_faults import CallFaults
from callflow.lab.carrier.phone_line import CallerLine, Listener
from callflow.lab.carrier.relay_verb import relay
from callflow.lab.carrier.simulated_people import HumanBehaviour, RungHuman
from callflow.lab.carrier.switchboard import (
    CallBase,
    CallStep,
    OutboundRequest,
    Switchboard,
    VoiceLink,
    play_tone,
    voice_of,
)
from callflow.lab.carrier.twiml_parser import (
    Conference,
    Dial,
    DialledNumber,
    Document,
    Gather,
    Hangup,
    Pause,
    Redirect,
    Relay,
    Say,
    Verb,
    parse,
)
from callflow.lab.carrier.webhook_client import CallIdentity, Response

XML_TYPES: Final = ("text/xml", "application/xml", "text/html")

HOSTED: Final = "https://handler.twilio.com/twiml/fallback"
"""Where the carrier keeps a document of the account, so that it does not depend on us."""

Failure = ApplicationFailed | TwimlRefused | AddressRefused


class SimulatedPerson(Protocol):
    async def live(self, line: CallerLine) -> None:
        """The whole call as they live it; when this returns they hang up."""


class Call(CallBase):
    """One line. `run` it once; afterwards its report is complete."""

    def __init__(
        self,
        switchboard: Switchboard,
        identity: CallIdentity,
        listener: Listener,
        person: SimulatedPerson,
        faults: CallFaults,
        fallback: str | None = None,
    ) -> None:
        super().__init__(switchboard, identity, listener, faults)
        self.hung_up = False
        """By a <Hangup>, instead of by the end of a document."""
        self._person = person
        self._fallback = fallback

    async def run(self, first: CallStep) -> None:
        """From the first document to the end of the line."""
        living = asyncio.create_task(self._let_person_act())
        try:
            await self.follow_orders(first)
            if living.done():
                # A mistake of the simulated person must not pass for a hang-up.
                living.result()
            await self._close("completed")
        finally:
            await cancelled(living)

    async def ask(
        self, address: AppAddress, fields: Mapping[str, str], turn: SpokenTurn | None = None
    ) -> Response:
        """Ask the application. Raises ApplicationFailed. The request outlives an order."""
        answer = await asyncio.shield(self.send(address, fields, turn))
        if isinstance(answer, ApplicationFailed):
            raise answer
        return answer

    async def _let_person_act(self) -> None:
        try:
            await self._person.live(self.line)
        finally:
            self.hang_up()

    async def follow_orders(self, first: CallStep) -> None:
        """Carry out documents and orders until one of them ends the line."""
        step: CallStep | None = first
        while step is not None:
            following = asyncio.create_task(self._follow(step))
            ordered = asyncio.create_task(self._orders.get())
            try:
                await asyncio.wait({following, ordered}, return_when=asyncio.FIRST_COMPLETED)
                if following.done():
                    following.result()
                    return
                step = ordered.result()
                if step is None:
                    # What is stopped now is told that the call is over, not that it goes on.
                    self.status = "completed"
            finally:
                await cancelled(following, ordered)
            self.listener.expect_sound("next")

    async def _follow(self, first: CallStep) -> None:
        """Carry out documents until one ends without naming the next."""
        step = first
        while True:
            try:
                document = step.document or await self._fetch(step)
                self._pick_up()
                following = await self._perform(document)
            except (ApplicationFailed, TwimlRefused, AddressRefused) as failure:
                following = await self._recover(failure, step)
            if following is None:
                break
            step = following
        if self.report.ended_by == "nobody":
            self.report.ended_by = "application"

    async def _fetch(self, step: CallStep) -> Document:
        if step.url == HOSTED:
            return parse(self._fallback or "", HOSTED)
        address = self.switchboard.network.address(step.url, step.base)
        response = await self.ask(address, step.fields, step.turn)
        if response.content_type.partition(";")[0].strip() not in XML_TYPES:
            reason = f"it answered with {response.content_type!r} instead of text/xml"
            raise ApplicationFailed(NOT_XML, address.url, reason)
        return parse(response.body.decode("utf-8", "replace"), address.url)

    def _pick_up(self) -> None:
        """The first document answers a call that rings."""
        if self.status == "ringing":
            self.report.answered_after_s = time.monotonic() - self.listener.began
            self.become("in-progress")
            self.listener.expect_sound("greeting")

    async def _perform(self, document: Document) -> CallStep | None:
        for verb in document.verbs:
            if isinstance(verb, Hangup):
                self.hung_up = True
                return None
            if (step := await self._perform_verb(verb, document)) is not None:
                return step
        return None

    async def _perform_verb(self, verb: Verb, document: Document) -> CallStep | None:
        """Carry out one verb; where to go on, unless it is with the next verb."""
        match verb:
            case Say():
                await self.speak(verb.text, "say")
                return None
            case Pause():
                await asyncio.sleep(verb.seconds)
                return None
            case Redirect():
                return CallStep(verb.url, document.url)
            case Gather():
                gathered = await gather(self, verb)
                if gathered is None:
                    return None
                fields, turn = gathered
                return CallStep(verb.action or document.url or "", document.url, fields, turn)
            case Dial():
                fields = await dial(self, verb, document.url)
                return None if verb.action is None else CallStep(verb.action, document.url, fields)
            case Relay():
                fields = await relay(self, verb, document.url)
                # Without an action Twilio has nothing to go on with: the call is lost.
                return CallStep(verb.action, document.url, fields) if verb.action else None
            case _:
                raise AssertionError("a Hangup is carried out before")

    async def _recover(self, failure: Failure, step: CallStep) -> CallStep | None:
        """Go to the number's fallback once; else the caller hears that it is over."""
        self.report.failures.append(str(failure))
        self.listener.emit("failure", reason=str(failure))
        if self._fallback is not None and not step.fallback:
            url = failure.url if not isinstance(failure, TwimlRefused) else step.url
            error = {"ErrorCode": str(failure.code), "ErrorUrl": url.partition("#")[0]}
            url = HOSTED if self._fallback.lstrip().startswith("<") else self._fallback
            return CallStep(url, fields=error, fallback=True)
        self.report.failed = True
        self.report.ended_by = "carrier"
        await self.speak(STOCK_ERROR, "stock")
        return None

    async def _close(self, status: str) -> None:
        """The line is gone; the report is complete once what was asked has been answered, and the
        application has been told of the end."""
        if self.report.ended_by == "application":
            self.listener.settle_turn()
        self.listener.end_silence()
        self.line.closed()
        self.report.duration_s = time.monotonic() - self.listener.began
        if self.status == "completed":
            # An order has set it before anybody was told.
            self.status = "in-progress"
        self.become(status)
        if self._asked:
            await asyncio.wait(set(self._asked))
        await self._callbacks.sent()
        self.listener.emit("ended", by=self.report.ended_by, failed=self.report.failed)


UNANSWERED = {"never": "no-answer", "busy": "busy", "refuses": "busy", "fails": "failed"}


class OutboundCall(Call):
    """Rings, and once picked up does what its document says.

    `connected`: a dialled human has heard the whisper and is to be connected; `gone`: the line is
    gone.
    """

    def __init__(
        self,
        switchboard: Switchboard,
        identity: CallIdentity,
        listener: Listener,
        behaviour: HumanBehaviour,
        faults: CallFaults,
        asked: OutboundRequest,
    ) -> None:
        super().__init__(switchboard, identity, listener, RungHuman(behaviour), faults)
        self.connected = asyncio.Event()
        self.gone = asyncio.Event()
        self.talked_s = 0.0
        self._behaviour = behaviour
        self._request = asked
        self._stopped = asyncio.Event()

    async def ring(self) -> None:
        """The whole of it: ring, pick up, carry out the document, end."""
        try:
            self._callbacks.send("initiated")
            status = await self._ring()
            if status is None:
                self.report.answered_after_s = time.monotonic() - self.listener.began
                await self.run(self._first_step())
            else:
                await self._close(status)
        finally:
            self.gone.set()

    def stop(self) -> None:
        """Hang up, or let it ring no more. Twice is once."""
        self._stopped.set()
        if self.status == "in-progress":
            self.order(None)

    async def follow_orders(self, first: CallStep) -> None:
        """As every line; a bridged one then stays with the other one."""
        await super().follow_orders(first)
        whispered = self.report.ended_by == "application" and not self.hung_up
        if self._request.bridged and whispered and self.status == "in-progress":
            self.report.ended_by = "nobody"
            self.connected.set()
            began = time.monotonic()
            try:
                order = await self._orders.get()
            finally:
                self.talked_s = time.monotonic() - began
            if order is not None:
                await super().follow_orders(order)

    async def _ring(self) -> str | None:
        """None once somebody has picked up; else the status in which it ends."""
        behaviour = self._behaviour
        if behaviour.answer in ("answers", "never", "refuses"):
            self.become("ringing")
            rings_s = behaviour.after_s if behaviour.answer != "never" else float("inf")
            try:
                async with asyncio.timeout(min(rings_s, self._request.timeout_s)):
                    await self._stopped.wait()
                return "canceled"
            except TimeoutError:
                if rings_s > self._request.timeout_s:
                    return "no-answer"
        if behaviour.answer != "answers":
            return UNANSWERED[behaviour.answer]
        self.become("in-progress")
        return None

    def _first_step(self) -> CallStep:
        asked = self._request
        if asked.document is not None:
            return CallStep(document=parse(asked.document, None))
        if asked.url is None:
            return CallStep(document=Document(None, ()))
        return CallStep(asked.url, asked.base)


async def dial(call: CallBase, verb: Dial, base: str | None) -> dict[str, str]:
    """The fields for the action, once the other side is gone or never came.

    Raises TwimlRefused in a whisper.
    """
    if call.identity.direction == "outbound-dial":
        raise TwimlRefused(
            "a whisper may not <Dial>: an empty answer connects the two lines", 13201
        )
    if isinstance(verb.to, Conference):
        return await call.switchboard.conferences.stay(call, verb.to)
    return await _dial_number(call, verb, verb.to, base)


async def _dial_number(
    call: CallBase, verb: Dial, to: DialledNumber, base: str | None
) -> dict[str, str]:
    called = call.switchboard.dial(
        OutboundRequest(
            to=to.number,
            # Twilio shows the caller's own number where none is given.
            caller=verb.caller_id or call.identity.caller,
            url=to.whisper,
            base=base,
            timeout_s=verb.timeout_s,
            direction="outbound-dial",
            parent_sid=call.identity.call_sid,
            bridged=True,
        )
    )
    assert isinstance(called, OutboundCall)
    connected = asyncio.create_task(called.connected.wait())
    ended = asyncio.create_task(called.gone.wait())
    try:
        with play_tone(call.listener, "ring"):
            await asyncio.wait({connected, ended}, return_when=asyncio.FIRST_COMPLETED)
        if called.connected.is_set():
            await _bridge(call, called)
    finally:
        called.stop()
        await cancelled(connected, ended)
    return _dial_fields(call, called)


async def _bridge(call: CallBase, called: OutboundCall) -> None:
    here, there = (
        VoiceLink(call.line, voice_of(call)),
        VoiceLink(called.line, voice_of(called)),
    )
    here.begin()
    there.begin()
    try:
        await called.gone.wait()
    finally:
        here.end()
        there.end()


def _dial_fields(call: CallBase, called: OutboundCall) -> dict[str, str]:
    bridged = called.connected.is_set()
    status = called.status
    if status == "completed" and not bridged:
        # They picked up and did not want to be connected. What Twilio calls that is not written
        # down anywhere: only DialBridged tells it from a talk.
        status = call.faults.dice("unbridged").choice(("completed", "no-answer"))
    fields = {
        "DialCallSid": called.identity.call_sid,
        "DialCallStatus": status,
        "DialBridged": str(bridged).lower(),
    }
    if bridged:
        fields["DialCallDuration"] = str(max(1, round(called.talked_s)))
    return fields
