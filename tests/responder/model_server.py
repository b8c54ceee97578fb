"""A model's endpoint on loopback that fails in every way we know, over both makers' wires."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

GOOD = (
    "STEP: ask_injury\n"
    "SAY: That sounds frightening.\n"
    "SAY [stay_inside]\n"
    "SAY: Is anybody hurt or unwell?\n"
)
FORBIDDEN = "SAY: I hear you. Push the doors apart with your hands. Then climb out.\n"

Mode = Literal[
    "good",
    "slow",
    "drip",
    "cut",
    "half_close",
    "hang",
    "mute",
    "busy",
    "error",
    "error_and_gone",
    "told_error",
    "no_key",
    "no_model",
    "decline",
    "too_long",
    "nonsense",
    "page",
    "empty",
]
"""slow: the first letter comes late; drip: a letter at a time, for ever; cut: the connection ends
in mid-sentence; half_close: one half of it does; hang: not a byte comes back; mute: headers and no
more; error_and_gone: an error, and its connection closes under the next request; told_error: an
error in the middle of the stream; page: a web page instead of a stream."""


@dataclass
class ModelServer:
    """`modes`: how the next requests are answered, the last one for all that follow."""

    url: str
    modes: list[Mode] = field(default_factory=lambda: list[Mode](["good"]))
    says: str = GOOD
    retry_after: str = "20"
    late_s: float = 5.0
    asked: list[dict[str, Any]] = field(default_factory=list)
    connections: int = 0
    hung_up: threading.Event = field(default_factory=threading.Event)
    """Set once a client has gone away from an answer that was not whole."""
    closing: threading.Event = field(default_factory=threading.Event)

    def next_mode(self) -> Mode:
        return self.modes.pop(0) if len(self.modes) > 1 else self.modes[0]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Else the little that is left of a stream waits for the other side's acknowledgement.
    disable_nagle_algorithm = True
    home: ModelServer

    def setup(self) -> None:
        super().setup()
        self.home.connections += 1

    def handle(self) -> None:
        # A client that hung up is what many of these tests are about.
        with suppress(OSError):
            super().handle()

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        self.home.asked.append(json.loads(self.rfile.read(length)))
        mode = self.home.next_mode()
        try:
            getattr(self, f"_{mode}")()
        except OSError:
            self.home.hung_up.set()
            self.close_connection = True

    def _good(self) -> None:
        self._stream(self.home.says)

    def _slow(self) -> None:
        self._begin()
        self._wait(self.home.late_s)
        self._say(self.home.says)
        self._finish()

    def _drip(self) -> None:
        self._begin()
        while not self.home.closing.is_set():
            for letter in "And so we go on and on and on ":
                self._say(letter)
                self._wait(0.02)

    def _cut(self) -> None:
        self._begin()
        self._say(self.home.says)
        self._say("SAY: Half a sent")
        self.connection.shutdown(socket.SHUT_RDWR)
        self.close_connection = True

    def _half_close(self) -> None:
        self._begin()
        self._say(self.home.says)
        self._say("SAY: Half a sent")
        self.connection.shutdown(socket.SHUT_WR)
        self._wait(self.home.late_s)

    def _hang(self) -> None:
        self._wait(self.home.late_s)
        self.close_connection = True

    def _mute(self) -> None:
        self._begin()
        self._wait(self.home.late_s)

    def _busy(self) -> None:
        self._answer(429, {"Retry-After": self.home.retry_after})

    def _error(self) -> None:
        self._answer(500, {})

    def _error_and_gone(self) -> None:
        self._answer(500, {})
        # Whoever asks on this connection again finds it closed, at the worst moment.
        self.connection.recv(1, socket.MSG_PEEK)
        self.close_connection = True

    def _told_error(self) -> None:
        self._begin()
        problem = {"type": "overloaded_error", "message": "overloaded"}
        self._event({"type": "error", "error": problem}, "error")
        self._chunk(b"")

    def _no_key(self) -> None:
        self._answer(401, {})

    def _no_model(self) -> None:
        self._answer(404, {})

    def _decline(self) -> None:
        self._begin()
        self._finish("content_filter", "refusal")

    def _too_long(self) -> None:
        self._begin()
        self._say(self.home.says + "SAY: And then one more thi")
        self._finish("length", "max_tokens")

    def _nonsense(self) -> None:
        self._stream('{"reply": "Push the doors apart."}')

    def _page(self) -> None:
        body = b"<html>Sign in to the hotel's network</html>"
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _empty(self) -> None:
        self._stream("")

    def _stream(self, text: str) -> None:
        self._begin()
        for start in range(0, len(text), 5):
            self._say(text[start : start + 5])
        self._finish()

    def _answer(self, status: int, headers: dict[str, str]) -> None:
        body = json.dumps({"error": {"message": "no", "type": "x", "code": None}}).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    @property
    def _anthropic(self) -> bool:
        return self.path.endswith("/messages")

    def _begin(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        if self._anthropic:
            message: dict[str, Any] = {
                "id": "msg_1",
                "type": "message",
                "role": "assistant",
                "model": "small",
                "content": [],
                "stop_reason": None,
                "stop_sequence": None,
                "usage": {"input_tokens": 1, "output_tokens": 1},
            }
            self._event({"type": "message_start", "message": message}, "message_start")
            block = {"type": "text", "text": ""}
            self._event(
                {"type": "content_block_start", "index": 0, "content_block": block},
                "content_block_start",
            )
        else:
            self._event(_openai({"role": "assistant", "content": ""}))

    def _say(self, text: str) -> None:
        if self._anthropic:
            delta = {"type": "text_delta", "text": text}
            self._event(
                {"type": "content_block_delta", "index": 0, "delta": delta}, "content_block_delta"
            )
        else:
            self._event(_openai({"content": text}))

    def _finish(self, openai: str = "stop", anthropic: str = "end_turn") -> None:
        if self._anthropic:
            self._event({"type": "content_block_stop", "index": 0}, "content_block_stop")
            delta = {"stop_reason": anthropic, "stop_sequence": None}
            self._event(
                {"type": "message_delta", "delta": delta, "usage": {"output_tokens": 9}},
                "message_delta",
            )
            self._event({"type": "message_stop"}, "message_stop")
        else:
            self._event(_openai({}, openai))
            self._chunk(b"data: [DONE]\n\n")
        self._chunk(b"")

    def _event(self, data: dict[str, Any], name: str | None = None) -> None:
        head = f"event: {name}\n" if name else ""
        self._chunk(f"{head}data: {json.dumps(data)}\n\n".encode())

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()

    def _wait(self, seconds: float) -> None:
        """Wait, but not for a client that has gone, nor longer than the server lives."""
        self.connection.settimeout(0.02)
        for _ in range(max(round(seconds / 0.02), 1)):
            if self.home.closing.is_set():
                raise OSError("the server is closing")
            with suppress(TimeoutError):
                if self.connection.recv(1, socket.MSG_PEEK) == b"":
                    raise OSError("the client has hung up")
        self.connection.settimeout(None)

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""


def _openai(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "small",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
    }


@contextmanager
def model_server() -> Iterator[ModelServer]:
    """Serve it on loopback while the block runs."""

    class Handler(_Handler):
        pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    home = Handler.home = ModelServer(f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield home
    finally:
        home.closing.set()
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def nobody_there() -> Iterator[str]:
    """An address on loopback at which connections are refused while the block runs."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # Bound and not listening: nobody else can have it either.
        yield f"http://127.0.0.1:{taken.getsockname()[1]}"
