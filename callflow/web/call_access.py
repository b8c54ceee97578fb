"""Gives a webhook or a socket access to the call that it is about."""

from __future__ import annotations

from dataclasses import dataclass, replace

from callflow import tracing
from callflow.call.language_tag import same_language
from callflow.call.limits import OVERLOAD
from callflow.call.record import CallRecord, CallStatus, ReplyProgress
from callflow.call.utterance import clean
from callflow.errors import StoreError, UnknownCall
from callflow.sites.site import Site
from callflow.store.result import Result, UtteranceStored
from callflow.twilio.twiml import Twiml
from callflow.web.answers import BY_WEBHOOKS, Addresses, Answers
from callflow.web.playback import heard_part
from callflow.web.web_context import LOOK_WITHIN_S, WebContext
from callflow.web.webhook import CallerInput, VoiceRequest


@dataclass(frozen=True, slots=True)
class CallAccess:
    """One call, as the request or the socket that it is about sees it."""

    web: WebContext
    request: VoiceRequest
    call_sid: str
    addresses: Addresses

    @classmethod
    def by_request(cls, web: WebContext, request: VoiceRequest) -> CallAccess:
        """The call that a request is about. Raises InvalidCallSid."""
        by_webhooks = BY_WEBHOOKS in request.query
        addresses = replace(web.addresses, by_webhooks=by_webhooks)
        return cls(web, request, request.call_sid, addresses)

    @classmethod
    def by_sid(cls, web: WebContext, call_sid: str) -> CallAccess:
        """A call that no request is about. Raises InvalidCallSid."""
        return cls.by_request(web, VoiceRequest({"CallSid": call_sid}, {}))

    @property
    def site(self) -> Site | None:
        """The lift that calls, by its number or by the number that it dialled."""
        return self.web.sites.find(self.request.called, self.request.calling)

    @property
    def rings_at_start(self) -> bool:
        """True when a human is rung for every call of this site, from its start."""
        return self.site is not None and self.site.mode == "assist" and self.web.can_ring

    @property
    def opening(self) -> str:
        """What the caller hears first."""
        return self.answers().opening(alerting=self.rings_at_start)

    def answers(self, status: CallStatus | None = None) -> Answers:
        """How to speak with this caller: in the language of the record, else that of the site."""
        site = self.site
        language = site.language if site is not None else "en"
        if status is not None and not same_language(language, status.language):
            language = status.language
        voice = site.voice if site is not None and site.voice else self.web.settings.voice
        if self.addresses.by_webhooks:
            voice = "gather"
        return Answers(self.addresses, language, voice, site)

    def conclude(self, status: CallStatus) -> Twiml | None:
        """The answer where the conversation with us is over: the line is closed, or a human is on
        it. Else None."""
        if status.outcome is not None:
            return self.answers(status).hang_up()
        if status.with_human:
            return self.answers(status).conference(self.call_sid, status.heard + 1)
        return None

    async def open(self, *, full: bool = False) -> bool:
        """Open the record of the call; False when it was open. Raises StoreError.

        `full`: it is one call too many, and the caller's own line rings the humans.
        """
        site, run = self.site, self.web.executor.run
        word = await run(
            self.web.intake.open,
            self.call_sid,
            site=None if site is None else site.id,
            language="en" if site is None else site.language,
            greeting=self.opening,
            alert="assist" if self.rings_at_start and not full else None,
            needs_human=OVERLOAD if full else None,
            facts={} if site is None else {"lift": site.lift, "address": site.address},
        )
        if word is not Result.OK:
            return False
        note = self.web.store.handovers.add_journal_line
        if full:
            await run(note, self.call_sid, "put_through", OVERLOAD)
        elif site is not None and site.mode == "agent_only":
            await run(note, self.call_sid, "agent_only", f"site {site.id} says so")
        return True

    async def record_utterance(
        self, turn: int, said: CallerInput, *, told: int = 0, replays: bool = False
    ) -> tuple[UtteranceStored, int]:
        """Store what was said: what became of it, and under which turn it stands.

        Our address named `turn`, so whoever gave it had stored the turns before, and had passed on
        the reply to `told`: a record that has lost any of it, or itself, goes on from here. With
        `replays` other words than those that stand for `turn` are those of a later one: a socket
        may say again what another one has said, and may have been left behind by it. Raises
        CallEnded and StoreError.
        """
        run, sid = self.web.executor.run, self.call_sid
        with tracing.turn("hear", sid, turn, first=True):
            while True:
                try:
                    heard, sent = await run(
                        self.web.intake.hear,
                        sid,
                        turn,
                        said.text,
                        digits=said.digits,
                        confidence=said.confidence,
                        understood=said.understood,
                        wants_human=said.wants_human,
                        after_loss=True,
                    )
                except UnknownCall:
                    await self.open()
                    continue
                if heard.result is Result.AGAIN and replays:
                    record = await run(self.web.reader.read, sid)
                    stands = _find_turn(record, turn, said)
                    if stands > record.heard:
                        turn = stands
                        continue
                    return heard, stands
                if told and sent is None:
                    # Somebody works on the call, or an older turn is owed: one that was answered?
                    await run(self.web.store.failover.admit_loss, sid, 0, told=told)
                return heard, turn

    async def admit_loss(self, turn: int, *, told: int = 0) -> None:
        """A failover took `turn`, which we had acknowledged, or the reply to `told`, which was
        passed on: journal it, and go on behind it. Raises CallEnded and StoreError."""
        run, admit = self.web.executor.run, self.web.store.failover.admit_loss
        try:
            await run(admit, self.call_sid, turn, told=told)
        except UnknownCall:
            await self.open()
            await run(admit, self.call_sid, turn, told=told)

    async def may_say(self, turn: int, text: str) -> bool:
        """Whether `text` of the reply to `turn` may be spoken: no failover can take it any more, or
        the settings say that one may. Raises StoreError, StoreUnreplicated too, and UnknownCall."""
        failover = self.web.store.failover
        if not failover.guarded:
            return True
        return await self.web.executor.run(failover.has_reply, self.call_sid, turn, text)

    async def heard_part(self, record: CallRecord) -> str:
        """What a caller can have heard of the newest reply, which a socket was sent that is gone.
        Raises StoreError."""
        told = record.sent is None or record.sent.played is not None
        now_ms = 0 if told else await self.web.run_soon(self.web.reader.now_ms)
        return heard_part(record, now_ms, self.web.settings.speech_letters_per_s)

    async def status(self, within_s: float = LOOK_WITHIN_S) -> CallStatus | None:
        """Where the call stands; None when there is no such call. Raises StoreError."""
        try:
            return await self.web.executor.limit(within_s, self.web.replies.status(self.call_sid))
        except UnknownCall:
            return None

    async def status_if_known(self, within_s: float = LOOK_WITHIN_S) -> CallStatus | None:
        """Where the call stands; None when that cannot be found out, or there is no such call."""
        try:
            return await self.status(within_s)
        except StoreError:
            return None

    async def progress(self, turn: int, within_s: float = LOOK_WITHIN_S) -> ReplyProgress:
        """What can be said of `turn` by now. Raises UnknownCall and StoreError."""
        return await self.web.executor.limit(within_s, self.web.replies.read(self.call_sid, turn))

    def naming_as_heard(self, phrases: tuple[str, ...]) -> CallAccess:
        """The same call, whose addresses name these phrases of people as heard."""
        return replace(self, addresses=replace(self.addresses, heard=phrases))


def _find_turn(record: CallRecord, turn: int, said: CallerInput) -> int:
    """Under which turn these words stand, from `turn` on; the next one where they do not."""
    words = (clean(record.call_sid, said.text), said.digits)
    stored = {e.turn: (e.text, e.digits) for e in record.conversation_thread if e.role == "caller"}
    # What is not in the thread was lost, or the call has gone on for too long to keep it.
    if stored.get(turn, words) == words:
        return turn
    later = (number for number, kept in stored.items() if number > turn and kept == words)
    return next(later, record.heard + 1)
