"""A call arrives: its record is opened, and the caller greeted, or put through where we are full.

Nobody is refused. A caller too many is rung through to the humans of their lift by the carrier
itself, which needs no worker, and comes to the agent where none of them picks up.
"""

from __future__ import annotations

from callflow.call.limits import OVERLOAD
from callflow.errors import StoreError
from callflow.sites.site import Site
from callflow.store.replies import CallStatus
from callflow.twilio.twiml import Twiml
from callflow.web.addresses import Flight
from callflow.web.hook import Hook, Said
from callflow.web.party import Party, now_ms
from callflow.web.voice import go_on


async def inbound(party: Party, hook: Hook) -> Twiml:
    """A call arrives, or this request arrives again."""
    answers = party.answers(hook)
    site = party.site_of(hook)
    opening = answers.opening(alerting=party.alerting(site))
    try:
        crowded = site is not None and await party.crowded()
        opened = await party.open(hook.call_sid, hook, crowded=crowded)
    except StoreError:
        # The first turn opens the record, if the server is back by then.
        return answers.listen(1, opening)
    if not opened:
        standing = await party.standing(hook.call_sid)
        if site is not None and _was_too_many(standing):
            return _put_through(party, hook, site)
        return await go_on(party, hook, fresh=opening)
    if site is not None and crowded:
        return _put_through(party, hook, site)
    return answers.listen(1, opening)


def _was_too_many(standing: CallStatus | None) -> bool:
    if standing is None or standing.outcome is not None:
        return False
    return standing.needs_human == OVERLOAD and standing.heard == 0


def _put_through(party: Party, hook: Hook, site: Site) -> Twiml:
    # Nothing was said yet; what is in flight has the caller's line come back as turn 1.
    return party.answers(hook).dial(site, 0, 1, Flight(Said(), now_ms()), why=OVERLOAD)
