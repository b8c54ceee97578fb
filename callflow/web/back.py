"""A caller comes back to us: the human has left, or a number that was rung is not answered."""

from __future__ import annotations

import asyncio

from callflow.errors import StoreError
from callflow.twilio.twiml import Twiml
from callflow.web.addresses import Flight
from callflow.web.ending import ended
from callflow.web.hook import Hook, Said, counted
from callflow.web.party import Party, now_ms
from callflow.web.voice import settle

LEFT = "left"
"""In an address: since when, ms, a caller waits whose human has left."""

GIVEN_BACK_WITHIN_S = 2.0
"""For so long the server is waited for before the caller must hear something."""

RETRY_S = 0.25


async def transfer_ended(party: Party, hook: Hook) -> Twiml:
    """The human has left, or one number of the ladder without the store was rung."""
    rung = hook.number("rung", -1)
    if rung < 0:
        return await _human_left(party, hook)
    site, number, flight = party.site_of(hook), hook.turn(), Flight.of(hook)
    answers = party.answers(hook)
    # Somebody who picked up and pressed no key was never connected, whatever the status says.
    spoke = hook.fields.get("DialCallStatus") in ("completed", "answered")
    if spoke and hook.fields.get("DialBridged", "true").lower() != "false":
        # They have spoken with somebody; what was in flight is stored for the record.
        return answers.hold(number, 0, "person_left", flight)
    if site is not None and rung + 1 < len(site.humans):
        return answers.dial(site, rung + 1, number, flight, why=hook.query.get("why"))
    said = flight.said if flight is not None else Said()
    return answers.hold(number, 0, "nobody_yet", Flight(said, now_ms()))


async def _human_left(party: Party, hook: Hook) -> Twiml:
    if hook.line_closed:
        return await ended(party, hook)
    try:
        await _given_back(party, hook.call_sid)
    except StoreError:
        return _stay(party, hook)
    standing = await party.standing(hook.call_sid)
    answers = party.answers(hook, standing)
    if standing is not None and (settled := settle(party, hook, standing)) is not None:
        return settled
    number = hook.turn() if standing is None else standing.heard + 1
    told = ("go_on",) if LEFT in hook.query else ("person_left", "go_on")
    return answers.listen(number, answers.phrases(*told))


async def _given_back(party: Party, call_sid: str) -> None:
    """The agent has the call again. Until that is kept the record has the caller with a human, and
    their next words would bring them into a room where nobody is. Raises StoreError."""
    now = asyncio.get_running_loop().time
    give_up = now() + GIVEN_BACK_WITHIN_S
    while True:
        try:
            await party.desk.ask(party.ringing.left, call_sid)
        except StoreError:
            if now() > give_up:
                raise
            await asyncio.sleep(RETRY_S)
        else:
            return


def _stay(party: Party, hook: Hook) -> Twiml:
    """The server is gone: the caller hears something and asks again, or is put through."""
    answers, site = party.answers(hook), party.site_of(hook)
    left_ms = counted(hook.query.get(LEFT, "")) or now_ms()
    if site is not None and now_ms() - left_ms >= party.settings.outage_transfer_s * 1000:
        return answers.dial(site, 0, hook.turn(), Flight(Said(), left_ms))
    said = answers.phrase("still_here" if LEFT in hook.query else "person_left")
    return (
        Twiml(answers.language)
        .say(said)
        .redirect(party.addresses.to("/voice/transfer-ended", n=hook.turn(), left=left_ms))
    )
