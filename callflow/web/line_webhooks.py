"""Answers the webhooks of a caller's line: it arrives, comes back, and closes.

Nobody is refused: a caller too many is rung through to the humans of their lift by the carrier
itself, which needs no worker, and comes to the agent where none of them picks up. A hang-up that
was lost would be found hours later: the carrier is asked about the lines of stale calls, here and
not in a worker, since a carrier that does not answer must keep no caller from being answered.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from callflow.call.limits import OVERLOAD
from callflow.call.record import CallStatus
from callflow.errors import StoreError
from callflow.store.leases import StaleCalls
from callflow.store.result import Result
from callflow.twilio.rest import Telephone, TelephoneError
from callflow.twilio.twiml import Twiml
from callflow.web.answers import UnstoredInput
from callflow.web.call_access import CallAccess
from callflow.web.operator_messages import say_when_fetched
from callflow.web.web_context import WebContext, now_ms
from callflow.web.webhook import MAX_TURN, TERMINAL, CallerInput

END_WITHIN_S = 10.0
"""For so long the end of a call waits for the store. Nobody hears that; the carrier waits 15 s for
an answer, and asks again for a moment only: a call whose end is lost stays open for hours."""

LOOK_EVERY_S = 1.0

AT_ONCE = 4
"""Requests to the carrier: of the background threads most are left to those who fetch humans."""


async def inbound(call: CallAccess) -> Twiml:
    """A call arrives, or this request arrives again."""
    site, opening = call.site, call.opening
    try:
        full = site is not None and await call.web.is_full()
        opened = await call.open(full=full)
    except StoreError:
        # The first turn opens the record, if the server is back by then.
        return call.answers().listen(1, opening)
    if not opened:
        full = _was_too_many(await call.status_if_known())
    if site is not None and full:
        # Nothing was said yet; what is in flight has the caller's line come back as turn 1.
        nothing = UnstoredInput(CallerInput(), now_ms())
        return call.answers().dial(site, 0, 1, nothing, why=OVERLOAD)
    return call.answers().listen(1, opening) if opened else await go_on(call, fresh=opening)


def _was_too_many(status: CallStatus | None) -> bool:
    if status is None or status.outcome is not None:
        return False
    return status.needs_human == OVERLOAD and status.heard == 0


async def go_on(call: CallAccess, *, fresh: str | None = None) -> Twiml:
    """Go on with a call wherever its record stands.

    `fresh`: what to say where nobody has spoken yet.
    """
    try:
        status = await call.status()
    except StoreError:
        # Which turn is the next nobody can tell: words taken for another turn would be lost.
        return call.answers().again("still_here")
    if status is None:
        answers = call.answers()
        return answers.listen(1, fresh or answers.phrase("still_here"))
    await call.web.lines.release_call(call.call_sid)
    if (over := call.conclude(status)) is not None:
        return over
    told = call.request.number("told", MAX_TURN)
    return await say_when_fetched(call, status) or _resume(call, status, told, fresh)


def _resume(call: CallAccess, status: CallStatus, told: int, fresh: str | None) -> Twiml:
    answers, heard = call.answers(status), status.heard
    if heard > status.answered:
        return answers.hold(heard, 0, "still_here")
    if status.answered > told:
        # Answered while the carrier was fetching the caller: what it was told then came to nothing.
        return Twiml(answers.language).redirect(call.addresses.wait(status.answered, 0))
    if "p" in call.request.query:
        text = answers.phrase("listening")
    elif heard == 0 and fresh is not None:
        text = fresh
    else:
        text = answers.phrases("still_here", "go_on")
    return answers.listen(heard + 1, text)


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

    async def look(self) -> None:
        """Look once a second for as long as the process runs."""
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
        status = await CallAccess.by_sid(self.web, call_sid).status_if_known()
        if status is None or not status.with_human or status.alert is None:
            return
        leg = status.alert.leg
        if leg is None or await background(self.telephone.status, leg) not in TERMINAL:
            return
        if await background(ringing.left, call_sid) is Result.OK:
            await background(ringing.fetch, call_sid)
