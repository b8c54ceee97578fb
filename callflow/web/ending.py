"""The line is closed: the call ends, and that is kept."""

from __future__ import annotations

import asyncio

from callflow.errors import StoreError
from callflow.twilio.twiml import Twiml
from callflow.web.hook import Hook
from callflow.web.party import Party

END_WITHIN_S = 10.0
"""For so long the end of a call waits for the store. Nobody hears that; the carrier waits 15 s for
an answer, and asks again for a moment only: a call whose end is lost stays open for hours."""

RETRY_S = 0.25


async def ended(party: Party, hook: Hook) -> Twiml:
    """The line is closed: the call ends in whatever state it is, and nobody is rung for it."""
    await end(party, hook.call_sid, hook.fields.get("CallStatus", ""))
    return party.answers(hook).hang_up()


async def end(party: Party, call_sid: str, status: str) -> None:
    """The carrier says that the line of this call is closed. Raises StoreError."""
    outcome = "hung_up" if status in ("completed", "") else status.replace("-", "_")
    await _ended(party, call_sid, outcome)
    await party.desk.errand(party.ringing.call_off, call_sid)


async def _ended(party: Party, call_sid: str, outcome: str) -> None:
    """Keep it, and wait for the store to come back. Raises StoreError."""
    now = asyncio.get_running_loop().time
    give_up = now() + END_WITHIN_S
    while True:
        try:
            await party.desk.ask(party.intake.end, call_sid, outcome)
        except StoreError:
            if now() > give_up:
                raise
            await asyncio.sleep(RETRY_S)
        else:
            return


async def status(party: Party, hook: Hook) -> Twiml:
    """A status callback. Only the end matters, and nothing comes after it: whatever the order in
    which they arrive, and however often, a call ends once and never opens again."""
    if hook.line_closed:
        return await ended(party, hook)
    return Twiml("en")
