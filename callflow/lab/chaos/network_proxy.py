"""Puts a network that misbehaves in front of a server: slow, losing answers, broken or silent.

`Endpoint` is one address as a managed Redis gives it, with failovers behind it. It steers a TCP
proxy in a process of its own over a pipe, which ends with its owner: `python -m
callflow.lab.chaos.network_proxy PORT` says where it listens, then answers each line on stdin with
one on stdout. The proxy knows no Redis: bytes go through as they are.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable
from enum import Enum
from types import TracebackType
from typing import Self

from callflow.errors import CallflowError

HOST = "127.0.0.1"
_END_TIMEOUT_S = 5.0
HELD_MOST_BYTES = 1 << 20
"""So much may be on its way in one direction of a connection before its sender must wait."""

ASKED_AFTER_S = 0.02
"""Who sends nothing for so long has asked what it wanted to ask."""

_RST_AT_CLOSE = struct.pack("ii", 1, 0)


class EndpointFailed(CallflowError):
    """The proxy process has ended, or refused an order; nothing passes through it any more."""

    def __init__(self, order: str, answer: str) -> None:
        self.order = order
        self.answer = answer
        super().__init__(
            f"the endpoint answered {answer or 'nothing'!r} to {order!r}: start another one"
        )


class Endpoint:
    """A running proxy: `start` it, give clients its `port`, and make its network misbehave.

    Every order returns once it is in force. May be used from several threads.
    """

    def __init__(self, process: subprocess.Popen[str]) -> None:
        """Not for use: see `start`."""
        self._process = process
        self._lock = threading.Lock()
        self.port = int(self._answer("start"))

    @classmethod
    def start(cls, target_port: int) -> Endpoint:
        """Listen on a free port of 127.0.0.1, in front of what listens on `target_port` there.

        Nobody has to listen there yet: connections are reset until somebody does.
        """
        process = subprocess.Popen(
            [sys.executable, "-m", "callflow.lab.chaos.network_proxy", str(target_port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            # Ctrl-C is for the owner, who may still want to speak with the servers.
            start_new_session=True,
        )
        return cls(process)

    def point_at(self, port: int, *, keep_open: bool = False) -> None:
        """A failover: new connections go to `port`, the open ones are reset.

        `keep_open`: they stay with the server that they have, as when two servers change roles.
        """
        self._order(f"point_at {port}")
        if not keep_open:
            self.reset()

    def delay(self, ms: int) -> None:
        """Everything takes `ms` milliseconds longer, on each way, from now on; 0: no longer."""
        self._order(f"delay {ms}")

    def drop_replies(self, count: int, containing: str = "") -> None:
        """The next `count` answers get lost although what was asked was done; connections reset.

        Only answers to what contains the word (a command's name) are lost; "" is any. What a
        subscriber is sent without having asked is no answer.
        """
        self._order(f"drop_replies {count} {containing}")

    def reset(self) -> None:
        self._order("reset")

    def mute(self) -> None:
        """Nothing passes and nothing is refused: also a new connection is accepted, and starves.

        What is sent meanwhile waits, as it does in the buffers of a cut network, until `heal`.
        """
        self._order("mute")

    def heal(self) -> None:
        """Back to plain forwarding, what was held back first."""
        self._order("heal")

    def stop(self) -> None:
        """End it: every connection breaks. Twice is once."""
        with self._lock:
            if self._process.stdin is not None and not self._process.stdin.closed:
                self._process.stdin.close()
                self._process.wait(_END_TIMEOUT_S)
            if self._process.stdout is not None:
                self._process.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self.stop()

    def _order(self, order: str) -> None:
        with self._lock:
            stdin = self._process.stdin
            assert stdin is not None
            if stdin.closed:
                raise EndpointFailed(order, "stopped")
            try:
                stdin.write(f"{order}\n")
                stdin.flush()
            except BrokenPipeError as error:
                raise EndpointFailed(order, "") from error
            if (answer := self._answer(order)) != "ok":
                raise EndpointFailed(order, answer)

    def _answer(self, order: str) -> str:
        assert self._process.stdout is not None
        if not (line := self._process.stdout.readline()):
            raise EndpointFailed(order, "")
        return line.strip()


class _StreamEnd(Enum):
    """How a side of a connection ended; travels behind the bytes it sent before."""

    CLOSED = "closed"
    BROKEN = "broken"


class _ProxiedNetwork:
    """What is in force, and every open connection."""

    def __init__(self, target_port: int) -> None:
        self.target_port = target_port
        self.delay_s = 0.0
        self.muted = False
        self.drops = 0
        self.drops_containing = b""
        self.connections: set[_ProxiedConnection] = set()

    def obey(self, order: str) -> str:
        """Carry out one line; "ok", or what is wrong with it."""
        name, *words = order.split()
        match name, words:
            case "point_at", [port]:
                self.target_port = int(port)
            case "delay", [ms]:
                self.delay_s = int(ms) / 1000
            case "drop_replies", [count, *containing]:
                self.drops = int(count)
                self.drops_containing = " ".join(containing).encode()
            case "reset", []:
                for connection in list(self.connections):
                    connection.break_off()
            case "mute", []:
                self.muted = True
            case "heal", []:
                self.delay_s, self.muted, self.drops = 0.0, False, 0
                for connection in list(self.connections):
                    connection.heal()
            case _:
                return f"unknown order {order!r}"
        return "ok"


class _ProxyLane:
    """One direction of a connection: what has come in at one side and not gone out at the other."""

    def __init__(self, network: _ProxiedNetwork, end: Callable[[_StreamEnd], None]) -> None:
        """`end` is called when everything before the end of the sender's side has gone out."""
        self._network = network
        self._end = end
        self._loop = asyncio.get_running_loop()
        self._held: deque[tuple[float, bytes | _StreamEnd]] = deque()
        self._held_bytes = 0
        self._timer: asyncio.TimerHandle | None = None
        self.source: asyncio.Transport | None = None
        self.sink: asyncio.Transport | None = None
        self.sink_full = False

    def push(self, item: bytes | _StreamEnd) -> None:
        self._held.append((self._loop.time() + self._network.delay_s, item))
        self._held_bytes += len(item) if isinstance(item, bytes) else 0
        self.flush()

    def hurry(self) -> None:
        """Nothing that is on its way has to wait any longer."""
        self._held = deque((0.0, item) for _, item in self._held)
        self.flush()

    def flush(self) -> None:
        """Let go out what may."""
        while self._may_pass() and self._held[0][0] <= self._loop.time():
            self._pass(self._held.popleft()[1])
        if self._may_pass() and self._timer is None:
            self._timer = self._loop.call_at(self._held[0][0], self._due)
        if self.source is not None and not self.source.is_closing():
            if self._held_bytes > HELD_MOST_BYTES:
                self.source.pause_reading()
            else:
                self.source.resume_reading()

    def _due(self) -> None:
        self._timer = None
        self.flush()

    def _may_pass(self) -> bool:
        waits = self._network.muted or self.sink_full or self.sink is None
        return bool(self._held) and not waits

    def _pass(self, item: bytes | _StreamEnd) -> None:
        assert self.sink is not None
        if isinstance(item, _StreamEnd):
            self._end(item)
            return
        self._held_bytes -= len(item)
        if not self.sink.is_closing():
            self.sink.write(item)


class _ProxiedConnection:
    """A client's connection and ours to the server behind, with what is between them."""

    def __init__(self, network: _ProxiedNetwork, client: asyncio.Transport) -> None:
        self._network = network
        self._client = client
        self._server: asyncio.Transport | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._up = _ProxyLane(network, self._end_server)
        self._down = _ProxyLane(network, self._end_client)
        self._up.source = self._down.sink = client
        self._asked: bool | None = None
        """None: no answer is due; else one is, and says whether it is of those that get lost."""
        self._losing: asyncio.TimerHandle | None = None
        """Set once a reply gets lost: then none is delivered any more."""
        self._ended: set[_ProxySide] = set()
        network.connections.add(self)
        self.heal()

    def heal(self) -> None:
        """Go on, now or for the first time: unless the network is silent."""
        if self._server is None and self._connecting is None and not self._network.muted:
            self._connecting = asyncio.ensure_future(self._connect())
        self._up.hurry()
        self._down.hurry()

    async def _connect(self) -> None:
        loop, port = asyncio.get_running_loop(), self._network.target_port
        try:
            await loop.create_connection(lambda: _ProxySide(self._network, self), HOST, port)
        except OSError:
            self.break_off()

    def break_off(self) -> None:
        """Both sides see a reset connection; nothing on its way arrives."""
        self._network.connections.discard(self)
        if self._connecting is not None:
            self._connecting.cancel()
        for transport in (self._client, self._server):
            if transport is not None:
                _break(transport)

    def connected(self, server: asyncio.Transport) -> None:
        """The server behind has accepted."""
        self._server = self._up.sink = self._down.source = server
        if self not in self._network.connections:
            _break(server)
        self._up.flush()

    def receive(self, side: _ProxySide, data: bytes) -> None:
        if self._from_client(side):
            wanted = self._network.drops_containing in data
            self._asked = wanted or bool(self._asked)
            self._up.push(data)
            if self._losing is not None:
                self._lose_reply()
            return
        asked, self._asked = self._asked, None
        if asked and self._network.drops > 0 and self._losing is None:
            self._network.drops -= 1
            self._lose_reply()
        if self._losing is None:
            self._down.push(data)

    def _lose_reply(self) -> None:
        """From now on nothing is delivered; the client learns it when it has asked everything."""
        loop = asyncio.get_running_loop()
        if self._losing is not None:
            self._losing.cancel()
        self._losing = loop.call_later(ASKED_AFTER_S, self._part)

    def _part(self) -> None:
        # The server must read all that was asked before it sees the end: no reset for it.
        self._up.push(_StreamEnd.CLOSED)
        _break(self._client)

    def ended(self, side: _ProxySide, end: _StreamEnd) -> None:
        """One of the sides says no more."""
        if side in self._ended and end is _StreamEnd.CLOSED:
            return
        self._ended.add(side)
        if self._from_client(side):
            if self._losing is None or end is _StreamEnd.CLOSED:
                self._up.push(end)
        else:
            self._down.push(end)

    def lost(self, side: _ProxySide, error: Exception | None) -> None:
        """The transport of one side is gone."""
        self.ended(side, _StreamEnd.BROKEN if error is not None else _StreamEnd.CLOSED)
        if self._server is not None and self._server.is_closing() and self._client.is_closing():
            self._network.connections.discard(self)

    def _end_server(self, end: _StreamEnd) -> None:
        """The client has ended: the server reads what was sent before, and ends as well."""
        assert self._server is not None
        if end is _StreamEnd.BROKEN:
            _break(self._server)
        elif not self._server.is_closing():
            self._server.write_eof()

    def _end_client(self, end: _StreamEnd) -> None:
        assert self._server is not None
        self._server.close()
        if end is _StreamEnd.BROKEN:
            _break(self._client)
        else:
            self._client.close()

    def full(self, side: _ProxySide, full: bool) -> None:
        """A side takes its bytes more slowly than they come, or no longer does."""
        lane = self._down if self._from_client(side) else self._up
        lane.sink_full = full
        lane.flush()

    def _from_client(self, side: _ProxySide) -> bool:
        return side.transport is self._client


class _ProxySide(asyncio.Protocol):
    """What asyncio tells about one side; without a connection it is a client that makes one."""

    transport: asyncio.Transport

    def __init__(
        self, network: _ProxiedNetwork, connection: _ProxiedConnection | None = None
    ) -> None:
        self._network = network
        self._given = connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        if self._given is None:
            self._connection = _ProxiedConnection(self._network, transport)
        else:
            self._connection = self._given
            self._connection.connected(transport)

    def data_received(self, data: bytes) -> None:
        self._connection.receive(self, data)

    def eof_received(self) -> bool:
        self._connection.ended(self, _StreamEnd.CLOSED)
        return True  # The other direction may still be open.

    def connection_lost(self, exc: Exception | None) -> None:
        self._connection.lost(self, exc)

    def pause_writing(self) -> None:
        self._connection.full(self, True)

    def resume_writing(self) -> None:
        self._connection.full(self, False)


def _break(transport: asyncio.Transport) -> None:
    if not transport.is_closing():
        raw: socket.socket = transport.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RST_AT_CLOSE)
        transport.abort()


async def _serve(target_port: int) -> None:
    loop, network = asyncio.get_running_loop(), _ProxiedNetwork(target_port)
    orders = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(orders), sys.stdin)
    server = await loop.create_server(lambda: _ProxySide(network), HOST, 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    while line := await orders.readline():
        print(network.obey(line.decode().strip()), flush=True)


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1])))
