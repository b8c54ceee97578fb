"""One line at the carrier: it fetches documents, carries them out verb by verb, and ends.

A REST request or a person who hangs up is an order: it stops whatever is being carried out, whose
action is then not asked. A request that is under way is not stopped: the application has it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from callflow.lab.carrier import speech
from callflow.lab.carrier.background import cancelled
from callflow.lab.carrier.dial import dial
from callflow.lab.carrier.ear import Ear
from callflow.lab.carrier.exchange import Exchange
from callflow.lab.carrier.failure import (
    NOT_XML,
    STOCK_ERROR,
    AddressRefused,
    ApplicationFailed,
    TwimlRefused,
)
from callflow.lab.carrier.form import Identity
from callflow.lab.carrier.gather import gather
from callflow.lab.carrier.http import Response
from callflow.lab.carrier.line import Line
from callflow.lab.carrier.mischief import Fates
from callflow.lab.carrier.network import Address
from callflow.lab.carrier.relay import relay
from callflow.lab.carrier.report import EndedBy, Kind, Turn
from callflow.lab.carrier.status import StatusCallbacks
from callflow.lab.carrier.twiml import parse
from callflow.lab.carrier.verbs import (
    Dial,
    Document,
    Gather,
    Hangup,
    Pause,
    Redirect,
    Relay,
    Say,
    Verb,
)

XML_TYPES: Final = ("text/xml", "application/xml", "text/html")

HOSTED: Final = "https://handler.twilio.com/twiml/fallback"
"""Where the carrier keeps a document of the account, so that it does not depend on us."""

Failure = ApplicationFailed | TwimlRefused | AddressRefused


class Party(Protocol):
    """The person at the far end."""

    async def live(self, line: Line) -> None:
        """The whole call as they live it; when this returns they hang up."""


@dataclass(frozen=True, slots=True)
class Step:
    """Where a line goes on: the document at `url`, asked with these fields beside the usual ones,
    or a document that is here already. `turn`: what the caller said, if that is what is asked
    about; `fallback`: this is the last attempt to go on."""

    url: str = ""
    base: str | None = None
    fields: Mapping[str, str] = field(default_factory=dict)
    turn: Turn | None = None
    document: Document | None = None
    fallback: bool = False


class Leg:
    """One line. `run` it once; afterwards its report is complete."""

    def __init__(
        self,
        exchange: Exchange,
        identity: Identity,
        ear: Ear,
        party: Party,
        callbacks: StatusCallbacks,
        fates: Fates,
        fallback: str | None = None,
    ) -> None:
        self.exchange = exchange
        self.identity = identity
        self.ear = ear
        self.report = ear.report
        self.line = Line(ear, exchange.speed, self._person_hangs_up)
        self.status = "queued"
        self.hung_up = False
        """By a <Hangup>, instead of by the end of a document."""
        self._party = party
        self.fates = fates
        self._callbacks = callbacks
        self._fallback = fallback
        self._orders: asyncio.Queue[Step | None] = asyncio.Queue()
        self._asked: set[asyncio.Task[Response | ApplicationFailed]] = set()

    async def run(self, first: Step) -> None:
        """From the first document to the end of the line."""
        living = asyncio.create_task(self._live())
        try:
            await self.obey(first)
            if living.done():
                # A mistake of the simulated person must not pass for a hang-up.
                living.result()
            await self._close("completed")
        finally:
            await cancelled(living)

    def become(self, status: str) -> None:
        """Change the status and tell the application. A status that stands is not told again."""
        if status != self.status:
            self.status = status
            self.ear.tell("status", status=status)
            self._callbacks.send(status)

    def order(self, step: Step | None, by: EndedBy = "application") -> None:
        """Stop what is being carried out and go on with `step`; None: hang up."""
        if step is None and self.report.ended_by == "nobody":
            self.report.ended_by = by
        self._orders.put_nowait(step)

    async def ask(
        self, address: Address, fields: Mapping[str, str], turn: Turn | None = None
    ) -> Response:
        """Ask the application. Raises ApplicationFailed. The request outlives an order."""
        answer = await asyncio.shield(self.send(address, fields, turn))
        if isinstance(answer, ApplicationFailed):
            raise answer
        return answer

    def send(
        self, address: Address, fields: Mapping[str, str], turn: Turn | None = None
    ) -> asyncio.Task[Response | ApplicationFailed]:
        """Send a webhook whose answer need not be waited for; the report waits for it."""
        form = self.identity.form(self.status) | dict(fields)
        task = self.exchange.background.start(self._ask(address, form, turn))
        self._asked.add(task)
        task.add_done_callback(self._asked.discard)
        return task

    async def speak(self, text: str, kind: Kind) -> None:
        """Say `text` to the person, who hears the part that is said before this is cancelled."""
        began = time.monotonic()
        heard = self.ear.begin(text, kind)
        try:
            await asyncio.sleep(speech.seconds(text, self.exchange.speed))
        except asyncio.CancelledError:
            said = speech.spoken(text, time.monotonic() - began, self.exchange.speed)
            self.ear.finish(heard, said)
            raise
        self.ear.finish(heard)
        self.ear.owe("next")

    async def _ask(
        self, address: Address, form: Mapping[str, str], turn: Turn | None
    ) -> Response | ApplicationFailed:
        fate = self.fates.next(address.path, form["CallStatus"])
        try:
            response = await self.exchange.webhooks.ask(address, form, fate, self.report)
        except ApplicationFailed as failure:
            return failure
        if turn is not None:
            turn.accepted = True
        return response

    async def _live(self) -> None:
        try:
            await self._party.live(self.line)
        finally:
            self._person_hangs_up()

    def _person_hangs_up(self) -> None:
        if not self.line.over:
            self.line.closed()
            self.order(None, "caller")

    async def obey(self, first: Step) -> None:
        """Carry out documents and orders until one of them ends the line."""
        step: Step | None = first
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
            self.ear.owe("next")

    async def _follow(self, first: Step) -> None:
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

    async def _fetch(self, step: Step) -> Document:
        if step.url == HOSTED:
            return parse(self._fallback or "", HOSTED)
        address = self.exchange.network.address(step.url, step.base)
        response = await self.ask(address, step.fields, step.turn)
        if response.content_type.partition(";")[0].strip() not in XML_TYPES:
            reason = f"it answered with {response.content_type!r} instead of text/xml"
            raise ApplicationFailed(NOT_XML, address.url, reason)
        return parse(response.body.decode("utf-8", "replace"), address.url)

    def _pick_up(self) -> None:
        """The first document answers a call that rings."""
        if self.status == "ringing":
            self.report.answered_after_s = time.monotonic() - self.ear.began
            self.become("in-progress")
            self.ear.owe("greeting")

    async def _perform(self, document: Document) -> Step | None:
        for verb in document.verbs:
            if isinstance(verb, Hangup):
                self.hung_up = True
                return None
            if (step := await self._do(verb, document)) is not None:
                return step
        return None

    async def _do(self, verb: Verb, document: Document) -> Step | None:
        """Carry out one verb; where to go on, unless it is with the next verb."""
        match verb:
            case Say():
                await self.speak(verb.text, "say")
                return None
            case Pause():
                await asyncio.sleep(verb.seconds)
                return None
            case Redirect():
                return Step(verb.url, document.url)
            case Gather():
                gathered = await gather(self, verb)
                if gathered is None:
                    return None
                fields, turn = gathered
                return Step(verb.action or document.url or "", document.url, fields, turn)
            case Dial():
                fields = await dial(self, verb, document.url)
                return None if verb.action is None else Step(verb.action, document.url, fields)
            case Relay():
                fields = await relay(self, verb, document.url)
                # Without an action Twilio has nothing to go on with: the call is lost.
                return Step(verb.action, document.url, fields) if verb.action else None
            case _:
                raise AssertionError("a Hangup is carried out before")

    async def _recover(self, failure: Failure, step: Step) -> Step | None:
        """Go to the number's fallback once; else the caller hears that it is over."""
        self.report.failures.append(str(failure))
        self.ear.tell("failure", reason=str(failure))
        if self._fallback is not None and not step.fallback:
            url = failure.url if not isinstance(failure, TwimlRefused) else step.url
            error = {"ErrorCode": str(failure.code), "ErrorUrl": url.partition("#")[0]}
            url = HOSTED if self._fallback.lstrip().startswith("<") else self._fallback
            return Step(url, fields=error, fallback=True)
        self.report.failed = True
        self.report.ended_by = "carrier"
        await self.speak(STOCK_ERROR, "stock")
        return None

    async def _close(self, status: str) -> None:
        """The line is gone; the report is complete once what was asked has been answered, and the
        application has been told of the end."""
        if self.report.ended_by == "application":
            self.ear.settle_turn()
        self.ear.relieve()
        self.line.closed()
        self.report.duration_s = time.monotonic() - self.ear.began
        if self.status == "completed":
            # An order has set it before anybody was told.
            self.status = "in-progress"
        self.become(status)
        if self._asked:
            await asyncio.wait(set(self._asked))
        await self._callbacks.sent()
        self.ear.tell("ended", by=self.report.ended_by, failed=self.report.failed)
