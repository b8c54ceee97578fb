"""What every request is answered with: the parts of one web process, and nothing about any call."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ParamSpec, TypeVar

from callflow import tracing
from callflow.call.language_tag import same_language
from callflow.call.limits import OVERLOAD
from callflow.call.record import CallRecord
from callflow.call.utterance import clean
from callflow.errors import StoreError, StoreUnavailable, UnknownCall
from callflow.handover import Ringing
from callflow.intake import Intake
from callflow.settings import Settings
from callflow.sites.directory import Sites
from callflow.sites.site import Site
from callflow.store.reader import CallReader
from callflow.store.replies import CallStatus, Replies, ReplyProgress
from callflow.store.result import Result, UtteranceStored
from callflow.web.addresses import Addresses
from callflow.web.answers import Answers
from callflow.web.desk import Desk
from callflow.web.hook import Hook, Said
from callflow.web.speaking import unplayed, unspoken

P = ParamSpec("P")
T = TypeVar("T")

PHRASES = 2
"""Holding phrases that a caller hears before a human is fetched."""

LOOK_WITHIN_S = 0.5
"""A look into the record takes some milliseconds, and a caller waits in silence meanwhile."""

DUE_S = 0.15
"""The same when a phrase is due already, after 3.5 s: three of these leave the caller's 4 s."""

ASKED_WITHIN_S = 2.0
"""For so long the store may be asked in vain: an answer that does not come, a new connection, and
another answer. After that the caller must hear something."""


