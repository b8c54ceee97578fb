"""A caller comes back to us: the human has left, or a number that was rung is not answered."""

from __future__ import annotations

from callflow.errors import StoreError
from callflow.twilio.twiml import Twiml
from callflow.web.addresses import Flight
from callflow.web.ending import ended
from callflow.web.hook import Hook, Said
from callflow.web.party import Party, now_ms
from callflow.web.voice import settle


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
        await party.desk.ask(party.ringing.left, hook.call_sid)
    except StoreError:
        answers = party.answers(hook)
        return answers.listen(hook.turn(), answers.phrases("person_left", "go_on"))
    standing = await party.standing(hook.call_sid)
    answers = party.answers(hook, standing)
    if standing is not None and (settled := settle(party, hook, standing)) is not None:
        return settled
    number = hook.turn() if standing is None else standing.heard + 1
    return answers.listen(number, answers.phrases("person_left", "go_on"))
