"""Brings the phrases that people type to callers, once each, by webhook or by relay socket.

By webhook a phrase is a document of its own, whose next address names it: asking for that proves
that it was heard. A socket sends it behind all else, and notes it once the carrier tells that it
was heard, or the time to say it has passed; what a lost socket has not noted is said again.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

from callflow.call.record import CallRecord, CallStatus
from callflow.errors import StoreError
from callflow.twilio.twiml import Twiml
from callflow.web.answers import Addresses
from callflow.web.call_access import CallAccess
from callflow.web.playback import Playback, spoken_s
from callflow.web.web_context import WebContext

LOOK_S = 0.25
"""How often it is looked whether the caller's line may be fetched."""

GIVE_UP_S = 60.0
"""A reply takes no longer to be worded and heard; by then a request has taken the phrase."""

LATE_MS = 2_500
"""So much later than its commit a reply may begin to be heard: after a holding phrase."""

SOCKET_MS = 6_000
"""A relay socket looks for phrases every few seconds, should the notification be lost. To fetch the
line ends it: only where none takes the phrase for so long."""

UNTOLD_S = 600.0
"""For so long a phrase that was sent, and of which nobody has said that it was heard, is given to
the next socket or request: this one may have broken at once, and nobody else have come since."""

_IDS = re.compile(r"[A-Za-z0-9_-]{1,64}(\.[A-Za-z0-9_-]{1,64}){0,15}", re.ASCII)


async def record_heard(call: CallAccess) -> CallAccess:
    """Keep that the caller has heard the phrases which this address names.

    Where that cannot be kept soon, every address that is given from here on names them again.
    """
    named = call.request.query.get("p", "")
    if not _IDS.fullmatch(named):
        return call
    ids = tuple(named.split("."))
    try:
        await call.web.run_soon(call.web.store.staff.mark_heard, call.call_sid, ids)
    except StoreError:
        return call.naming_as_heard(ids)
    return call


async def say_while_waiting(
    call: CallAccess, status: CallStatus | None, turn: int, phrases: int
) -> Twiml | None:
    """Say what people have for a caller who waits for the reply to `turn`, and let them wait on;
    None where there is nothing, or where that cannot be known."""
    return await _say(call, status, lambda to: to.wait(turn, phrases))


async def say_when_fetched(call: CallAccess, status: CallStatus) -> Twiml | None:
    """The same for a caller whose line was fetched."""

    def back(to: Addresses) -> str:
        return to.to("/voice/join", told=call.request.query.get("told"))

    return await _say(call, status, back, fetched=True)


async def _say(
    call: CallAccess,
    status: CallStatus | None,
    onward: Callable[[Addresses], str],
    *,
    fetched: bool = False,
) -> Twiml | None:
    if status is None or not status.sayings:
        return None
    teller = secrets.token_hex(8)
    try:
        take = call.web.store.staff.take_phrases
        given = await call.web.run_soon(take, call.call_sid, teller, fetched=fetched)
    except StoreError:
        return None
    known = call.addresses.heard
    fresh = [one for one in given if one.id not in known]
    if not fresh:
        return None
    twiml = Twiml(call.answers(status).language)
    for one in fresh:
        twiml.say(one.text)
    named = call.naming_as_heard((*known, *(one.id for one in fresh)))
    return twiml.redirect(onward(named.addresses))


@dataclass(frozen=True, slots=True)
class MessageCourier:
    """Brings phrases to callers from the process in which they were typed. It may die meanwhile."""

    web: WebContext

    def from_any_thread(self) -> Callable[[str], None]:
        """What has the phrase that waits for a caller said soon; twice is as good as once. Called
        inside the event loop, it gives what other threads may call."""
        loop = asyncio.get_running_loop()

        def begin(call_sid: str) -> None:
            self.web.executor.keep(asyncio.ensure_future(self._bring(call_sid)))

        def bring(call_sid: str) -> None:
            loop.call_soon_threadsafe(begin, call_sid)

        return bring

    async def _bring(self, call_sid: str) -> None:
        web, run = self.web, self.web.executor.run
        give_up = time.monotonic() + GIVE_UP_S
        while time.monotonic() < give_up:
            record = await run(web.reader.find, call_sid)
            if record is None or not any(one.teller is None for one in record.sayings):
                return
            if self._cuts_nothing_off(record, await run(web.reader.now_ms)):
                if await run(web.store.staff.claim_fetch, call_sid):
                    fetch = web.ringing.fetch
                    await web.executor.background(fetch, call_sid, told=record.answered)
                return
            await asyncio.sleep(LOOK_S)

    def _cuts_nothing_off(self, record: CallRecord, now_ms: int) -> bool:
        """True when nothing of ours is being said, or is about to be."""
        if record.owed:
            return False  # The request that waits for the reply takes the phrase, too.
        spoken = [one for one in record.conversation_thread if one.role != "caller"]
        if spoken:
            length_s = spoken_s(spoken[-1].text, self.web.settings.speech_letters_per_s)
            if now_ms < spoken[-1].at + length_s * 1000 + LATE_MS:
                return False
        return not self._by_socket(record) or now_ms > record.sayings[0].at + SOCKET_MS

    def _by_socket(self, record: CallRecord) -> bool:
        site = None if record.site is None else self.web.sites.get(record.site)
        voice = site.voice if site is not None and site.voice else self.web.settings.voice
        return voice == "relay"


class SocketMessages:
    """The phrases that one relay socket says. `send` sends one to be spoken."""

    def __init__(
        self, call: CallAccess, playback: Playback, send: Callable[[str], Awaitable[None]]
    ) -> None:
        self._call = call
        self._playback = playback
        self._send = send
        self._teller = secrets.token_hex(8)

    async def say(self, status: CallStatus | None) -> bool:
        """Say what waits, behind all that was sent; True when there was something. What was heard
        by now is noted."""
        if status is None:
            return False
        if not status.sayings:
            self._playback.phrases.clear()  # Somebody has noted them.
            return False
        staff, sid = self._call.web.store.staff, self._call.call_sid
        try:
            given = await self._call.web.run_soon(staff.take_phrases, sid, self._teller)
        except StoreError:
            return False  # They wait in the record; those of a late answer are given again.
        fresh = [one for one in given if one.id not in self._playback.phrases]
        for one in fresh:
            await self._send(one.text)
            self._playback.add_phrase(one.id, one.text, time.monotonic())
        if given:
            # Those that we have sent are given again where that could not be noted.
            with suppress(StoreError):
                names, left_ms = [one.id for one in given], round(UNTOLD_S * 1000)
                await self._call.web.run_soon(staff.mark_heard, sid, names, left_ms=left_ms)
        await self.note_heard_if_possible()
        return bool(fresh)

    async def interrupt(self, until: str) -> None:
        """The caller spoke into what was being said, of which `until` was heard last."""
        if self._playback.interrupt_phrases(until, time.monotonic()):
            # Said by us again: under another name, since they stand as being said under this.
            self._teller = secrets.token_hex(8)
        await self.note_heard_if_possible()

    async def note_heard(self) -> None:
        """Note which phrases were heard by now, so that nobody says them again. Raises StoreError:
        they are noted the next time."""
        names = self._playback.heard_phrases(time.monotonic())
        if names:
            mark_heard = self._call.web.store.staff.mark_heard
            await self._call.web.run_soon(mark_heard, self._call.call_sid, names)
            for name in names:
                self._playback.phrases.pop(name, None)  # Somebody may have noted it meanwhile.

    async def note_heard_if_possible(self) -> None:
        """The same; where it fails, with the next one, or when the socket has gone."""
        with suppress(StoreError):
            await self.note_heard()
