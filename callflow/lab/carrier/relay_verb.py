"""Carries out <Connect><ConversationRelay>: the call goes on by frames over a WebSocket.

When the socket ends, however it ends, the action is asked with what is known about it; Twilio does
not connect again by itself. Tokens become words that are spoken one after the other, without a
timer for each: where each begins and ends is known when it arrives, so what was heard at any moment
can be computed to the letter.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake

from callflow.lab.carrier.app_network import SOCKET_LOST, AppAddress
from callflow.lab.carrier.call_report import HeardSound, SpokenTurn
from callflow.lab.carrier.phone_line import CallerLine, speech_seconds, split_sentences, spoken_part
from callflow.lab.carrier.switchboard import CallBase
from callflow.lab.carrier.twiml_parser import Relay


@dataclass(slots=True)
class _SpokenMessage:
    """Tokens up to the last one. Times are monotonic, s."""

    heard: HeardSound
    begins: float
    interruptible: bool
    preemptible: bool
    complete: bool = False
    pieces: list[tuple[str, float, float]] = field(default_factory=list)

    def part_said(self, until: float, speed: float) -> str:
        """What of it has been said then."""
        return "".join(
            text if end <= until else spoken_part(text, until - begin, speed)
            for text, begin, end in self.pieces
            if begin < until
        )


class Speaker:
    def __init__(self, line: CallerLine, played: Callable[[str], None] | None = None) -> None:
        """`played` is told each sentence once it has been said."""
        self._line = line
        self._played = played
        self._playing: list[asyncio.TimerHandle] = []
        self._listener = line.listener
        self._messages: list[_SpokenMessage] = []
        self._until = 0.0
        self._end: asyncio.TimerHandle | None = None

    @property
    def busy(self) -> bool:
        return time.monotonic() < self._until

    @property
    def interruptible_at(self) -> Callable[[float], float] | None:
        """When such a share of what has come of the message is over; None while it must not be
        interrupted, or is no more than a filler."""
        message = self._current(time.monotonic())
        if message is None or not message.interruptible or message.heard.filler:
            return None
        return lambda share: message.begins + share * (message.pieces[-1][2] - message.begins)

    def token(
        self, text: str, *, last: bool, interruptible: bool = True, preemptible: bool = False
    ) -> None:
        """Say `text` after all that came before. While the person speaks it is talked over: they
        would interrupt it at once."""
        if self._line.speaking:
            self._listener.emit("talked_over", text=text)
            return
        now = time.monotonic()
        message = self._messages[-1] if self._messages else None
        if message is not None and self._listener.is_filler(text):
            # A holding phrase in the middle of a reply is not a part of it, and the reply goes on.
            message.complete = True
        if message is None or message.complete:
            if not text:
                # A reply without words: nothing is heard, and it is the person's turn.
                if last and not self.busy:
                    self._hand_over(filler=False)
                return
            if message is not None and message.preemptible and self.busy:
                self._stop(now)
            begins = max(now, self._until)
            message = _SpokenMessage(
                self._listener.begin("", "relay", begins), begins, interruptible, preemptible
            )
            self._messages = [one for one in self._messages if one.pieces[-1][2] > now]
            self._messages.append(message)
        self._add(message, text, now)
        message.complete = last
        if last and not self.busy:
            self._finish_speaking()

    def cut(self) -> tuple[str, int] | None:
        """Fall silent. What was heard of the message, and for how long at the pace of a real
        telephone, ms; None when nothing is being said."""
        now = time.monotonic()
        message = self._current(now)
        if message is None:
            self._forget()
            return None
        self._stop(now)
        self._forget()
        return message.heard.text, round((now - message.begins) * self._line.speed * 1000)

    def _add(self, message: _SpokenMessage, text: str, now: float) -> None:
        if not text:
            return
        if now > self._until:
            # A gap in the middle of the message ends here.
            self._listener.end_silence()
        begin = max(now, self._until)
        self._until = begin + speech_seconds(text, self._line.speed)
        message.pieces.append((text, begin, self._until))
        heard = message.heard
        heard.text += text
        heard.filler = self._listener.is_filler(heard.text)
        heard.until_s = self._until - self._listener.began
        self._listener.emit("token", text=text)
        if self._end is not None:
            self._end.cancel()
        self._end = asyncio.get_running_loop().call_at(self._until, self._finish_speaking)
        self._line.change()
        self._tell_when_played(text, begin)

    def _tell_when_played(self, text: str, begin: float) -> None:
        if self._played is None:
            return
        loop, now = asyncio.get_running_loop(), time.monotonic()
        self._playing = [one for one in self._playing if one.when() > now]
        for sentence in split_sentences(text):
            begin += speech_seconds(sentence, self._line.speed)
            self._playing.append(loop.call_at(begin, self._played, sentence))

    def _finish_speaking(self) -> None:
        message = self._messages[-1]
        if message.complete:
            heard = message.heard
            self._hand_over(filler=heard.filler and not self._listener.asks_again(heard.text))
        elif self._line.awaiting:
            self._listener.expect_sound("mid_reply", since=self._until)

    def _hand_over(self, *, filler: bool) -> None:
        """All has been said: the person's turn, unless they know that more will come: somebody who
        has asked for nothing yet waits for nothing."""
        if filler and self._line.awaiting and self._listener.report.turns:
            self._listener.expect_sound("next")
            return
        self._line.awaiting = False
        self._listener.settle_turn()
        self._listener.end_silence()
        self._line.change()

    def _current(self, now: float) -> _SpokenMessage | None:
        return next(
            (one for one in self._messages if one.pieces and one.begins <= now < one.pieces[-1][2]),
            None,
        )

    def _stop(self, now: float) -> None:
        """Nothing of what has come so far is said any more."""
        for message in self._messages:
            if message.begins > now:
                self._listener.retract(message.heard)
            elif message.pieces[-1][2] > now:
                self._listener.finish(message.heard, message.part_said(now, self._line.speed), now)
        for telling in self._playing:
            telling.cancel()
        self._until = now

    def _forget(self) -> None:
        self._messages = []
        if self._end is not None:
            self._end.cancel()
            self._end = None


MOST_MALFORMED: Final = 10
"""In a row; then Twilio closes the socket."""

ACCEPTED_AFTER_S: Final = 0.25
"""A frame that was sent counts as accepted when its socket lives on for so long, or a token comes
back: what was written to the socket of a dead process was not heard."""

CONNECT_S: Final = 5.0
PLAY_S: Final = 2.0
GUESS_EVERY_S: Final = 0.7


async def relay(call: CallBase, verb: Relay, base: str | None) -> dict[str, str]:
    """The fields for the action, once the session is over."""
    session = RelaySession(call, verb)
    address = call.switchboard.network.socket(verb.url)
    action = call.switchboard.address(verb.action, base)
    try:
        return await session.run(address)
    except asyncio.CancelledError:
        if call.status == "completed" and action is not None:
            call.send(action, session.fields("completed"))
        raise


class RelaySession:
    """One socket, and the person's receiver while it lives."""

    patient = True

    def __init__(self, call: CallBase, verb: Relay) -> None:
        self._call = call
        self._line = call.line
        self._verb = verb
        self._id = call.switchboard.new_sid("VX")
        self._began = time.monotonic()
        self._speaker = Speaker(call.line, self._report_played if verb.tells_played else None)
        self._socket: ClientConnection | None = None
        self._language = verb.language
        self._malformed = 0
        self._handoff: str | None = None
        self._unsure: SpokenTurn | None = None
        self._sent_at = 0.0
        self._confirming: asyncio.TimerHandle | None = None
        self._guessing: asyncio.Task[None] | None = None

    @property
    def ready(self) -> bool:
        """It is the person's turn: they expect no reply, and nothing is being said."""
        return not self._line.awaiting and not self._speaker.busy

    @property
    def interruptible_at(self) -> Callable[[float], float] | None:
        """While interruptible words are being said."""
        return self._speaker.interruptible_at

    def fields(self, status: str, error: str | None = None) -> dict[str, str]:
        """What the action is told about the session."""
        fields = {
            "SessionId": self._id,
            "SessionStatus": status,
            "SessionDuration": str(round(time.monotonic() - self._began)),
        }
        if self._handoff is not None:
            fields["HandoffData"] = self._handoff
        if error is not None:
            fields |= {"ErrorCode": str(SOCKET_LOST), "ErrorMessage": error}
        return fields

    async def run(self, address: AppAddress) -> dict[str, str]:
        """Exchange frames until the socket ends; the fields for the action."""
        try:
            self._socket = await self._connect(address)
        except (OSError, TimeoutError, InvalidHandshake) as error:
            self._lost(f"no session: {error or type(error).__name__}")
            return self.fields("failed", "Network connection to WebSocket server failed.")
        self._call.report.sessions += 1
        try:
            await self._send(self._setup())
            self._greet()
            self._line.attach(self)
            return await self._listen(self._socket)
        finally:
            self._line.detach(self)
            self._speaker.cut()
            for waiting in (self._confirming, self._guessing):
                if waiting is not None:
                    waiting.cancel()
            # A frozen peer does not take part in the closing; the call does not wait for it.
            self._call.switchboard.background.start(self._socket.close())

    async def speech_begins(self, turn: SpokenTurn) -> None:
        """A first guess at the words, and more where they are wanted; and if the agent was
        speaking, how far it came."""
        heard, half = self._speaker.cut(), len(turn.said) // 2
        await self._send(self._prompt(turn.said[:half], last=False))
        if self._verb.guesses:
            self._guessing = asyncio.create_task(self._guess(turn, half))
        if heard is not None:
            turn.interrupted = True
            text, lasted_ms = heard
            await self._send(
                {
                    "type": "interrupt",
                    "utteranceUntilInterrupt": text,
                    "durationUntilInterruptMs": lasted_ms,
                }
            )

    async def _guess(self, turn: SpokenTurn, shown: int) -> None:
        """Send more of the words as they are spoken."""
        for longer in range(shown + 1, len(turn.said), max(1, shown // 8)):
            await asyncio.sleep(GUESS_EVERY_S)
            await self._send(self._prompt(turn.said[:longer], last=False))

    async def speech_ends(self, turn: SpokenTurn) -> bool:
        """The words as they were recognised."""
        if self._guessing is not None:
            self._guessing.cancel()
        await asyncio.sleep(self._call.switchboard.endpoint_s)
        return await self._deliver(turn, self._prompt(turn.said, last=True))

    async def key(self, turn: SpokenTurn) -> bool:
        """A key, where the session wants keys."""
        if not self._verb.keys:
            return False
        return await self._deliver(turn, {"type": "dtmf", "digit": turn.said})

    def hold(self) -> None:
        """The carrier has no clock here."""

    def silence(self) -> None:
        """Nothing is sent for that."""

    async def _connect(self, address: AppAddress) -> ClientConnection:
        network = self._call.switchboard.network
        target = network.target()
        return await connect(
            f"{'wss' if target.tls else 'ws'}://{network.host}{address.path}",
            host=target.host,
            port=target.port,
            additional_headers={
                "X-Twilio-Signature": self._call.switchboard.webhooks.sign(address.url, {}),
                "X-Forwarded-Proto": network.scheme,
            },
            user_agent_header="TwilioProxy/1.1",
            compression=None,
            proxy=None,
            open_timeout=CONNECT_S,
            close_timeout=1,
        )

    def _greet(self) -> None:
        if self._verb.greeting:
            interruptible = self._verb.greeting_interruptible
            self._speaker.token(self._verb.greeting, last=True, interruptible=interruptible)
        elif not self._line.awaiting:
            self._call.listener.end_silence()

    async def _listen(self, socket: ClientConnection) -> dict[str, str]:
        try:
            async for frame in socket:
                if not await self._obey(frame):
                    return self.fields("ended")
                if self._malformed >= MOST_MALFORMED:
                    await socket.close(1007, "ten malformed messages")
                    self._lost("it sent ten malformed messages in a row")
                    return self.fields("failed", "Too many malformed messages.")
        except ConnectionClosed:
            """Told below: an end without a closing is an end, too."""
        if socket.close_code == 1000:
            return self.fields("ended")
        self._lost(f"the socket was lost ({socket.close_code})")
        return self.fields("failed", "Network connection to WebSocket server failed.")

    async def _obey(self, frame: str | bytes) -> bool:
        """Carry out one frame; False when it ends the session."""
        try:
            message = json.loads(frame)
        except ValueError:
            message = None
        match message:
            case {"type": "text", "token": str(token)}:
                self._hear(token, message)
            case {"type": "play", "source": str()}:
                # Nobody can say how long it is from its address.
                self._speaker.token(" " * int(PLAY_S * 15), last=True)
            case {"type": "sendDigits", "digits": str(digits)}:
                self._call.report.digits_sent.append(digits)
                self._call.listener.emit("digits_sent", digits=digits)
            case {"type": "language"}:
                self._language = str(message.get("transcriptionLanguage", self._language))
            case {"type": "end"}:
                self._confirm()
                self._handoff = message.get("handoffData")
                return False
            case _:
                await self._complain(frame)
                return True
        self._malformed = 0
        return True

    def _hear(self, token: str, message: dict[str, Any]) -> None:
        turns = self._call.report.turns
        waited = self._sent_at and token and turns and not self._line.speaking
        if waited and turns[-1].first_token_s is None:
            turns[-1].first_token_s = time.monotonic() - self._sent_at
        self._confirm()
        self._speaker.token(
            token,
            last=message.get("last") is True,
            interruptible=self._verb.interruptible and message.get("interruptible") is not False,
            preemptible=message.get("preemptible") is True,
        )

    async def _complain(self, frame: str | bytes) -> None:
        self._malformed += 1
        shown = frame if isinstance(frame, str) else frame.decode("utf-8", "replace")
        self._call.report.failures.append(f"{self._verb.url}: a malformed frame")
        await self._send({"type": "error", "description": f"Invalid message received: {shown}"})

    async def _deliver(self, turn: SpokenTurn, frame: dict[str, Any]) -> bool:
        self._sent_at = time.monotonic()
        if self._line.receiver is not self or not await self._send(frame):
            return False
        self._unsure = turn
        loop = asyncio.get_running_loop()
        self._confirming = loop.call_later(ACCEPTED_AFTER_S, self._confirm)
        return True

    def _confirm(self) -> None:
        """What was sent last has been heard."""
        if self._unsure is not None:
            self._unsure.accepted = True
            self._unsure = None

    def _lost(self, reason: str) -> None:
        self._call.report.failures.append(f"{self._verb.url}: {reason}")
        self._call.listener.emit("session_lost", reason=reason)
        if self._line.awaiting:
            self._call.listener.expect_sound("session")

    async def _send(self, frame: dict[str, Any]) -> bool:
        assert self._socket is not None, "nothing is sent before the socket is open"
        try:
            await self._socket.send(json.dumps(frame, ensure_ascii=False))
        except ConnectionClosed:
            return False
        return True

    def _report_played(self, text: str) -> None:
        """Tell the peer which of its words have been heard."""
        frame = {"type": "info", "name": "tokensPlayed", "value": text}
        self._call.switchboard.background.start(self._send(frame))

    def _prompt(self, words: str, *, last: bool) -> dict[str, Any]:
        return {"type": "prompt", "voicePrompt": words, "lang": self._language, "last": last}

    def _setup(self) -> dict[str, Any]:
        identity = self._call.identity
        first = self._call.report.sessions == 1
        return {
            "type": "setup",
            "sessionId": self._id,
            "accountSid": identity.account_sid,
            "parentCallSid": identity.parent_sid or "",
            "callSid": identity.call_sid,
            "from": identity.caller,
            "to": identity.called,
            "forwardedFrom": "",
            "callType": "PSTN",
            "callerName": "",
            "direction": identity.direction,
            "callStatus": "RINGING" if first else "IN-PROGRESS",
            "customParameters": dict(self._verb.parameters),
        }
