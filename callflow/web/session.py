"""One caller on one relay socket: their words into the record, replies out as they are worded.

Two tasks share it: one stores what comes in, one speaks what is to be said, turn after turn. Both
know the call from the record alone, so a session may begin in the middle of a call.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from callflow import tracing
from callflow.call.record import CallRecord
from callflow.call.utterance import clean
from callflow.errors import CallEnded, StoreError, UnknownCall
from callflow.store.replies import CallStatus, ReplyProgress
from callflow.twilio import relay_frames as frames
from callflow.web.hook import Hook, Said, counted
from callflow.web.party import ASKED_WITHIN_S, DUE_S, PHRASES, Party, is_lost
from callflow.web.talk import Talk, let_go

REPLAY_S = 3.0
"""The same words so soon after are the same frame again: sockets are replayed after a break."""

SILENCE_S = 7.0
"""A caller who says nothing for so long after our last word is heard as silent, as a Gather does:
the procedure goes on, and the second time a human is rung."""

OUTAGE_S = 0.1
"""Between two tries while the server that holds the calls is gone."""

LOOK_S = 3.0
"""How often the record is read for a human who has joined, should the notification be lost."""


class Session(Talk):
    """`send` sends one frame. Every method may raise Over."""

    def __init__(self, party: Party, hook: Hook, send: Callable[[str], Awaitable[None]]) -> None:
        super().__init__(party, hook, send)
        self._turns: asyncio.Queue[int] = asyncio.Queue()
        self._next_turn = 1
        self._last: tuple[Said, int, float] | None = None
        self._answered = 0
        self._told = 0
        """The last turn whose reply was sent by this socket."""
        self._phrases = 0
        self._hearing = asyncio.Lock()

    async def begin(self) -> None:
        """Read the record; say what is left of a reply that broke off, answer what is owed."""
        record = await self._record()
        self._answers = self._party.answers(self._hook, CallStatus.of(record))
        if record.outcome is not None:
            await self.leave("ended")
        self._next_turn, self._answered = record.heard + 1, record.answered
        self._spoken.tells = record.sent is not None and record.sent.played is not None
        for entry in record.conversation_thread:
            if entry.role == "agent":
                self._spoken.resumed(entry.turn, entry.reached)
            elif entry.role == "caller":
                age_s = (record.updated_at - entry.at) / 1000
                self._last = (Said(entry.text, entry.digits), entry.turn, time.monotonic() - age_s)
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
        """As soon as it can be read: to leave would cut off what is being said to begin with."""
        ask, snapshots = self._party.desk.ask, self._party.snapshots
        patient_until = time.monotonic() + self._greeting_s()
        while True:
            try:
                if (record := await ask(snapshots.find, self.call_sid)) is not None:
                    return record
                await self._party.open(self.call_sid, self._hook)
            except StoreError:
                if time.monotonic() >= patient_until:
                    await self.leave("outage", said=Said(), turn=self._next_turn)
                await asyncio.sleep(OUTAGE_S)

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
            await self._tell_sent(turn, greeted=True)
        elif record.sent is None or record.sent.turn < turn:
            # It was answered after the carrier had been told what to begin with.
            self._spoken.sent.pop(turn, None)
            self._turns.put_nowait(turn)

    async def heard(self, said: Said) -> None:
        """The caller has said or pressed something. The same frame again changes nothing."""
        now = self._listening_since = time.monotonic()
        # One after the other: a silence must not overtake the words that end it.
        async with self._hearing:
            await self._hear(said, now)

    async def _hear(self, said: Said, now: float) -> None:
        if self._is_replay(said, now):
            return
        turn = self._next_turn
        try:
            async with asyncio.timeout(ASKED_WITHIN_S):
                _, turn = await self._party.hear(
                    self.call_sid, turn, said, self._hook, told=self._told, replays=True
                )
        except CallEnded:
            await self.leave("ended")
        except (StoreError, TimeoutError):
            await self.leave("outage", said=said, turn=turn, waited_s=time.monotonic() - now)
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

    def still_speaking(self) -> None:
        """The caller is in the middle of a sentence: not silent."""
        self._listening_since = time.monotonic()

    async def speak(self) -> None:
        """Say every reply in order, for as long as the session lasts."""
        while True:
            await self._phrases_of_people.say(await self._party.standing(self.call_sid, DUE_S))
            turn = await self._next_owed()
            with tracing.turn("speak", self.call_sid, turn):
                await self._reply(turn)
            self._answered = max(self._answered, turn)
            self._told = turn
            self._listening_since = time.monotonic()

    async def _next_owed(self) -> int:
        """The next turn to answer. Meanwhile a human may join, or the call end."""
        # One for all rounds: a turn that it takes while a round looks elsewhere is not lost.
        asked = asyncio.create_task(self._turns.get())
        try:
            with self._party.replies.watch(self.call_sid) as watched:
                while not asked.done():
                    within_s = self._phrases_of_people.look_s(LOOK_S)
                    looking = asyncio.create_task(watched.change(within_s))
                    try:
                        await asyncio.wait({looking, asked}, return_when=asyncio.FIRST_COMPLETED)
                        if not asked.done():
                            await self._look(await looking)
                    except UnknownCall:
                        await self._regain()
                    except StoreError:
                        # The next utterance finds out whether the server is back.
                        await asyncio.wait({asked}, timeout=LOOK_S)
                    finally:
                        let_go(looking)
            return asked.result()
        finally:
            asked.cancel()

    async def _look(self, standing: CallStatus) -> None:
        await self._settle(standing)
        await self._phrases_of_people.say(standing)
        if standing.heard < self._next_turn - 1 or standing.answered < self._told:
            await self._regain()
        quiet_at = max(self._spoken.quiet_at, self._listening_since)
        if standing.handling == "human":
            await self._until_a_human_comes(standing, time.monotonic() > self._spoken.quiet_at)
        elif time.monotonic() - quiet_at > SILENCE_S and not self._hearing.locked():
            await self.heard(Said(understood=False))

    async def _regain(self) -> None:
        """The record has lost what we know of: it goes on behind that."""
        lost, turn = self._party.lost, self._next_turn - 1
        try:
            async with asyncio.timeout(ASKED_WITHIN_S):
                await lost(self.call_sid, turn, self._hook, told=self._told)
        except CallEnded:
            await self.leave("ended")
        except (StoreError, TimeoutError):
            await asyncio.sleep(OUTAGE_S)

    async def _settle(self, standing: CallStatus) -> None:
        if standing.outcome is not None:
            await self.leave("ended")
        if standing.with_human:
            await self.leave("human")

    async def _reply(self, turn: int) -> None:
        """Say the reply to one turn as it grows, holding phrases while it does not come."""
        self._phrases = 0
        with self._party.replies.expect(self.call_sid, turn) as expected:
            while True:
                left_s = max(0.05, self._speak_by() - time.monotonic())
                until = asyncio.get_running_loop().time() + left_s
                try:
                    async with asyncio.timeout_at(until):
                        async for reply in expected.follow(look_first=True, until=until):
                            if await self._pieces(turn, reply):
                                return
                except UnknownCall:
                    if await self._asked_again(turn):
                        return
                except TimeoutError:
                    pass
                except StoreError:
                    await asyncio.sleep(OUTAGE_S)
                if time.monotonic() >= self._speak_by():
                    lost, standing = await self._found(turn)
                    if lost and await self._asked_again(turn):
                        return
                    await self._hold(standing)

    async def _found(self, turn: int) -> tuple[bool, CallStatus | None]:
        """Whether a failover took this turn, and where the call stands, where that can be read."""
        try:
            known = await self._party.read(self.call_sid, turn, DUE_S)
        except UnknownCall:
            return True, None
        except StoreError:
            return False, None
        return is_lost(known, turn), known.status

    async def _asked_again(self, turn: int) -> bool:
        """A failover took this turn. True when the caller was asked for it once more, False where
        we still know the words, and have stored them again."""
        ask, last = self._party, self._last
        try:
            async with asyncio.timeout(max(DUE_S, self._speak_by() - time.monotonic())):
                if last is not None and last[1] == turn:
                    await ask.hear(self.call_sid, turn, last[0], self._hook, told=self._told)
                    return False
                await ask.lost(self.call_sid, turn, self._hook, told=self._told)
        except CallEnded:
            await self.leave("ended")
        except (StoreError, TimeoutError):
            if time.monotonic() < self._speak_by():
                await asyncio.sleep(OUTAGE_S)
            return False
        await self._aloud(self._answers.phrase("say_again"))
        return True

    async def _pieces(self, turn: int, reply: ReplyProgress) -> bool:
        """Send what is new of the reply. True when the turn needs nothing more."""
        sent = self._spoken.sent.get(turn, "")
        if turn in self._spoken.cut:
            return True
        await self._speak_in(reply.lang)
        new = reply.text[len(sent) :] if reply.text.startswith(sent) else ""
        if (new or reply.done) and not await self._party.may_say(self.call_sid, turn, reply.text):
            return False
        if new or (reply.done and reply.text):
            await self._send(frames.text(new, last=reply.done))
            self._spoken.said(turn, new, time.monotonic())
            await self._tell_sent(turn)
        else:
            await self._tell_untold()
        if reply.over and reply.status is not None and not reply.done:
            await self._settle(reply.status)
            await self._until_a_human_comes(reply.status, now=True)
            return True
        return reply.done

    async def _hold(self, standing: CallStatus | None) -> None:
        """Nothing to say yet: the caller must hear something. After the second phrase a human."""
        if await self._phrases_of_people.say(standing):
            return
        self._phrases += 1
        if self._phrases <= PHRASES:
            await self._aloud(self._answers.phrase(f"hold_{self._phrases}"))
            return
        ringing = await self._party.fetch_soon(self.call_sid) and self._phrases % 2 == 1
        await self._aloud(self._answers.phrase("getting_person" if ringing else "hold_1"))

    async def _until_a_human_comes(self, standing: CallStatus, now: bool) -> None:
        """The agent is silent for good: the caller hears that humans are being rung."""
        alert = standing.alert
        if alert is None or alert.state == "nobody" or alert.round > 1:
            resume = self._party.intake.store.handovers.resume
            await self._party.soon(resume, self.call_sid, "nobody has picked up", over=False)
            await self._aloud(self._answers.phrase("nobody_yet"))
        elif now:
            await self._party.desk.begin(self._party.ringing.ring, self.call_sid)
            await self._aloud(self._answers.phrase("getting_person"))
