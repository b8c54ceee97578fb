"""The carrier's end of a relay socket, signed, to a web process of a test."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import websockets.sync.client as ws
from twilio.request_validator import RequestValidator

from tests.exchange import PUBLIC, RELAY, TOKEN, Answer, Exchange
from tests.parts import SID

SOCKET = f"{PUBLIC.replace('https', 'wss')}/voice/relay"


@dataclass
class Socket:
    """The carrier's end of one relay socket."""

    connection: Any

    def setup(self, call_sid: str = SID, **parameters: str) -> None:
        self.send(
            type="setup",
            sessionId="VX" + "0" * 32,
            callSid=call_sid,
            **{"from": "+441632960999", "to": RELAY},
            direction="inbound",
            customParameters=parameters,
        )

    def send(self, **frame: Any) -> None:
        self.connection.send(json.dumps(frame))

    def says(self, text: str, *, last: bool = True) -> None:
        self.send(type="prompt", voicePrompt=text, lang="en-GB", last=last)

    def interrupts(self, until: str) -> None:
        """The caller spoke into our words, of which they heard `until` last."""
        self.send(type="interrupt", utteranceUntilInterrupt=until, durationUntilInterruptMs=400)

    def hears(self, within_s: float = 5) -> dict[str, Any]:
        """The next frame."""
        frame = json.loads(self.connection.recv(timeout=within_s))
        assert isinstance(frame, dict)
        return frame

    def hears_reply(self) -> str:
        """Tokens up to the last one."""
        text = ""
        while True:
            frame = self.hears()
            assert frame["type"] == "text", frame
            text += str(frame["token"])
            if frame["last"]:
                return text


def parameters_of(answer: Answer) -> dict[str, str]:
    """What the answer has the carrier say of the socket that it is to open."""
    return {p.get("name", ""): p.get("value", "") for p in answer.verbs[0][0]}


@contextmanager
def relay(exchange: Exchange, *, token: str = TOKEN) -> Iterator[Socket]:
    signature = RequestValidator(token).compute_signature(SOCKET, {})
    with ws.connect(
        f"ws://127.0.0.1:{exchange.port}/voice/relay",
        additional_headers={"X-Twilio-Signature": signature},
        close_timeout=1,
    ) as connection:
        yield Socket(connection)


@contextmanager
def open_socket(exchange: Exchange, **parameters: str) -> Iterator[Socket]:
    """A socket on which the call was set up."""
    with relay(exchange) as socket:
        socket.setup(**parameters)
        yield socket
