"""How a phrase of a person reaches a caller whose line asks by webhooks.

It is a document of its own: the phrase, then the address where the call goes on. That address names
the phrase, so that asking for it proves that it was heard; whatever else the carrier asks instead
is answered with the phrase again. The caller's line is fetched for it where that cuts nothing off;
where it cannot be, the next request takes the phrase, a few seconds later.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from callflow.call.record import CallRecord
from callflow.errors import StoreError
from callflow.store.replies import CallStatus
from callflow.twilio.twiml import Twiml
from callflow.web.addresses import Addresses
from callflow.web.hook import Hook
from callflow.web.party import Party
from callflow.web.speaking import spoken_s

LOOK_S = 0.25
"""How often it is looked whether the caller's line may be fetched."""

GIVE_UP_S = 60.0
"""A reply takes no longer to be worded and heard; by then a request has taken the phrase."""

LATE_MS = 2_500
"""So much later than its commit a reply may begin to be heard: after a holding phrase."""

SOCKET_MS = 6_000
"""A relay socket looks for phrases every few seconds, should the notification be lost. To fetch the
line ends it: only where none takes the phrase for so long."""

_IDS = re.compile(r"[A-Za-z0-9_-]{1,64}(\.[A-Za-z0-9_-]{1,64}){0,15}", re.ASCII)


async def heard(party: Party, hook: Hook) -> Party:
    """Keep that the caller has heard the phrases which this address names.

    Where that cannot be kept soon, every address that is given from here on names them again.
    """
    named = hook.query.get("p", "")
    if not _IDS.fullmatch(named):
        return party
    ids = tuple(named.split("."))
    try:
        await party.soon(party.intake.store.staff.mark_heard, hook.call_sid, ids)
    except StoreError:
        return replace(party, addresses=replace(party.addresses, heard=ids))
    return party


async def waiting(
    party: Party, hook: Hook, standing: CallStatus | None, turn: int, phrases: int
) -> Twiml | None:
    """Say what people have for a caller who waits for the reply to `turn`, and let them wait on;
    None where there is nothing, or where that cannot be known."""
    return await _aloud(party, hook, standing, lambda to: to.wait(turn, phrases))


async def fetched(party: Party, hook: Hook, standing: CallStatus) -> Twiml | None:
    """The same for a caller whose line was fetched."""

    def back(to: Addresses) -> str:
        return to.to("/voice/join", told=hook.query.get("told"))

    return await _aloud(party, hook, standing, back, fetched=True)


async def _aloud(
    party: Party,
    hook: Hook,
    standing: CallStatus | None,
    onward: Callable[[Addresses], str],
    *,
    fetched: bool = False,
) -> Twiml | None:
    if standing is None or not standing.sayings:
        return None
    teller = secrets.token_hex(8)
    staff = party.intake.store.staff
    try:
        given = await party.soon(staff.take_phrases, hook.call_sid, teller, fetched=fetched)
    except StoreError:
        return None
    known = party.addresses.heard
    fresh = [one for one in given if one.id not in known]
    if not fresh:
        return None
    twiml = Twiml(party.answers(hook, standing).language)
    for one in fresh:
        twiml.say(one.text)
    named = (*known, *(one.id for one in fresh))
    return twiml.redirect(onward(replace(party.addresses, heard=named)))


@dataclass(frozen=True, slots=True)
class Bringing:
    """Brings phrases to callers from the process in which they were typed. It may die meanwhile."""

    party: Party

    def from_any_thread(self) -> Callable[[str], None]:
        """What has the phrase that waits for a caller said soon; twice is as good as once. Called
        inside the event loop, it gives what other threads may call."""
        loop = asyncio.get_running_loop()

        def begin(call_sid: str) -> None:
            self.party.desk.keep(asyncio.ensure_future(self._bring(call_sid)))

        def bring(call_sid: str) -> None:
            loop.call_soon_threadsafe(begin, call_sid)

        return bring

    async def _bring(self, call_sid: str) -> None:
        party = self.party
        give_up = time.monotonic() + GIVE_UP_S
        while time.monotonic() < give_up:
            record = await party.desk.ask(party.snapshots.find, call_sid)
            if record is None or not any(one.teller is None for one in record.sayings):
                return
            if self._cuts_nothing_off(record, await party.desk.ask(party.snapshots.now_ms)):
                if await party.desk.ask(party.intake.store.staff.claim_fetch, call_sid):
                    await party.desk.errand(party.ringing.fetch, call_sid, told=record.answered)
                return
            await asyncio.sleep(LOOK_S)

    def _cuts_nothing_off(self, record: CallRecord, now_ms: int) -> bool:
        """True when nothing of ours is being said, or is about to be."""
        if record.owed:
            return False  # The request that waits for the reply takes the phrase, too.
        spoken = [one for one in record.conversation_thread if one.role != "caller"]
        if spoken:
            length_s = spoken_s(spoken[-1].text, self.party.settings.speech_letters_per_s)
            if now_ms < spoken[-1].at + length_s * 1000 + LATE_MS:
                return False
        return not self._by_socket(record) or now_ms > record.sayings[0].at + SOCKET_MS

    def _by_socket(self, record: CallRecord) -> bool:
        site = None if record.site is None else self.party.sites.get(record.site)
        voice = site.voice if site is not None and site.voice else self.party.settings.voice
        return voice == "relay"
