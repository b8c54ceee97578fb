"""Stands between a model's client and its server: writes down what is asked, and breaks the answer.

One thread for each connection, one request on each. Every fault ends when the client hangs up or
the proxy closes, whichever is sooner, so that nothing is left behind by a reply of thirty seconds.
"""

from __future__ import annotations

import json
import select
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final, Literal

Fault = Literal[
    "none",
    "slow",
    "mute",
    "drip",
    "stall",
    "cut",
    "half_close",
    "reset",
    "end",
    "nonsense",
    "noise",
]
"""none: the server's answer as it comes · slow: its first byte after LATE_S · mute: never a byte ·
drip: a byte at a time · nonsense: a stream of what is no reply · noise:
not even HTTP. In the middle of the reply, as soon as `when` holds: stall: not a byte more · cut:
both halves of the connection are closed · half_close: one half is · reset: RST instead of an end ·
end: ended as if it were whole.
"""

LATE_S: Final = 30.0
_DRIP_S: Final = 0.003
_IN_THE_MIDDLE: Final[frozenset[Fault]] = frozenset(("stall", "cut", "half_close", "reset", "end"))
_ANSWERED: Final[dict[str, bytes]] = {
    "nonsense": (
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
        b'data: {"choices": "push the doors apart"}\n\ndata: [[]]\n\ndata: \xff\xfe\n\n'
    ),
    "noise": b"\x15\x03\x01\x00\x02\x02\x46 push the doors apart \r\n\r\n",
}


@dataclass
class Exchange:
    """One request that has come through."""

    asked: dict[str, Any]
    """What was sent on to the server, or would have been."""
    said: str = ""
    """What the server has written so far, whether or not the client got to see it."""
    over: threading.Event = field(default_factory=threading.Event)
    """Set once both sides have been let go of."""

    @property
    def prompt(self) -> str:
        """All that the model was given to read."""
        return "\n".join(message["content"] for message in self.asked["messages"])


class _Gone(Exception):
    """The client has hung up, or the proxy is closing: whatever is under way ends."""


@dataclass
class Proxy:
    """`faults`: what happens to the next requests, the last one to all that follow. All of it may
    be changed between two requests."""

    upstream: tuple[str, int]
    faults: list[Fault] = field(default_factory=lambda: list[Fault](["none"]))
    when: Callable[[str], bool] = lambda said: said.count("\n") >= 2 and not said.endswith("\n")
    """Given what the model has written: whether that is the middle of its reply."""
    added: dict[str, Any] = field(default_factory=dict)
    """What the server is told besides, such as `grammar`, `temperature` or `seed`."""
    exchanges: list[Exchange] = field(default_factory=list)
    url: str = ""
    closing: threading.Event = field(default_factory=threading.Event)

    def serve(self, client: socket.socket) -> None:
        """Answer one request on one connection."""
        with client, suppress(_Gone, OSError):
            head, body = _request(client)
            exchange = Exchange(json.loads(body) | self.added)
            self.exchanges.append(exchange)
            fault = self.faults.pop(0) if len(self.faults) > 1 else self.faults[0]
            try:
                self._answer(client, head, exchange, fault)
            finally:
                exchange.over.set()

    def _answer(
        self, client: socket.socket, head: list[bytes], exchange: Exchange, fault: Fault
    ) -> None:
        if fault in _ANSWERED:
            client.sendall(_ANSWERED[fault])
        elif fault == "mute":
            self._wait(client, None)
        else:
            if fault == "slow":
                self._wait(client, LATE_S)
            with socket.create_connection(self.upstream) as server:
                server.sendall(_forwarded(head, json.dumps(exchange.asked).encode()))
                self._pump(client, server, exchange, fault)

    def _pump(
        self, client: socket.socket, server: socket.socket, exchange: Exchange, fault: Fault
    ) -> None:
        seen = b""
        while part := self._received(client, server):
            seen += part
            exchange.said = _said(seen)
            if fault == "drip":
                self._drip(client, part)
            else:
                client.sendall(part)
            between_events = seen.endswith(b"\n\n\r\n")
            if fault in _IN_THE_MIDDLE and between_events and self.when(exchange.said):
                self._break(client, fault)
                return

    def _drip(self, client: socket.socket, part: bytes) -> None:
        for value in part:
            client.sendall(bytes((value,)))
            self._wait(client, _DRIP_S)

    def _break(self, client: socket.socket, fault: Fault) -> None:
        if fault == "end":
            client.sendall(b"0\r\n\r\n")
        if fault == "half_close":
            client.shutdown(socket.SHUT_WR)
        if fault == "reset":
            # To linger for no time means RST.
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        if fault in ("stall", "half_close"):
            self._wait(client, None)

    def _received(self, client: socket.socket, server: socket.socket) -> bytes:
        """What the server has sent next; nothing at its end. Raises _Gone."""
        while True:
            self._still_there(client)
            if select.select([server, client], [], [], 0.05)[0]:
                self._still_there(client)
                if select.select([server], [], [], 0)[0]:
                    return server.recv(65_536)

    def _wait(self, client: socket.socket, seconds: float | None) -> None:
        """Do nothing for so long, or for ever. Raises _Gone."""
        step_s = 0.05
        for _ in range(max(round(seconds / step_s), 1) if seconds is not None else 1_000_000):
            self._still_there(client)
            select.select([client], [], [], step_s if seconds is None else min(step_s, seconds))
        self._still_there(client)

    def _still_there(self, client: socket.socket) -> None:
        if self.closing.is_set():
            raise _Gone
        if select.select([client], [], [], 0)[0] and client.recv(1, socket.MSG_PEEK) == b"":
            raise _Gone


def _request(client: socket.socket) -> tuple[list[bytes], bytes]:
    """The lines of its head, and its body."""
    read = b""
    while b"\r\n\r\n" not in read:
        read += _more(client)
    head, _, body = read.partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    length = next(int(line[15:]) for line in lines if line.lower().startswith(b"content-length:"))
    while len(body) < length:
        body += _more(client)
    return lines, body


def _more(client: socket.socket) -> bytes:
    if not (part := client.recv(65_536)):
        raise _Gone
    return part


def _forwarded(head: list[bytes], body: bytes) -> bytes:
    """The request as the server gets it: the end of its answer is to be the connection's end."""
    ours = (b"content-length:", b"connection:", b"accept-encoding:")
    kept = [line for line in head if not line.lower().startswith(ours)]
    added = [b"Connection: close", b"Content-Length: %d" % len(body)]
    return b"\r\n".join([*kept, *added]) + b"\r\n\r\n" + body


def _said(seen: bytes) -> str:
    """The text of a stream so far."""
    said = ""
    for line in seen.split(b"\n"):
        with suppress(ValueError, LookupError, TypeError):
            if line.startswith(b"data: {"):
                said += json.loads(line[6:])["choices"][0]["delta"].get("content") or ""
    return said


@contextmanager
def proxy(upstream: tuple[str, int]) -> Iterator[Proxy]:
    """Stand in front of `upstream` on loopback while the block runs."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(0.05)
    running = Proxy(upstream, url=f"http://127.0.0.1:{listener.getsockname()[1]}/v1")
    threads: list[threading.Thread] = []

    def accept() -> None:
        while not running.closing.is_set():
            with suppress(TimeoutError):
                client, _ = listener.accept()
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threads.append(threading.Thread(target=running.serve, args=(client,)))
                threads[-1].start()

    accepting = threading.Thread(target=accept)
    accepting.start()
    try:
        yield running
    finally:
        running.closing.set()
        accepting.join()
        listener.close()
        for thread in threads:
            thread.join()
