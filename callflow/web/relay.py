"""The caller's line by a ConversationRelay socket: what comes in, and what becomes of it.

A socket is one process's view of a call and may be lost at any moment: the next one, on any web
process, reads the record and goes on. Nothing is acknowledged to the carrier on it, so an utterance
that cannot be stored leaves by the action address, where the webhooks take it up.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Sequence
from contextlib import suppress

from starlette.types import Message
from starlette.websockets import WebSocket, WebSocketDisconnect

from callflow import logs
from callflow.call.limits import LIMIT
from callflow.call.record import CallRecord
from callflow.call.utterance import MAX_UTTERANCE_CHARS
from callflow.errors import CallflowError, InvalidCallSid, StoreError, UnknownCall
from callflow.responder.sentences import joined
from callflow.store.keys import call_keys
from callflow.twilio import relay_frames as frames
from callflow.twilio.twiml import Twiml
from callflow.web import ending, voice
from callflow.web.addresses import Flight, Saying
from callflow.web.answers import FAILED_SOCKETS
from callflow.web.hook import MAX_TURN, Hook, Said, counted
from callflow.web.party import Party
from callflow.web.session import OUTAGE_S, Session
from callflow.web.talk import Over

log = logging.getLogger(__name__)

SETUP_WITHIN_S = 10.0

MAX_FRAME_CHARS = 64 * 1024

NORMAL, POLICY_VIOLATION = 1000, 1008

STOP_AGAIN_S = 0.1
_ENDS = (Over, WebSocketDisconnect, RuntimeError)

TOLD_WITHIN_S = 2.0

LINGER_S = 5.0
"""How long the carrier is given to close a session that we have ended."""


async def serve(party: Party, socket: WebSocket) -> None:
    """One socket, from the handshake to its end."""
    await socket.accept()
    wire = _Wire(socket, party.settings.frames_per_s_most)
    try:
        setup = await _setup(wire)
        if setup is None:
            await socket.close(POLICY_VIOLATION)
            return
        session = Session(party, _hook(setup), socket.send_text)
        with logs.bound(call_sid=session.call_sid):
            try:
                await _run(party, session, wire)
            finally:
                await _told(session)
    except (WebSocketDisconnect, RuntimeError):
        """The line, the carrier or a network has closed it: the action address hears of it.
        Starlette says RuntimeError where it was closed under our hands."""


async def _told(session: Session) -> None:
    """What the record does not know of what was heard, where the server comes back in time."""
    until = time.monotonic() + TOLD_WITHIN_S
    while time.monotonic() < until:
        try:
            await session.tell_untold()
        except StoreError:
            await asyncio.sleep(OUTAGE_S)
        else:
            return


class Flooded(CallflowError):
    """More frames came in a second than any caller makes."""


class _Wire:
    """The frames that come in, and how many of them in this second."""

    def __init__(self, socket: WebSocket, most_per_s: int) -> None:
        self.socket = socket
        self._most = most_per_s
        self._second, self._count = 0, 0
        self.flooded = False

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
            raise WebSocketDisconnect(message.get("code", 1005))
        return message


async def _setup(wire: _Wire) -> frames.Setup | None:
    """The first frame that counts; None when there is none in time, or a flood of others."""
    try:
        async with asyncio.timeout(SETUP_WITHIN_S):
            while True:
                frame = await wire.frame()
                if isinstance(frame, frames.Setup) and _named(frame):
                    return frame
    except (TimeoutError, Flooded):
        return None


def _named(setup: frames.Setup) -> bool:
    """True when the frame says which call it is about; a line in the log where not."""
    try:
        call_keys(setup.call_sid)
    except InvalidCallSid as error:
        log.warning("relay socket: %s", error)
        return False
    return True


def _hook(setup: frames.Setup) -> Hook:
    fields = {"CallSid": setup.call_sid, "From": setup.from_, "To": setup.to}
    # What the carrier says of the call is not replaced by what a parameter says.
    return Hook({**setup.custom_parameters, **fields}, {})


async def _run(party: Party, session: Session, wire: _Wire) -> None:
    try:
        await session.begin()
        ways = session.speak(), _listen(party, session, wire)
        tasks = [asyncio.create_task(way) for way in ways]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await _stopped(tasks)
        ends = [task.exception() for task in tasks if not task.cancelled()]
        for error in ends:
            if error is not None and not isinstance(error, _ENDS):
                raise error
        over = any(isinstance(error, Over) for error in ends)
    except Over:
        over = True
    if over:
        await _closed(wire)


async def _stopped(tasks: Sequence[asyncio.Task[None]]) -> None:
    """Cancel them until they have ended. Once is not enough: before Python 3.12 `asyncio.wait_for`,
    which redis-py sends with, forgets that it was cancelled when it was done in the same moment,
    and a session that lives on behind its socket hears the caller as silent."""
    while running := [task for task in tasks if not task.done()]:
        for task in running:
            task.cancel()
        await asyncio.wait(running, timeout=STOP_AGAIN_S)


async def _closed(wire: _Wire) -> None:
    """We have said `end`: the carrier closes. What it still sends is for nobody."""
    try:
        async with asyncio.timeout(LINGER_S):
            while True:
                await wire.message()
    except TimeoutError:
        await wire.socket.close(POLICY_VIOLATION if wire.flooded else NORMAL)


async def _listen(party: Party, session: Session, wire: _Wire) -> None:
    while True:
        try:
            frame = await wire.frame()
        except Flooded as error:
            log.warning("call %s: %s", session.call_sid, error)
            await _too_much(party, session)
            return
        await _take(session, frame)


async def _too_much(party: Party, session: Session) -> None:
    """Nobody is dropped: a human is rung, and the call goes on by webhooks. Raises Over."""
    await party.fetch_human(session.call_sid, LIMIT)
    with suppress(StoreError):
        # Where a human was being rung before, this line alone tells of the flood.
        note = party.intake.store.handovers.note
        await party.desk.ask(note, session.call_sid, "flooded", LIMIT)
    await session.leave(LIMIT)


async def _take(session: Session, frame: frames.Frame | None) -> None:
    match frame:
        case frames.Prompt(last=True):
            await session.heard(Said(frame.text[:MAX_UTTERANCE_CHARS]))
        case frames.Prompt():
            session.still_speaking()
        case frames.Interrupt():
            await session.interrupted(frame.heard)
        case frames.Played():
            await session.played(frame.text)
        case frames.Dtmf():
            await session.heard(Said(digits=frame.digit))
        case frames.RelayError():
            log.warning("call %s: the carrier did not understand us", session.call_sid)
        case frames.Setup() if frame.call_sid != session.call_sid:
            log.warning("call %s: a setup frame for another call", session.call_sid)
        case _:
            """A second setup of the same call is the same call; what is unknown is for others."""


async def ended(party: Party, hook: Hook) -> Twiml:
    """The socket is gone: the line is closed, or we ended it and say what comes, or it broke."""
    if hook.line_closed:
        return await ending.ended(party, hook)
    handoff = _handoff(hook.fields.get("HandoffData", ""))
    if handoff.get("reason") == "outage":
        flight = Flight.of(Hook(hook.fields, handoff))
        number = _turn(handoff.get("n"))
        return await voice.in_flight(party, hook, number, flight if number else None)
    standing = await party.standing(hook.call_sid)
    if standing is not None and (settled := voice.settle(party, hook, standing)) is not None:
        return settled
    failed = hook.fields.get("SessionStatus") == "failed"
    failures = hook.number("k", 0) + 1 if failed else 0
    if handoff.get("reason") == LIMIT:
        failures = FAILED_SOCKETS
    answers = party.answers(hook, standing)
    try:
        record = await party.desk.ask(party.snapshots.read, hook.call_sid)
        if record.owed and failures >= FAILED_SOCKETS:
            return answers.hold(record.heard, 0, "still_here")
        text, saying = await _rest(party, hook, record)
        if text and not await party.may_say(hook.call_sid, record.answered, text):
            text, saying = "", None
    except UnknownCall:
        return answers.listen(1, answers.phrase("still_here"), failures=failures)
    except StoreError:
        if failures >= FAILED_SOCKETS:
            return await voice.go_on(party, hook)
        return answers.listen(1, answers.phrase("still_here"), failures=failures)
    if not text and not record.owed:
        text = answers.phrase("go_on")  # Or the caller waits for us as we wait for them.
    spoken = "".join(joined([answers.phrase("still_here"), *([text] if text else [])]))
    return answers.listen(record.heard + 1, spoken, failures=failures, saying=saying)


async def _rest(party: Party, hook: Hook, record: CallRecord) -> tuple[str, Saying | None]:
    """What is left to say of the last reply when a socket has gone: what it was never sent, and
    what it was sent and cannot have been spoken. A socket that never opened has spoken nothing."""
    turn, begun = record.answered, Saying.of(hook)
    entry = next(
        (e for e in record.conversation_thread if (e.role, e.turn) == ("agent", turn)), None
    )
    if record.owed or turn == 0 or entry is None or entry.heard is not None:
        return "", None
    sent_at = 0 if record.sent is None else record.sent.at
    if begun is not None and begun.turn == turn and sent_at <= begun.after:
        since = begun.since
    else:
        since = len(await party.heard_of(record))
    text = entry.text[since:]
    return text, Saying(turn, since, sent_at) if text.strip() else None


def _handoff(data: str) -> dict[str, str]:
    """What we gave the carrier when we ended the session; empty for what is not from us."""
    try:
        given = json.loads(data) if data else {}
    except ValueError:
        return {}
    return {str(k): str(v) for k, v in given.items()} if isinstance(given, dict) else {}


def _turn(given: str | None) -> int:
    """The turn in what we had handed to the carrier; 0 for none of ours."""
    number = counted(given or "") or 0
    return number if number <= MAX_TURN else 0
