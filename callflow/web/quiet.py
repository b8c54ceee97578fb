"""Asks the carrier whether a line is still open in which nothing is said any more, and whether the
human is still on theirs.

A hang-up that was lost would otherwise be found hours later. Here and not in a worker: a carrier
that does not answer must keep no caller from being answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from callflow.errors import StoreError
from callflow.store.result import Result
from callflow.store.stale_calls import StaleCalls
from callflow.twilio.rest import Telephone, TelephoneError
from callflow.web import ending
from callflow.web.hook import TERMINAL
from callflow.web.party import Party

LOOK_EVERY_S = 1.0

AT_ONCE = 4
"""Requests to the carrier: of the threads for errands most are left to those who fetch humans."""


@asynccontextmanager
async def asking(party: Party, telephone: Telephone, lines: StaleCalls) -> AsyncIterator[None]:
    """Look after quiet lines meanwhile."""
    looking = asyncio.create_task(_look(party, telephone, lines))
    try:
        yield
    finally:
        looking.cancel()


async def _look(party: Party, telephone: Telephone, lines: StaleCalls) -> None:
    few = asyncio.Semaphore(AT_ONCE)

    async def settle(call_sid: str) -> None:
        async with few:
            await _settle(party, telephone, call_sid)

    while True:
        await asyncio.sleep(LOOK_EVERY_S)
        try:
            quiet = await party.desk.ask(lines.take)
        except StoreError:
            continue  # They are as quiet when it is back.
        await asyncio.gather(*map(settle, quiet))


async def _settle(party: Party, telephone: Telephone, call_sid: str) -> None:
    """End the call if its line is closed. What cannot be told or kept now is asked again."""
    try:
        status = await party.desk.errand(telephone.status, call_sid)
        if status in TERMINAL:
            await ending.end(party, call_sid, status)
        else:
            await _bring_back(party, telephone, call_sid)
    except (TelephoneError, StoreError):
        return


async def _bring_back(party: Party, telephone: Telephone, call_sid: str) -> None:
    """The human has left, and that was lost as well: the caller is alone in a room of two."""
    standing = await party.standing(call_sid)
    if standing is None or not standing.with_human or standing.alert is None:
        return
    leg = standing.alert.leg
    if leg is None or await party.desk.errand(telephone.status, leg) not in TERMINAL:
        return
    if await party.desk.errand(party.ringing.left, call_sid) is Result.OK:
        await party.desk.errand(party.ringing.fetch, call_sid)
