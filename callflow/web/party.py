"""What every request is answered with: the parts of one web process, and nothing about any call."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from callflow.call.record import CallRecord
from callflow.errors import StoreError, UnknownCall
from callflow.intake import Intake
from callflow.ringing import Ringing
from callflow.settings import Settings
from callflow.sites.directory import Sites
from callflow.sites.site import Site
from callflow.store.outcome import Hear
from callflow.store.replies import Replies
from callflow.store.snapshot import Snapshots
from callflow.store.standing import Standing
from callflow.web.addresses import Addresses
from callflow.web.answers import Answers
from callflow.web.desk import Desk
from callflow.web.hook import Hook, Said
from callflow.web.speaking import unplayed, unspoken

PHRASES = 2
"""Holding phrases that a caller hears before a human is fetched."""


@dataclass(frozen=True, slots=True)
class Party:
    """Everything that a web process has. Built once, when it starts."""

    settings: Settings
    sites: Sites
    intake: Intake
    ringing: Ringing
    snapshots: Snapshots
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

    def answers(self, hook: Hook, standing: Standing | None = None) -> Answers:
        """How to speak with this caller: in the language of the record, else that of the site."""
        site = self.site_of(hook)
        language = site.language if site is not None else "en"
        if standing is not None and not _same_tongue(language, standing.language):
            language = standing.language
        voice = site.voice if site is not None and site.voice else self.settings.voice
        return Answers(self.addresses, language, voice)

    def answers_in(self, answers: Answers, language: str | None) -> Answers:
        """The same way to speak, in the language that a reply is in: the call may have changed it
        with this very turn."""
        if language is None or _same_tongue(answers.language, language):
            return answers
        return replace(answers, language=language)

    async def open(self, call_sid: str, hook: Hook) -> bool:
        """Open the record of the call; False when it was open. Raises StoreError."""
        site = self.site_of(hook)
        alerting = self.alerting(site)
        word = await self.desk.ask(
            self.intake.open,
            call_sid,
            site=None if site is None else site.id,
            language="en" if site is None else site.language,
            greeting=self.answers(hook).opening(alerting=alerting),
            alert="assist" if alerting else None,
            facts={} if site is None else {"lift": site.lift, "address": site.address},
        )
        if word == "opened" and site is not None and site.mode == "agent_only":
            await self.desk.ask(
                self.intake.store.handovers.note, call_sid, "agent_only", f"site {site.id} says so"
            )
        return word == "opened"

    def alerting(self, site: Site | None) -> bool:
        """True when a human is rung for every call of this site, from its start."""
        return site is not None and site.mode == "assist" and self.can_ring

    async def hear(self, call_sid: str, turn: int, said: Said, hook: Hook) -> Hear:
        """Store what was said. A record that has lost turns, or itself, goes on from here.

        Our address named `turn`, so whoever gave it had stored the turns before. Raises CallEnded
        and StoreError.
        """
        try:
            return await self._hear(call_sid, turn, said)
        except UnknownCall:
            await self.open(call_sid, hook)
            return await self._hear(call_sid, turn, said)

    async def _hear(self, call_sid: str, turn: int, said: Said) -> Hear:
        word, _ = await self.desk.ask(
            self.intake.hear,
            call_sid,
            turn,
            said.text,
            digits=said.digits,
            understood=said.understood,
            wants_human=said.wants_human,
            after_loss=True,
        )
        return word

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
        since_s = (await self.desk.ask(self.snapshots.now_ms) - sent.at) / 1000
        left_s = sent.left_ms / 1000 - since_s
        left = unspoken(said, left_s, self.settings.speech_letters_per_s)
        return said[: len(said) - len(left)]

    async def fetch_human(self, call_sid: str) -> bool:
        """Have a human rung for a caller who got no reply; True when one is being rung."""
        try:
            await self.desk.ask(self.intake.store.handovers.want, call_sid, "no_reply")
            # No worker may be there to do it: then whoever speaks with the caller does.
            await self.desk.errand(self.ringing.ring, call_sid)
        except StoreError:
            return False
        standing = await self.standing(call_sid)
        alert = None if standing is None else standing.alert
        return alert is not None and alert.state == "ringing"

    async def standing(self, call_sid: str) -> Standing | None:
        """Where the call stands; None when that cannot be found out, or there is no such call."""
        try:
            return await self.replies.standing(call_sid)
        except (StoreError, UnknownCall):
            return None


def _same_tongue(one: str, other: str) -> bool:
    return one.split("-")[0].lower() == other.split("-")[0].lower()


def now_ms() -> int:
    """This machine's clock, for how long an outage has lasted: machines agree to a second."""
    return int(time.time() * 1000)
