"""Speaks with a caller on a ConversationRelay socket: their words in, replies out as they grow.

A socket may be lost at any moment: the next one, on any web process, goes on from the record. An
utterance that cannot be stored leaves by the action address, where the webhooks take it up. One
task stores what comes in, another speaks what is to be said.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from starlette.types import Message
from starlette.websockets import WebSocket, WebSocketDisconnect

from callflow import logs, tracing
from callflow.call.limits import LIMIT
from callflow.call.record import CallRecord, CallStatus, ReplyProgress
from callflow.call.utterance import MAX_UTTERANCE_CHARS, clean
from callflow.errors import CallEnded, CallflowError, InvalidCallSid, StoreError, UnknownCall
from callflow.responder.sentences import joined
from callflow.store.calls import NOT_UNDERSTOOD
from callflow.store.keys import call_keys
from callflow.twilio import relay_frames as frames
from callflow.twilio.twiml import Twiml
from callflow.web import webhooks
from callflow.web.answers import FAILED_SOCKETS, OpeningReply, UnstoredInput
from callflow.web.call_access import CallAccess
from callflow.web.handoffs import fetch_human, fetch_human_soon, resume_if_nobody_came
from callflow.web.line_webhooks import end_closed, go_on
from callflow.web.open_lines import OpenLine
from callflow.web.operator_messages import SocketMessages
from callflow.web.playback import NOISES_MOST, BargeIn, Playback
from callflow.web.web_context import ASKED_WITHIN_S, DUE_S, PHRASES, WebContext, now_ms
from callflow.web.webhook import MAX_TURN, CallerInput, VoiceRequest, parse_number

log = logging.getLogger(__name__)

SETUP_WITHIN_S = 10.0

MAX_FRAME_CHARS = 64 * 1024

NORMAL, GOING_AWAY, NO_CODE, POLICY_VIOLATION = 1000, 1001, 1005, 1008
CLOSED = (NORMAL, GOING_AWAY)
"""With these the carrier closes. With others the connection broke, or perhaps: a web server gives
NO_CODE for both."""

STOP_AGAIN_S = 0.1

LINGER_S = 5.0
"""How long the carrier is given to close a session that we have ended."""

UNTOLD_WITHIN_S = 2.0
"""For so long a socket that has gone tries to store what was heard on it."""

REPLAY_S = 3.0
"""The same words so soon after are the same frame again: sockets are replayed after a break."""

SILENCE_S = 7.0
"""A caller who says nothing for so long after our last word is heard as silent, as a Gather does:
the procedure goes on, and the second time a human is rung."""

OUTAGE_S = 0.1
"""Between two tries while the server that holds the calls is gone."""

LOOK_S = 3.0
"""How often the record is read for a human who has joined, should the notification be lost."""


class SessionOver(Exception):
    """The session is over: the carrier was told so, and why, where it will be asked for."""


class Flooded(CallflowError):
    """More frames came in a second than any caller makes."""


_ENDS = (SessionOver, WebSocketDisconnect, RuntimeError)
"""Starlette says RuntimeError where the socket was closed under our hands."""


class SocketSession:
    """One socket's side of the conversation. `send` sends one frame. Every method may raise
    SessionOver."""

    def __init__(
        self, call: CallAccess, line: OpenLine, send: Callable[[str], Awaitable[None]]
    ) -> None:
        self.call = call
        self._line = line
        self._web = call.web
        self._send = send
        self._answers = call.answers()
        rate = call.web.settings.speech_letters_per_s
        self._greeting_s = (parse_number(call.request.fields.get("letters", "")) or 0) / rate
        self._listening_since = time.monotonic()
        self._playback = Playback(rate, greeted_until=self._listening_since + self._greeting_s)
        self._messages = SocketMessages(call, self._playback, self._send_text)
        self._turns: asyncio.Queue[int] = asyncio.Queue()
        self._next_turn = 1
        self._last: tuple[CallerInput, int, float] | None = None
        self._answered = 0
        self._told = 0
        """The last turn whose reply was sent by this socket."""
        self._phrases = 0
        self._hearing = asyncio.Lock()
        self._barge_in = BargeIn()
        self._sound = asyncio.Event()
        self._cut: tuple[int, str] | None = None
        """The turn into whose reply something was heard, and what had been heard of it: kept once
        words come."""
        self._untold: tuple[int, bool] | None = None
        """The turn of whose reply the record does not know how far it was spoken, and whether the
        carrier began with it by itself."""

    # -- how it begins

    async def begin(self) -> None:
        """Read the record; say what is left of a reply that broke off, answer what is owed."""
        record = await self._read_record()
        self._answers = self.call.answers(CallStatus.of(record))
        if record.outcome is not None:
            await self.leave("ended")
        with suppress(StoreError):  # The next beat takes it.
            await self._web.lines.take(self._line)
        self._next_turn, self._answered = record.heard + 1, record.answered
        self._playback.tells = record.sent is not None and record.sent.played is not None
        for entry in record.conversation_thread:
            if entry.role == "agent":
                self._playback.resume(entry.turn, entry.reached)
            elif entry.role == "caller":
                age_s = (record.updated_at - entry.at) / 1000
                said = CallerInput(entry.text, entry.digits, entry.confidence)
                self._last = said, entry.turn, time.monotonic() - age_s
        try:
            await self._resume_reply(record)
            if record.draft is not None:
                self._playback.resume(record.draft.turn, await self.call.heard_part(record))
        except StoreError:
            """Then a part of the reply is said again: better than not at all."""
        for turn in range(record.answered + 1, record.heard + 1):
            self._turns.put_nowait(turn)

    async def _read_record(self) -> CallRecord:
        """As soon as it can be read: to leave would cut off what is being said to begin with, and
        nobody waits longer than that who speaks into it."""
        patience_s = min(self._greeting_s, self._web.settings.reply_wait_s)
        patient_until = time.monotonic() + patience_s
        find = self._web.reader.find
        while True:
            try:
                if (record := await self._web.executor.run(find, self.call.call_sid)) is not None:
                    return record
                await self.call.open()
            except StoreError:
                if time.monotonic() >= patient_until:
                    await self.leave("outage", said=CallerInput(), turn=self._next_turn)
                await asyncio.sleep(OUTAGE_S)

    async def _resume_reply(self, record: CallRecord) -> None:
        """What the carrier was told to say before this socket opened is being said now; a reply
        that nobody was told to say is said next."""
        turn, text = record.answered, record.said(record.answered, "agent")
        if record.owed or turn == 0 or not text:
            return
        parameters = self.call.request.fields
        if parameters.get("saying") == str(turn):
            since = min(parse_number(parameters.get("since", "")) or 0, len(text))
            self._playback.resume(turn, text, since)
            self._playback.add(text[since:], time.monotonic())
            await self._save_sent(turn, greeted=True)
        elif record.sent is None or record.sent.turn < turn:
            # It was answered after the carrier had been told what to begin with.
            self._playback.sent.pop(turn, None)
            self._turns.put_nowait(turn)

    # -- what comes in

    async def hear(self, said: CallerInput) -> None:
        """The caller has said or pressed something. The same frame again changes nothing."""
        now = self._listening_since = time.monotonic()
        if said.text or said.digits:
            await self._keep_cut()
        # One after the other: a silence must not overtake the words that end it.
        async with self._hearing:
            await self._store(said, now)

    async def _store(self, said: CallerInput, now: float) -> None:
        if self._is_replay(said, now):
            return
        turn = self._next_turn
        try:
            async with asyncio.timeout(ASKED_WITHIN_S):
                if not await self._web.lines.is_ours(self._line):
                    # Said to a process that was frozen; the caller may have said it again since.
                    await self.leave("outage", said=said, turn=turn)
                _, turn = await self.call.record_utterance(
                    turn, said, told=self._told, replays=True
                )
        except CallEnded:
            await self.leave("ended")
        except (StoreError, TimeoutError):
            await self.leave("outage", said=said, turn=turn, waited_s=time.monotonic() - now)
        if said.wants_human is not None and self._web.can_ring:
            await self._speak_phrase("getting_person")
        kept = replace(said, text=clean(self.call.call_sid, said.text))  # As stored.
        self._next_turn, self._last = turn + 1, (kept, turn, now)
        self._turns.put_nowait(turn)

    def _is_replay(self, said: CallerInput, now: float) -> bool:
        if self._last is None:
            return False
        last, turn, at = self._last
        words = clean(self.call.call_sid, said.text), said.digits
        recent = now - at < REPLAY_S or turn > self._answered
        return recent and words == (last.text, last.digits)

    def hear_guess(self, words: str = "") -> None:
        """Something is heard that may become words. It is no silence as long as they may come."""
        now = time.monotonic()
        self._barge_in.hear_sound(now, words)
        self._sound.set()
        if self._barge_in.is_speaking(now):
            self._listening_since = now

    async def interrupted(self, until: str) -> None:
        """The caller spoke into what we were saying, or a noise has stopped it."""
        self.hear_guess()
        await self._messages.interrupt(until)
        # Twice, and nothing was said between: what was heard the first time is all of it.
        self._cut = self._playback.interrupt(until, time.monotonic()) or self._cut

    async def _keep_cut(self) -> None:
        """Words came: what the caller had heard before them is all that they will hear of it."""
        self._barge_in.hear_words()
        cut, self._cut = self._cut, None
        if cut is not None:
            # Else the reply stands as a whole; what was cut off of it may be said again.
            with suppress(StoreError):
                await self._web.run_soon(
                    self._web.store.playback.interrupt, self.call.call_sid, *cut
                )

    async def go_on_after_noises(self) -> None:
        """Say what a noise has cut off, for as long as the session lasts."""
        while True:
            self._sound.clear()
            due_s = self._barge_in.due_in_s(time.monotonic())
            if due_s == 0:
                await self._go_on_after_noise()
            else:
                with suppress(TimeoutError):
                    async with asyncio.timeout(due_s):
                        await self._sound.wait()

    async def _go_on_after_noise(self) -> None:
        """No words have come. After some such noises a human is rung, and our voice cannot be
        stopped any more."""
        self._barge_in.go_on()
        if self._barge_in.noises == NOISES_MOST:
            await fetch_human_soon(self.call, NOT_UNDERSTOOD)
        cut, self._cut = self._cut, None
        if cut is not None:
            self._playback.go_on(*cut)
            self._turns.put_nowait(cut[0])
        elif self._playback.quiet_at < time.monotonic() and self._answered == self._next_turn - 1:
            await self._speak_phrase("say_slower")

    async def played(self, text: str) -> None:
        """The caller has heard these words of ours: should the socket break, we go on after them,
        or after what there was time for where the server cannot be told."""
        known = self._playback.mark_played(text)
        await self._messages.note_heard_if_possible()
        if known is not None:
            try:
                await self._web.run_soon(
                    self._web.store.playback.save_played,
                    self.call.call_sid,
                    *known,
                    holder=self._line.holder,
                )
            except StoreError:
                self._untold = self._untold or (known[0], False)

    # -- what goes out

    async def speak(self) -> None:
        """Say every reply in order, for as long as the session lasts."""
        while True:
            await self._messages.say(await self.call.status_if_known(DUE_S))
            turn = await self._next_owed()
            with tracing.turn("speak", self.call.call_sid, turn):
                await self._speak_reply(turn)
            self._answered = max(self._answered, turn)
            self._told = turn
            self._listening_since = time.monotonic()

    async def _next_owed(self) -> int:
        """The next turn to answer. Meanwhile a human may join, or the call end."""
        # One for all rounds: a turn that it takes while a round looks elsewhere is not lost.
        asked = asyncio.create_task(self._turns.get())
        try:
            with self._web.replies.watch(self.call.call_sid) as watched:
                while not asked.done():
                    within_s = self._playback.next_phrase_s(LOOK_S, time.monotonic())
                    looking = asyncio.create_task(watched.change(within_s))
                    try:
                        await asyncio.wait({looking, asked}, return_when=asyncio.FIRST_COMPLETED)
                        if not asked.done():
                            await self._follow_status(await looking)
                    except UnknownCall:
                        await self._restore()
                    except StoreError:
                        # The next utterance finds out whether the server is back.
                        await asyncio.wait({asked}, timeout=LOOK_S)
                    finally:
                        cancel_quietly(looking)
            return asked.result()
        finally:
            asked.cancel()

    async def _follow_status(self, status: CallStatus) -> None:
        await self._leave_if_over(status)
        await self._messages.say(status)
        if status.heard < self._next_turn - 1 or status.answered < self._told:
            await self._restore()
        now, quiet_at = time.monotonic(), self._playback.quiet_at
        if status.handling == "human":
            await self._wait_for_human(status, now > quiet_at)
        elif now - max(quiet_at, self._listening_since) > SILENCE_S and not self._hearing.locked():
            await self.hear(CallerInput())

    async def _restore(self) -> None:
        """The record has lost what we know of: it goes on behind that."""
        try:
            async with asyncio.timeout(ASKED_WITHIN_S):
                await self.call.admit_loss(self._next_turn - 1, told=self._told)
        except CallEnded:
            await self.leave("ended")
        except (StoreError, TimeoutError):
            await asyncio.sleep(OUTAGE_S)

    async def _leave_if_over(self, status: CallStatus) -> None:
        if status.outcome is not None:
            await self.leave("ended")
        if status.with_human:
            await self.leave("human")

    async def _speak_reply(self, turn: int) -> None:
        """Say the reply to one turn as it grows, holding phrases while it does not come."""
        self._phrases = 0
        with self._web.replies.expect(self.call.call_sid, turn) as expected:
            while True:
                left_s = max(0.05, self._speak_by() - time.monotonic())
                until = asyncio.get_running_loop().time() + left_s
                try:
                    async with asyncio.timeout_at(until):
                        async for reply in expected.follow(look_first=True, until=until):
                            if await self._speak_more(turn, reply):
                                return
                except UnknownCall:
                    if await self._ask_again(turn):
                        return
                except TimeoutError:
                    pass
                except StoreError:
                    await asyncio.sleep(OUTAGE_S)
                if time.monotonic() >= self._speak_by():
                    lost, status = await self._look_for(turn)
                    if lost and await self._ask_again(turn):
                        return
                    await self._hold(status)

    async def _look_for(self, turn: int) -> tuple[bool, CallStatus | None]:
        """Whether a failover took this turn, and where the call stands, where that can be read."""
        try:
            known = await self.call.progress(turn, DUE_S)
        except UnknownCall:
            return True, None
        except StoreError:
            return False, None
        return known.is_lost(turn), known.status

    async def _ask_again(self, turn: int) -> bool:
        """A failover took this turn. True when the caller was asked for it once more, False where
        we still know the words, and have stored them again."""
        last = self._last
        try:
            async with asyncio.timeout(max(DUE_S, self._speak_by() - time.monotonic())):
                if last is not None and last[1] == turn:
                    await self.call.record_utterance(turn, last[0], told=self._told)
                    return False
                await self.call.admit_loss(turn, told=self._told)
        except CallEnded:
            await self.leave("ended")
        except (StoreError, TimeoutError):
            if time.monotonic() < self._speak_by():
                await asyncio.sleep(OUTAGE_S)
            return False
        await self._speak_phrase("say_again")
        return True

    async def _speak_more(self, turn: int, reply: ReplyProgress) -> bool:
        """Send what is new of the reply. True when the turn needs nothing more."""
        if turn in self._playback.cut:
            return True
        sent = self._playback.sent.get(turn, "")
        await self._change_language(reply.lang)
        new = reply.text[len(sent) :] if reply.text.startswith(sent) else ""
        if (new or reply.done) and not await self.call.may_say(turn, reply.text):
            return False
        if new or (reply.done and reply.text):
            stoppable = self._barge_in.noises < NOISES_MOST
            await self._send(frames.text(new, last=reply.done, interruptible=stoppable))
            self._playback.add_reply(turn, new, time.monotonic())
            await self._save_sent(turn)
        else:
            await self._save_untold()
        if reply.over and reply.status is not None and not reply.done:
            await self._leave_if_over(reply.status)
            await self._wait_for_human(reply.status, now=True)
            return True
        return reply.done

    async def _hold(self, status: CallStatus | None) -> None:
        """Nothing to say yet: the caller must hear something. After the second phrase a human."""
        if await self._messages.say(status):
            return
        self._phrases += 1
        if self._phrases <= PHRASES:
            await self._speak_phrase(f"hold_{self._phrases}")
            return
        ringing = await fetch_human_soon(self.call) and self._phrases % 2 == 1
        await self._speak_phrase("getting_person" if ringing else "hold_1")

    async def _wait_for_human(self, status: CallStatus, now: bool) -> None:
        """The agent is silent for good: the caller hears that humans are being rung."""
        if await resume_if_nobody_came(self.call, status):
            await self._speak_phrase("nobody_yet")
        elif now:
            await self._web.executor.begin(self._web.ringing.ring, self.call.call_sid)
            await self._speak_phrase("getting_person")

    async def _change_language(self, language: str | None) -> None:
        """The reply is in another language than before: speak, and listen, in that one."""
        answers = self._answers.in_language(language)
        if answers is not self._answers:
            self._answers = answers
            await self._send(frames.language(answers.language))

    async def _speak_phrase(self, name: str) -> None:
        text = self._answers.phrase(name)
        await self._send_text(text)
        self._playback.add(text, time.monotonic())

    async def _send_text(self, text: str) -> None:
        await self._send(frames.text(text, last=True))

    def _speak_by(self) -> float:
        """When the caller must hear something again (monotonic, s)."""
        silent_since = max(self._playback.quiet_at, self._listening_since)
        return silent_since + self._web.settings.reply_wait_s

    async def leave_when_lost(self) -> None:
        """Let go of a line that another socket has, or that the carrier was asked for."""
        await self._line.lost.wait()
        await self.leave("lost")

    # -- what the next socket must know

    async def save_untold(self) -> None:
        """The socket is gone, and the server may be back: whoever goes on must not say again what
        was heard meanwhile. Raises StoreError."""
        self._playback.stop(time.monotonic())
        if self._cut is not None:
            turn, heard = self._cut
            self._playback.heard[turn] = len(heard)
            self._untold = turn, True
        await self._save_untold()
        await self._messages.note_heard()

    async def _save_untold(self) -> None:
        if self._untold is not None:
            turn, greeted = self._untold
            await self._save_sent(turn, greeted=greeted)

    async def _save_sent(self, turn: int, *, greeted: bool = False) -> None:
        """`greeted`: the carrier itself had it, to begin with. When it began nobody knows, so none
        of it counts as heard before the carrier says so: better said again than left out."""
        playback, saved = self._playback, -1
        self._untold = turn, greeted
        # What is told to have been heard while this is stored would be overwritten by it.
        while (heard := playback.heard.get(turn, 0)) != saved:
            await self._web.run_soon(
                self._web.store.playback.save_sent,
                self.call.call_sid,
                turn,
                len(playback.sent[turn]),
                left_ms=round(playback.left_s(time.monotonic()) * 1000),
                played=heard if playback.tells or greeted else None,
                holder=self._line.holder,
            )
            saved = heard
        self._untold = None

    async def leave(
        self,
        reason: str,
        *,
        said: CallerInput | None = None,
        turn: int = 0,
        waited_s: float = 0.0,
    ) -> None:
        """End the session; the action address is asked what comes next. Raises SessionOver.

        `said` goes with it; the caller has waited for so long since.
        """
        handoff = {"reason": reason}
        if said is not None:
            unstored = UnstoredInput(said, now_ms() - round(waited_s * 1000))
            handoff |= unstored.handoff | {"n": str(turn)}
        self._playback.stop(time.monotonic())
        await self._send(frames.end(handoff))
        raise SessionOver


def cancel_quietly(task: asyncio.Task[Any]) -> None:
    """Cancel what nobody waits for any more; what it fails at meanwhile is asked for again."""
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    task.cancel()


class RelaySocket:
    """The frames that come in, and how many of them in this second."""

    def __init__(self, socket: WebSocket, most_per_s: int) -> None:
        self.socket = socket
        self._most = most_per_s
        self._second, self._count = 0, 0
        self.flooded = False
        self.closed_by_carrier = False

    async def frame(self) -> frames.Frame | None:
        """The next frame; None, and a line in the log, for one that is none. Raises Flooded."""
        message = await self.message()
        second = int(time.monotonic())
        self._count = self._count + 1 if second == self._second else 1
        self._second = second
        if self._count > self._most:
            self.flooded = True
            raise Flooded(f"a socket sent more than {self._most} frames in a second")
        text = message.get("text")
        try:
            if text is None or len(text) > MAX_FRAME_CHARS:
                raise frames.MalformedFrame("it is no text, or too long for one")
            return frames.parse(text)
        except frames.MalformedFrame as error:
            log.warning("relay socket: %s", error)
            return None

    async def message(self) -> Message:
        """The next one, whatever it is. Raises WebSocketDisconnect."""
        message = await self.socket.receive()
        if message["type"] == "websocket.disconnect":
            self.closed_by_carrier = message.get("code", NO_CODE) in CLOSED
            raise WebSocketDisconnect(message.get("code", NO_CODE))
        return message

    async def setup(self) -> frames.Setup | None:
        """The first frame that counts; None when there is none in time, or a flood of others."""
        try:
            async with asyncio.timeout(SETUP_WITHIN_S):
                while True:
                    frame = await self.frame()
                    if isinstance(frame, frames.Setup) and _names_a_call(frame):
                        return frame
        except (TimeoutError, Flooded):
            return None

    async def close(self) -> None:
        """We have said `end`: the carrier closes. What it still sends is for nobody."""
        try:
            async with asyncio.timeout(LINGER_S):
                while True:
                    await self.message()
        except TimeoutError:
            await self.socket.close(POLICY_VIOLATION if self.flooded else NORMAL)


def _names_a_call(setup: frames.Setup) -> bool:
    """True when the frame says which call it is about; a line in the log where not."""
    try:
        call_keys(setup.call_sid)
    except InvalidCallSid as error:
        log.warning("relay socket: %s", error)
        return False
    return True


async def serve_socket(web: WebContext, websocket: WebSocket) -> None:
    """One socket, from the handshake to its end."""
    await websocket.accept()
    socket = RelaySocket(websocket, web.settings.frames_per_s_most)
    try:
        setup = await socket.setup()
        if setup is None:
            await websocket.close(POLICY_VIOLATION)
            return
        said_of_call = {"CallSid": setup.call_sid, "From": setup.from_, "To": setup.to}
        # What the carrier says of the call is not replaced by what a parameter says.
        request = VoiceRequest({**setup.custom_parameters, **said_of_call}, {})
        call = CallAccess.by_request(web, request)
        with logs.bound(call_sid=setup.call_sid), web.lines.holding(setup.call_sid) as line:
            session = SocketSession(call, line, websocket.send_text)
            try:
                await _run(session, socket)
            finally:
                await _save_untold(session)
                await web.lines.release(line, by_carrier=socket.closed_by_carrier)
    except (WebSocketDisconnect, RuntimeError):
        """The line, the carrier or a network has closed it: the action address hears of it."""


async def _run(session: SocketSession, socket: RelaySocket) -> None:
    try:
        await session.begin()
        ways = (
            session.speak(),
            _listen(session, socket),
            session.leave_when_lost(),
            session.go_on_after_noises(),
        )
        tasks = [asyncio.create_task(way) for way in ways]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await _stop(tasks)
        ends = [task.exception() for task in tasks if not task.cancelled()]
        for error in ends:
            if error is not None and not isinstance(error, _ENDS):
                raise error
        over = any(isinstance(error, SessionOver) for error in ends)
    except SessionOver:
        over = True
    if over:
        await socket.close()


async def _save_untold(session: SocketSession) -> None:
    """What the record does not know of what was heard, where the server comes back in time."""
    until = time.monotonic() + UNTOLD_WITHIN_S
    while time.monotonic() < until:
        try:
            await session.save_untold()
        except StoreError:
            await asyncio.sleep(OUTAGE_S)
        else:
            return


async def _stop(tasks: Sequence[asyncio.Task[None]]) -> None:
    """Cancel them until they have ended. Once is not enough: before Python 3.12 `asyncio.wait_for`,
    which redis-py sends with, forgets that it was cancelled when it was done in the same moment,
    and a session that lives on behind its socket hears the caller as silent."""
    while running := [task for task in tasks if not task.done()]:
        for task in running:
            task.cancel()
        await asyncio.wait(running, timeout=STOP_AGAIN_S)


async def _listen(session: SocketSession, socket: RelaySocket) -> None:
    while True:
        try:
            frame = await socket.frame()
        except Flooded as error:
            log.warning("call %s: %s", session.call.call_sid, error)
            await _leave_flood(session)
            return
        await _take(session, frame)


async def _leave_flood(session: SocketSession) -> None:
    """Nobody is dropped: a human is rung, and the call goes on by webhooks. Raises SessionOver."""
    call = session.call
    await fetch_human(call, LIMIT)
    with suppress(StoreError):
        # Where a human was being rung before, this line alone tells of the flood.
        await call.web.executor.run(
            call.web.store.handovers.add_journal_line, call.call_sid, "flooded", LIMIT
        )
    await session.leave(LIMIT)


async def _take(session: SocketSession, frame: frames.Frame | None) -> None:
    match frame:
        case frames.Prompt(last=True):
            await session.hear(
                CallerInput(frame.text[:MAX_UTTERANCE_CHARS], confidence=frame.confidence)
            )
        case frames.Prompt():
            session.hear_guess(frame.text)
        case frames.Interrupt():
            await session.interrupted(frame.heard)
        case frames.Played():
            await session.played(frame.text)
        case frames.Dtmf():
            await session.hear(CallerInput(digits=frame.digit))
        case frames.RelayError():
            log.warning("call %s: the carrier did not understand us", session.call.call_sid)
        case frames.Setup() if frame.call_sid != session.call.call_sid:
            log.warning("call %s: a setup frame for another call", session.call.call_sid)
        case _:
            """A second setup of the same call is the same call; what is unknown is for others."""


async def relay_ended(call: CallAccess) -> Twiml:
    """The socket is gone: the line is closed, or we ended it and say what comes, or it broke."""
    request = call.request
    if request.line_closed:
        return await end_closed(call)
    await call.web.lines.release_call(call.call_sid)
    handoff = _read_handoff(request.fields.get("HandoffData", ""))
    if handoff.get("reason") == "outage":
        number = parse_number(handoff.get("n", "")) or 0
        unstored = UnstoredInput.of(VoiceRequest(request.fields, handoff))
        if not 0 < number <= MAX_TURN:
            unstored = None  # None of ours.
        return await webhooks.take_unstored(call, number, unstored)
    status = await call.status_if_known()
    if status is not None and (over := call.conclude(status)) is not None:
        return over
    failed = request.fields.get("SessionStatus") == "failed"
    failures = request.number("k", 0) + 1 if failed else 0
    if handoff.get("reason") == LIMIT:
        failures = FAILED_SOCKETS
    return await _open_another(call, status, failures)


async def _open_another(call: CallAccess, status: CallStatus | None, failures: int) -> Twiml:
    """Go on with what is left to say, on another socket, or by webhooks after some that failed."""
    answers = call.answers(status)
    still_here = answers.phrase("still_here")
    try:
        record = await call.web.executor.run(call.web.reader.read, call.call_sid)
        if record.owed and failures >= FAILED_SOCKETS:
            return answers.hold(record.heard, 0, "still_here")
        text, reply = await _rest(call, record)
        if text and not await call.may_say(record.answered, text):
            text, reply = "", None
    except UnknownCall:
        return answers.listen(1, still_here, failures=failures)
    except StoreError:
        if failures >= FAILED_SOCKETS:
            return await go_on(call)
        return answers.listen(1, still_here, failures=failures)
    if not text and not record.owed:
        text = answers.phrase("go_on")  # Or the caller waits for us as we wait for them.
    spoken = "".join(joined([still_here, *([text] if text else [])]))
    return answers.listen(record.heard + 1, spoken, failures=failures, reply=reply)


async def _rest(call: CallAccess, record: CallRecord) -> tuple[str, OpeningReply | None]:
    """What is left to say of the last reply when a socket has gone: what it was never sent, and
    what it was sent and cannot have been spoken. A socket that never opened has spoken nothing."""
    turn, begun = record.answered, OpeningReply.of(call.request)
    entry = next(
        (e for e in record.conversation_thread if (e.role, e.turn) == ("agent", turn)), None
    )
    if record.owed or turn == 0 or entry is None or entry.heard is not None:
        return "", None
    sent_at = 0 if record.sent is None else record.sent.at
    if begun is not None and begun.turn == turn and sent_at <= begun.after:
        since = begun.since
    else:
        since = len(await call.heard_part(record))
    text = entry.text[since:]
    return text, OpeningReply(turn, since, sent_at) if text.strip() else None


def _read_handoff(data: str) -> dict[str, str]:
    """What we gave the carrier when we ended the session; empty for what is not from us."""
    try:
        given = json.loads(data) if data else {}
    except ValueError:
        return {}
    return {str(k): str(v) for k, v in given.items()} if isinstance(given, dict) else {}
