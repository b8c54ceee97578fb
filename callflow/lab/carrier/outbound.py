"""A line that the application has made ring, by REST or by <Dial>."""

from __future__ import annotations

import asyncio
import time

from callflow.lab.carrier.ear import Ear
from callflow.lab.carrier.exchange import Exchange, Outbound
from callflow.lab.carrier.form import Identity
from callflow.lab.carrier.human import Human, HumanBehaviour
from callflow.lab.carrier.leg import Leg, Step
from callflow.lab.carrier.mischief import Fates
from callflow.lab.carrier.status import StatusCallbacks
from callflow.lab.carrier.twiml import parse
from callflow.lab.carrier.verbs import Document

UNANSWERED = {"never": "no-answer", "busy": "busy", "refuses": "busy", "fails": "failed"}


class OutboundLeg(Leg):
    """Rings, and once picked up does what its document says.

    `connected`: a dialled human has heard the whisper and is to be connected; `ended`: the line is
    gone.
    """

    def __init__(
        self,
        exchange: Exchange,
        identity: Identity,
        ear: Ear,
        behaviour: HumanBehaviour,
        callbacks: StatusCallbacks,
        fates: Fates,
        asked: Outbound,
    ) -> None:
        super().__init__(exchange, identity, ear, Human(behaviour), callbacks, fates)
        self.connected = asyncio.Event()
        self.ended = asyncio.Event()
        self.talked_s = 0.0
        self._behaviour = behaviour
        self._asked_for = asked
        self._told_to_stop = asyncio.Event()

    async def ring(self) -> None:
        """The whole of it: ring, pick up, carry out the document, end."""
        try:
            self._callbacks.send("initiated")
            status = await self._ring()
            if status is None:
                self.report.answered_after_s = time.monotonic() - self.ear.began
                await self.run(self._first())
            else:
                await self._close(status)
        finally:
            self.ended.set()

    def stop(self) -> None:
        """Hang up, or let it ring no more. Twice is once."""
        self._told_to_stop.set()
        if self.status == "in-progress":
            self.order(None)

    async def obey(self, first: Step) -> None:
        """As every line; a bridged one then stays with the other one."""
        await super().obey(first)
        whispered = self.report.ended_by == "application" and not self.hung_up
        if self._asked_for.bridged and whispered and self.status == "in-progress":
            self.report.ended_by = "nobody"
            self.connected.set()
            began = time.monotonic()
            try:
                order = await self._orders.get()
            finally:
                self.talked_s = time.monotonic() - began
            if order is not None:
                await super().obey(order)

    async def _ring(self) -> str | None:
        """None once somebody has picked up; else the status in which it ends."""
        behaviour = self._behaviour
        if behaviour.answer in ("answers", "never", "refuses"):
            self.become("ringing")
            rings_s = behaviour.after_s if behaviour.answer != "never" else float("inf")
            try:
                async with asyncio.timeout(min(rings_s, self._asked_for.timeout_s)):
                    await self._told_to_stop.wait()
                return "canceled"
            except TimeoutError:
                if rings_s > self._asked_for.timeout_s:
                    return "no-answer"
        if behaviour.answer != "answers":
            return UNANSWERED[behaviour.answer]
        self.become("in-progress")
        return None

    def _first(self) -> Step:
        asked = self._asked_for
        if asked.document is not None:
            return Step(document=parse(asked.document, None))
        if asked.url is None:
            return Step(document=Document(None, ()))
        return Step(asked.url, asked.base)
