"""Ends calls whose line is closed: when the carrier says so, and when it is asked about stale ones.

A hang-up that was lost would otherwise be found hours later. Here and not in a worker: a carrier
that does not answer must keep no caller from being answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from callflow.errors import StoreError
from callflow.store.leases import StaleCalls
from callflow.store.result import Result
from callflow.twilio.rest import Telephone, TelephoneError
from callflow.twilio.twiml import Twiml
from callflow.web.context import CallAccess, WebContext
from callflow.web.webhook import TERMINAL

END_WITHIN_S = 10.0
"""For so long the end of a call waits for the store. Nobody hears that; the carrier waits 15 s for
an answer, and asks again for a moment only: a call whose end is lost stays open for hours."""

LOOK_EVERY_S = 1.0

AT_ONCE = 4
"""Requests to the carrier: of the background threads most are left to those who fetch humans."""


async def line_status(call: CallAccess) -> Twiml:
    """A status callback. Only the end matters, and nothing comes after it: whatever the order in
    which they arrive, and however often, a call ends once and never opens again."""
    return await end_closed(call) if call.request.line_closed else Twiml("en")


async def end_closed(call: CallAccess) -> Twiml:
    """The line is closed: the call ends in whatever state it is, and nobody is rung for it."""
    await end_call(call.web, call.call_sid, call.request.fields.get("CallStatus", ""))
    return call.answers().hang_up()


async def end_call(web: WebContext, call_sid: str, status: str) -> None:
    """The carrier says that the line of this call is closed, and by which `CallStatus`. Waits for
    the store to come back. Raises StoreError."""
    outcome = "hung_up" if status in ("completed", "") else status.replace("-", "_")
    await web.executor.run_patiently(END_WITHIN_S, web.intake.end, call_sid, outcome)
    await web.executor.background(web.ringing.call_off, call_sid)


@dataclass(frozen=True, slots=True)
class StaleCallCheck:
    """Looks after calls in which nothing is said any more."""

    web: WebContext
    telephone: Telephone
    lines: StaleCalls

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Look once a second while the block runs."""
        looking = asyncio.create_task(self._look())
        try:
            yield
        finally:
            looking.cancel()

    async def _look(self) -> None:
        few = asyncio.Semaphore(AT_ONCE)

        async def check(call_sid: str) -> None:
            async with few:
                await self._check(call_sid)

        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            try:
                stale = await self.web.executor.run(self.lines.take)
            except StoreError:
                continue  # They are as stale when it is back.
            await asyncio.gather(*map(check, stale))

    async def _check(self, call_sid: str) -> None:
        """End the call if its line is closed. What cannot be told or kept now is asked again."""
        try:
            status = await self.web.executor.background(self.telephone.status, call_sid)
            if status in TERMINAL:
                await end_call(self.web, call_sid, status)
            else:
                await self._bring_back(call_sid)
        except (TelephoneError, StoreError):
            return

    async def _bring_back(self, call_sid: str) -> None:
        """The human has left, and that was lost as well: the caller is alone in a room of two."""
        background, ringing = self.web.executor.background, self.web.ringing
        status = await self.web.access_by_sid(call_sid).status_if_known()
        if status is None or not status.with_human or status.alert is None:
            return
        leg = status.alert.leg
        if leg is None or await background(self.telephone.status, leg) not in TERMINAL:
            return
        if await background(ringing.left, call_sid) is Result.OK:
            await background(ringing.fetch, call_sid)