@dataclass(frozen=True, slots=True)
class Party:
    """Everything that a web process has. Built once, when it starts."""

    settings: Settings
    sites: Sites
    intake: Intake
    ringing: Ringing
    snapshots: CallReader
    replies: Replies
    desk: Desk
    addresses: Addresses

    @property
    def can_ring(self) -> bool:
        """True when humans can be rung at all."""
        return self.ringing.telephone is not None

    def site_of(self, hook: Hook) -> Site | None:
        """The lift that calls, by its number or by the number that it dialled."""
        return self.sites.find(hook.called, hook.calling)

    def answers(self, hook: Hook, standing: CallStatus | None = None) -> Answers:
        """How to speak with this caller: in the language of the record, else that of the site."""
        site = self.site_of(hook)
        language = site.language if site is not None else "en"
        if standing is not None and not same_language(language, standing.language):
            language = standing.language
        voice = site.voice if site is not None and site.voice else self.settings.voice
        return Answers(self.addresses, language, voice)

    def answers_in(self, answers: Answers, language: str | None) -> Answers:
        """The same way to speak, in the language that a reply is in: the call may have changed it
        with this very turn."""
        if language is None or same_language(answers.language, language):
            return answers
        return replace(answers, language=language)

    async def soon(self, question: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """What the store answers while a caller must hear something. Raises StoreError; where it
        takes longer than DUE_S, too, and then it may be done all the same."""
        try:
            async with asyncio.timeout(DUE_S):
                return await self.desk.ask(question, *args, **kwargs)
        except TimeoutError as error:
            raise StoreUnavailable(self.desk.where, "it did not answer in time") from error

    async def crowded(self) -> bool:
        """True when as many calls are open as may be. Raises StoreError."""
        counts = await self.desk.ask(self.snapshots.counts)
        return counts["active"] >= self.settings.open_calls_most

    async def open(self, call_sid: str, hook: Hook, *, crowded: bool = False) -> bool:
        """Open the record of the call; False when it was open. Raises StoreError.

        `crowded`: it is one too many, and the caller's own line rings the humans.
        """
        site = self.site_of(hook)
        alerting = self.alerting(site)
        word = await self.desk.ask(
            self.intake.open,
            call_sid,
            site=None if site is None else site.id,
            language="en" if site is None else site.language,
            greeting=self.answers(hook).opening(alerting=alerting),
            alert="assist" if alerting and not crowded else None,
            needs_human=OVERLOAD if crowded else None,
            facts={} if site is None else {"lift": site.lift, "address": site.address},
        )
        if word is not Result.OK:
            return False
        note = self.intake.store.handovers.note
        if crowded:
            await self.desk.ask(note, call_sid, "put_through", OVERLOAD)
        elif site is not None and site.mode == "agent_only":
            await self.desk.ask(note, call_sid, "agent_only", f"site {site.id} says so")
        return True

    def alerting(self, site: Site | None) -> bool:
        """True when a human is rung for every call of this site, from its start."""
        return site is not None and site.mode == "assist" and self.can_ring

    async def hear(
        self,
        call_sid: str,
        turn: int,
        said: Said,
        hook: Hook,
        *,
        told: int = 0,
        replays: bool = False,
    ) -> tuple[UtteranceStored, int]:
        """Store what was said: what became of it, and under which turn it stands.

        Our address named `turn`, so whoever gave it had stored the turns before, and had passed on
        the reply to `told`: a record that has lost any of it, or itself, goes on from here. With
        `replays` other words than those that stand for `turn` are those of a later one: a socket
        may say again what another one has said, and may have been left behind by it. Raises
        CallEnded and StoreError.
        """
        with tracing.turn("hear", call_sid, turn, first=True):
            while True:
                try:
                    heard, woken = await self._hear(call_sid, turn, said)
                except UnknownCall:
                    await self.open(call_sid, hook)
                    continue
                if heard.result is Result.AGAIN and replays:
                    record = await self.desk.ask(self.snapshots.read, call_sid)
                    stands = _stands(record, turn, said)
                    if stands > record.heard:
                        turn = stands
                        continue
                    return heard, stands
                elif told and not woken:
                    # Somebody works on the call, or an older turn is owed: one that was answered?
                    admit_loss = self.intake.store.failover.admit_loss
                    await self.desk.ask(admit_loss, call_sid, 0, told=told)
                return heard, turn

    async def _hear(self, call_sid: str, turn: int, said: Said) -> tuple[UtteranceStored, bool]:
        heard, sent = await self.desk.ask(
            self.intake.hear,
            call_sid,
            turn,
            said.text,
            digits=said.digits,
            understood=said.understood,
            wants_human=said.wants_human,
            after_loss=True,
        )
        return heard, sent is not None

    async def lost(self, call_sid: str, turn: int, hook: Hook, *, told: int = 0) -> None:
        """A failover took `turn`, which we had acknowledged, or the reply to `told`, which was
        passed on: journal it, and go on behind it. Raises CallEnded and StoreError."""
        note = self.intake.store.failover.admit_loss
        try:
            await self.desk.ask(note, call_sid, turn, told=told)
        except UnknownCall:
            await self.open(call_sid, hook)
            await self.desk.ask(note, call_sid, turn, told=told)

    async def may_say(self, call_sid: str, turn: int, text: str) -> bool:
        """Whether `text` of the reply to `turn` may be spoken: no failover can take it any more, or
        the settings say that one may. Raises StoreError, StoreUnreplicated too, and UnknownCall."""
        losses = self.intake.store.failover
        if not losses.guarded:
            return True
        return await self.desk.ask(losses.has_reply, call_sid, turn, text)

    async def heard_of(self, record: CallRecord) -> str:
        """What a caller can have heard of the newest reply, which a socket was sent that is gone.

        Empty when no socket was sent any of it. Raises StoreError.
        """
        sent, draft = record.sent, record.draft
        turn = record.answered if draft is None else draft.turn
        text = record.said(turn, "agent") if draft is None else draft.text
        if sent is None or sent.turn != turn or text is None:
            return ""
        said = text[: sent.length]
        if sent.played is not None:
            return said[: len(said) - len(unplayed(said, sent.played))]
        since_s = (await self.soon(self.snapshots.now_ms) - sent.at) / 1000
        left_s = sent.left_ms / 1000 - since_s
        left = unspoken(said, left_s, self.settings.speech_letters_per_s)
        return said[: len(said) - len(left)]

    async def fetch_human(self, call_sid: str, reason: str = "no_reply") -> bool:
        """Have a human rung for a caller who got no reply; True when one is being rung."""
        handovers = self.intake.store.handovers
        before = await self.standing(call_sid)
        try:
            wanted = await self.desk.ask(handovers.want, call_sid, reason)
            if wanted is Result.OK and before is not None and before.unserved:
                await self.desk.ask(handovers.note, call_sid, "unserved", OVERLOAD)
            # No worker may be there to do it: then whoever speaks with the caller does.
            await self.desk.begin(self.ringing.ring, call_sid)
        except StoreError:
            return False
        standing = await self.standing(call_sid)
        alert = None if standing is None else standing.alert
        return alert is not None and alert.state == "ringing"

    async def fetch_soon(self, call_sid: str) -> bool:
        """The same for a caller who must hear something now: False, too, where it takes longer,
        and it goes on behind us."""
        fetching = asyncio.ensure_future(self.fetch_human(call_sid))
        self.desk.keep(fetching)
        done, _ = await asyncio.wait({fetching}, timeout=DUE_S)
        return bool(done) and fetching.result()

    async def standing(self, call_sid: str, within_s: float = LOOK_WITHIN_S) -> CallStatus | None:
        """Where the call stands; None when that cannot be found out, or there is no such call."""
        try:
            return await self.look(call_sid, within_s)
        except StoreError:
            return None

    async def read(
        self, call_sid: str, turn: int, within_s: float = LOOK_WITHIN_S
    ) -> ReplyProgress:
        """What can be said of `turn` by now. Raises UnknownCall and StoreError."""
        try:
            async with asyncio.timeout(within_s):
                return await self.replies.read(call_sid, turn)
        except TimeoutError as error:
            raise StoreUnavailable(self.desk.where, "it did not answer in time") from error

    async def look(self, call_sid: str, within_s: float = LOOK_WITHIN_S) -> CallStatus | None:
        """Where the call stands; None when there is no such call. Raises StoreError."""
        try:
            async with asyncio.timeout(within_s):
                return await self.replies.status(call_sid)
        except UnknownCall:
            return None
        except TimeoutError as error:
            raise StoreUnavailable(self.desk.where, "it did not answer in time") from error


def is_lost(reply: ReplyProgress, turn: int) -> bool:
    """True where a failover has taken the turn: the record does not have it, or has let it go."""
    standing = reply.status
    if standing is None or reply.done or reply.over:
        return False
    return standing.heard < turn or standing.answered >= turn


def _stands(record: CallRecord, turn: int, said: Said) -> int:
    """Under which turn these words stand, from `turn` on; the next one where they do not."""
    words = (clean(record.call_sid, said.text), said.digits)
    stored = {e.turn: (e.text, e.digits) for e in record.conversation_thread if e.role == "caller"}
    # What is not in the thread was lost, or the call has gone on for too long to keep it.
    if stored.get(turn, words) == words:
        return turn
    later = (number for number, kept in stored.items() if number > turn and kept == words)
    return next(later, record.heard + 1)


def now_ms() -> int:
    """This machine's clock, for how long an outage has lasted: machines agree to a second."""
    return int(time.time() * 1000)
