"""<Connect><ConversationRelay>: the call goes on by frames over a WebSocket.

When the socket ends, however it ends, the action is asked with what is known about it; Twilio does
not connect again by itself.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake

from callflow.lab.carrier.failure import SOCKET_LOST
from callflow.lab.carrier.network import Address
from callflow.lab.carrier.report import Turn
from callflow.lab.carrier.speaker import Speaker
from callflow.lab.carrier.verbs import Relay

if TYPE_CHECKING:
    from callflow.lab.carrier.leg import Leg

MOST_MALFORMED: Final = 10
"""In a row; then Twilio closes the socket."""

ACCEPTED_AFTER_S: Final = 0.25
"""A frame that was sent counts as accepted when its socket lives on for so long, or a token comes
back: what was written to the socket of a dead process was not heard."""

CONNECT_S: Final = 5.0
PLAY_S: Final = 2.0


async def relay(leg: Leg, verb: Relay, base: str | None) -> dict[str, str]:
    """The fields for the action, once the session is over."""
    session = RelaySession(leg, verb)
    address = leg.exchange.network.socket(verb.url)
    action = leg.exchange.address(verb.action, base)
    try:
        return await session.run(address)
    except asyncio.CancelledError:
        if leg.status == "completed" and action is not None:
            leg.send(action, session.fields("completed"))
        raise


class RelaySession:
    """One socket, and the person's listener while it lives."""

    patient = True

    def __init__(self, leg: Leg, verb: Relay) -> None:
        self._leg = leg
        self._line = leg.line
        self._verb = verb
        self._id = leg.exchange.new_sid("VX")
        self._began = time.monotonic()
        self._speaker = Speaker(leg.line, self._tell_played if verb.tells_played else None)
        self._socket: ClientConnection | None = None
        self._language = verb.language
        self._malformed = 0
        self._handoff: str | None = None
        self._unsure: Turn | None = None
        self._sent_at = 0.0
        self._confirming: asyncio.TimerHandle | None = None

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

    async def run(self, address: Address) -> dict[str, str]:
        """Talk until the socket ends; the fields for the action."""
        try:
            self._socket = await self._connect(address)
        except (OSError, TimeoutError, InvalidHandshake) as error:
            self._lost(f"no session: {error or type(error).__name__}")
            return self.fields("failed", "Network connection to WebSocket server failed.")
        self._leg.report.sessions += 1
        try:
            await self._send(self._setup())
            self._greet()
            self._line.attach(self)
            return await self._listen(self._socket)
        finally:
            self._line.detach(self)
            self._speaker.cut()
            if self._confirming is not None:
                self._confirming.cancel()
            # A frozen peer does not take part in the closing; the call does not wait for it.
            self._leg.exchange.background.start(self._socket.close())

    async def speech_begins(self, turn: Turn) -> None:
        """A first guess at the words; and if the agent was speaking, how far it came."""
        heard = self._speaker.cut()
        await self._send(self._prompt(turn.said[: len(turn.said) // 2], last=False))
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

    async def speech_ends(self, turn: Turn) -> bool:
        """The words as they were recognised."""
        await asyncio.sleep(self._leg.exchange.endpoint_s)
        return await self._deliver(turn, self._prompt(turn.said, last=True))

    async def key(self, turn: Turn) -> bool:
        """A key, where the session wants keys."""
        if not self._verb.keys:
            return False
        return await self._deliver(turn, {"type": "dtmf", "digit": turn.said})

    def hold(self) -> None:
        """The carrier has no clock here."""

    def silence(self) -> None:
        """Nothing is sent for that."""

    async def _connect(self, address: Address) -> ClientConnection:
        network = self._leg.exchange.network
        target = network.target()
        return await connect(
            f"{'wss' if target.tls else 'ws'}://{network.host}{address.path}",
            host=target.host,
            port=target.port,
            additional_headers={
                "X-Twilio-Signature": self._leg.exchange.signer.sign(address.url, {}),
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
            self._leg.ear.relieve()

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
                self._leg.report.digits_sent.append(digits)
                self._leg.ear.tell("digits_sent", digits=digits)
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
        turns = self._leg.report.turns
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
        self._leg.report.failures.append(f"{self._verb.url}: a malformed frame")
        await self._send({"type": "error", "description": f"Invalid message received: {shown}"})

    async def _deliver(self, turn: Turn, frame: dict[str, Any]) -> bool:
        self._sent_at = time.monotonic()
        if self._line.listener is not self or not await self._send(frame):
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
        self._leg.report.failures.append(f"{self._verb.url}: {reason}")
        self._leg.ear.tell("session_lost", reason=reason)
        if self._line.awaiting:
            self._leg.ear.owe("session")

    async def _send(self, frame: dict[str, Any]) -> bool:
        assert self._socket is not None, "nothing is sent before the socket is open"
        try:
            await self._socket.send(json.dumps(frame, ensure_ascii=False))
        except ConnectionClosed:
            return False
        return True

    def _tell_played(self, text: str) -> None:
        """Tell the peer which of its words have been heard."""
        frame = {"type": "info", "name": "tokensPlayed", "value": text}
        self._leg.exchange.background.start(self._send(frame))

    def _prompt(self, words: str, *, last: bool) -> dict[str, Any]:
        return {"type": "prompt", "voicePrompt": words, "lang": self._language, "last": last}

    def _setup(self) -> dict[str, Any]:
        identity = self._leg.identity
        first = self._leg.report.sessions == 1
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
