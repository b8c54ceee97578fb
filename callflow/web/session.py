"""One caller on one relay socket: their words into the record, replies out as they are worded.

Two tasks share it: one stores what comes in, one speaks what is to be said, turn after turn. Both
know the call from the record alone, so a session may begin in the middle of a call.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

from callflow.call.record import CallRecord
from callflow.call.utterance import clean
from callflow.errors import CallEnded, StoreError, UnknownCall
from callflow.store.outcome import Hear
from callflow.store.standing import Reply, Standing
from callflow.twilio import frames
from callflow.web.addresses import Flight
from callflow.web.hook import Hook, Said, counted
from callflow.web.party import PHRASES, Party, now_ms
from callflow.web.speaking import Spoken

REPLAY_S = 3.0
"""The same words so soon after are the same frame again: sockets are replayed after a break."""

SILENCE_S = 7.0
"""A caller who says nothing for so long after our last word is heard as silent, as a Gather does:
the procedure goes on, and the second time a human is rung."""

LOOK_S = 3.0
"""How often the record is read for a human who has joined, should the notification be lost."""


class Over(Exception):
    """The session is over: the carrier was told so, and why, where it will be asked for."""


class Session:
    """`send` sends one frame. Every method may raise Over."""

    def __init__(self, party: Party, hook: Hook, send: Callable[[str], Awaitable[None]]) -> None:
        self.call_sid = hook.call_sid
        self._party = party
        self._hook = hook
        self._send = send
        self._answers = party.answers(hook)
        self._spoken = Spoken(party.settings.speech_letters_per_s)
        self._turns: asyncio.Queue[int] = asyncio.Queue()
        self._next_turn = 1
        self._last: tuple[Said, int, float] | None = None
        self._answered = 0
        self._phrases = 0
        self._listening_since = time.monotonic()

    async def begin(self) -> None:
        """Read the record; say what is left of a reply that broke off, answer what is owed."""
        record = await self._record()
        self._answers = self._party.answers(self._hook, Standing.of(record))
        if record.outcome is not None:
            await self.leave("ended")
        self._next_turn, self._answered = record.heard + 1, record.answered
        self._spoken.tells = record.sent is not None and record.sent.played is not None
        for entry in record.conversation_thread:
            if entry.role == "agent":
                self._spoken.resumed(entry.turn, entry.reached)
            else:
                age_s = (record.updated_at - entry.at) / 1000
                said = Said(entry.text, entry.digits)
                self._last = (said, entry.turn, time.monotonic() - age_s)
        try:
            await self._begun_with(record)
            if record.draft is not None:
                heard = await self._party.heard_of(record)
                self._spoken.resumed(record.draft.turn, heard)
        except StoreError:
            """Then a part of the reply is said again: better than not at all."""
        for turn in range(record.answered + 1, record.heard + 1):
            self._turns.put_nowait(turn)

    async def _record(self) -> CallRecord:
        desk, snapshots = self._party.desk, self._party.snapshots
        try:
            record = await desk.ask(snapshots.find, self.call_sid)
            if record is None:
                await self._party.open(self.call_sid, self._hook)
                record = await desk.ask(snapshots.read, self.call_sid)
        except StoreError:
            await self.leave("outage", said=Said(), turn=self._next_turn)
            raise AssertionError("leave() ends the session") from None
        return record

    async def _begun_with(self, record: CallRecord) -> None:
        """What the carrier was told to say before this socket opened is being said now; a reply
        that nobody was told to say is said next."""
        turn, text = record.answered, record.said(record.answered, "agent")
        if record.owed or turn == 0 or not text:
            return
        if self._hook.fields.get("saying") == str(turn):
            since = min(counted(self._hook.fields.get("since", "")) or 0, len(text))
            self._spoken.resumed(turn, text, since)
            self._spoken.aloud(text[since:], time.monotonic())
            await self._tell_sent(turn)
        elif record.sent is None or record.sent.turn < turn:
            # It was answered after the carrier had been told what to begin with.
            self._spoken.sent.pop(turn, None)
            self._turns.put_nowait(turn)

    async def heard(self, said: Said) -> None:
        """The caller has said or pressed something. The same frame again changes nothing."""
        now = time.monotonic()
        self._listening_since = now
        if self._is_replay(said, now):
            return
        while True:
            turn = self._next_turn
            try:
                word = await self._party.hear(self.call_sid, turn, said, self._hook)
                if word is Hear.REPEATED and not await self._ours(turn, said):
                    self._next_turn += 1
                    continue
            except CallEnded:
                await self.leave("ended")
            except StoreError:
                await self.leave("outage", said=said, turn=turn)
            break
        if said.wants_human is not None and self._party.can_ring:
            await self._aloud(self._answers.phrase("getting_person"))
        kept = Said(clean(self.call_sid, said.text), said.digits)  # As the record has it.
        self._next_turn, self._last = turn + 1, (kept, turn, now)
        self._turns.put_nowait(turn)

    def _is_replay(self, said: Said, now: float) -> bool:
        if self._last is None:
            return False
        last, turn, at = self._last
        same = (clean(self.call_sid, said.text), said.digits) == (last.text, last.digits)
        return same and (now - at < REPLAY_S or turn > self._answered)

    async def _ours(self, turn: int, said: Said) -> bool:
        """True when a turn that stands holds these very words, from another socket of this call."""
        record = await self._party.desk.ask(self._party.snapshots.read, self.call_sid)
        return record.said(turn, "caller") == clean(self.call_sid, said.text)

    async def interrupted(self, until: str) -> None:
        """The caller spoke into what we were saying: keep what they had heard of it."""
        self._listening_since = time.monotonic()
        cut = self._spoken.interrupted(until, time.monotonic())
        if cut is not None:
            # Else the reply stands as a whole; what was cut off of it may be said again.
            with suppress(StoreError):
                await self._party.desk.ask(self._party.intake.store.interrupt, self.call_sid, *cut)

    async def played(self, text: str) -> None:
        """The caller has heard these words of ours: should the socket break, we go on after them,
        or after what there was time for where the server cannot be told."""
        known = self._spoken.played(text)
        if known is not None:
            with suppress(StoreError):
                await self._party.desk.ask(self._party.intake.store.played, self.call_sid, *known)

    async def _tell_sent(self, turn: int) -> None:
        spoken = self._spoken
        await self._party.desk.ask(
            self._party.intake.store.sent,
            self.call_sid,
            turn,
            len(spoken.sent[turn]),
            left_ms=round(spoken.left_s(time.monotonic()) * 1000),
            played=spoken.heard.get(turn, 0) if spoken.tells else None,
        )

    def still_speaking(self) -> None:
        """The caller is in the middle of a sentence: not silent."""
        self._listening_since = time.monotonic()

    async def speak(self) -> None:
        """Say every reply in order, for as long as the session lasts."""
        while True:
            turn = await self._next_owed()
            await self._reply(turn)
            self._answered = max(self._answered, turn)
            self._listening_since = time.monotonic()

    async def _next_owed(self) -> int:
        """The next turn to answer. Meanwhile a human may join, or the call end."""
        with self._party.replies.watch(self.call_sid) as watched:
            while self._turns.empty():
                looking = asyncio.create_task(watched.change(LOOK_S))
                asked = asyncio.create_task(self._turns.get())
                try:
                    await asyncio.wait({looking, asked}, return_when=asyncio.FIRST_COMPLETED)
                    if asked.done():
                        return asked.result()
                    await self._look(await looking)
                except (StoreError, UnknownCall):
                    # The next utterance finds out whether the server is back.
                    await asyncio.sleep(LOOK_S)
                finally:
                    looking.cancel()
                    asked.cancel()
        return self._turns.get_nowait()

    async def _look(self, standing: Standing) -> None:
        await self._settle(standing)
        quiet_at = max(self._spoken.quiet_at, self._listening_since)
        if standing.handling == "human":
            await self._until_a_human_comes(standing, time.monotonic() > self._spoken.quiet_at)
        elif time.monotonic() - quiet_at > SILENCE_S:
            await self.heard(Said(understood=False))

    async def _settle(self, standing: Standing) -> None:
        if standing.outcome is not None:
            await self.leave("ended")
        if standing.with_human:
            await self.leave("human")

    async def _reply(self, turn: int) -> None:
        """Say the reply to one turn as it grows, holding phrases while it does not come."""
        self._phrases = 0
        with self._party.replies.expect(self.call_sid, turn) as expected:
            look_first = True
            while True:
                try:
                    async with asyncio.timeout(max(0.05, self._speak_by() - time.monotonic())):
                        async for reply in expected.follow(look_first=look_first):
                            if await self._pieces(turn, reply):
                                return
                        continue
                except (TimeoutError, StoreError, UnknownCall):
                    look_first = True
                if time.monotonic() >= self._speak_by():
                    await self._hold()

    def _speak_by(self) -> float:
        """When the caller must hear something again (monotonic, s)."""
        silent_since = max(self._spoken.quiet_at, self._listening_since)
        return silent_since + self._party.settings.reply_wait_s

    async def _pieces(self, turn: int, reply: Reply) -> bool:
        """Send what is new of the reply. True when the turn needs nothing more."""
        sent = self._spoken.sent.get(turn, "")
        if turn in self._spoken.cut:
            return True
        await self._speak_in(reply.lang)
        new = reply.text[len(sent) :] if reply.text.startswith(sent) else ""
        if new or (reply.done and reply.text):
            await self._send(frames.text(new, last=reply.done, lang=None))
            self._spoken.said(turn, new, time.monotonic())
            await self._tell_sent(turn)
        if reply.over and reply.standing is not None and not reply.done:
            await self._settle(reply.standing)
            await self._until_a_human_comes(reply.standing, now=True)
            return True
        return reply.done

    async def _speak_in(self, language: str | None) -> None:
        """The reply is in another language than before: speak, and listen, in that one."""
        answers = self._party.answers_in(self._answers, language)
        if answers is not self._answers:
            self._answers = answers
            await self._send(frames.language(answers.language, answers.language))

    async def _hold(self) -> None:
        """Nothing to say yet: the caller must hear something. After the second phrase a human."""
        self._phrases += 1
        if self._phrases <= PHRASES:
            await self._aloud(self._answers.phrase(f"hold_{self._phrases}"))
            return
        ringing = await self._party.fetch_human(self.call_sid)
        odd = self._phrases % 2 == 1
        await self._aloud(self._answers.phrase("getting_person" if ringing and odd else "hold_1"))

    async def _until_a_human_comes(self, standing: Standing, now: bool) -> None:
        """The agent is silent for good: the caller hears that humans are being rung."""
        alert = standing.alert
        if alert is None or alert.state == "nobody" or alert.round > 1:
            await self._party.desk.ask(
                self._party.intake.store.handovers.resume,
                self.call_sid,
                "nobody has picked up",
                over=False,
            )
            await self._aloud(self._answers.phrase("nobody_yet"))
        elif now:
            await self._party.desk.errand(self._party.ringing.ring, self.call_sid)
            await self._aloud(self._answers.phrase("getting_person"))

    async def _aloud(self, text: str) -> None:
        await self._send(frames.text(text, last=True, lang=None))
        self._spoken.aloud(text, time.monotonic())

    async def leave(self, reason: str, *, said: Said | None = None, turn: int = 0) -> None:
        """End the session; the action address is asked what comes next. Raises Over."""
        carried = {} if said is None else Flight(said, now_ms()).handoff | {"n": str(turn)}
        await self._send(frames.end({"reason": reason, **carried}))
        raise Over
