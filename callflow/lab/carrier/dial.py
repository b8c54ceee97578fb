"""<Dial>: connect a line with a number, after a whisper, or with a conference."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from callflow.lab.carrier.background import cancelled
from callflow.lab.carrier.conference import Talk, kind_of, tone
from callflow.lab.carrier.exchange import Outbound
from callflow.lab.carrier.failure import TwimlRefused
from callflow.lab.carrier.verbs import Conference, Dial, Number

if TYPE_CHECKING:
    from callflow.lab.carrier.leg import Leg
    from callflow.lab.carrier.outbound import OutboundLeg


async def dial(leg: Leg, verb: Dial, base: str | None) -> dict[str, str]:
    """The fields for the action, once the other side is gone or never came.

    Raises TwimlRefused in a whisper.
    """
    if leg.identity.direction == "outbound-dial":
        raise TwimlRefused(
            "a whisper may not <Dial>: an empty answer connects the two lines", 13201
        )
    if isinstance(verb.to, Conference):
        return await leg.exchange.conferences.stay(leg, verb.to)
    return await _number(leg, verb, verb.to, base)


async def _number(leg: Leg, verb: Dial, to: Number, base: str | None) -> dict[str, str]:
    called = leg.exchange.dial(
        Outbound(
            to=to.number,
            # Twilio shows the caller's own number where none is given.
            caller=verb.caller_id or leg.identity.caller,
            url=to.whisper,
            base=base,
            timeout_s=verb.timeout_s,
            direction="outbound-dial",
            parent_sid=leg.identity.call_sid,
            bridged=True,
        )
    )
    connected = asyncio.create_task(called.connected.wait())
    ended = asyncio.create_task(called.ended.wait())
    try:
        with tone(leg.ear, "ring"):
            await asyncio.wait({connected, ended}, return_when=asyncio.FIRST_COMPLETED)
        if called.connected.is_set():
            await _talk(leg, called)
    finally:
        called.stop()
        await cancelled(connected, ended)
    return _fields(leg, called)


async def _talk(leg: Leg, called: OutboundLeg) -> None:
    here, there = Talk(leg.line, kind_of(leg)), Talk(called.line, kind_of(called))
    here.begin()
    there.begin()
    try:
        await called.ended.wait()
    finally:
        here.end()
        there.end()


def _fields(leg: Leg, called: OutboundLeg) -> dict[str, str]:
    bridged = called.connected.is_set()
    status = called.status
    if status == "completed" and not bridged:
        # They picked up and did not want to be connected. What Twilio calls that is not written
        # down anywhere: only DialBridged tells it from a talk.
        status = leg.fates.dice("unbridged").choice(("completed", "no-answer"))
    fields = {
        "DialCallSid": called.identity.call_sid,
        "DialCallStatus": status,
        "DialBridged": str(bridged).lower(),
    }
    if bridged:
        fields["DialCallDuration"] = str(max(1, round(called.talked_s)))
    return fields
