"""The process behind an `Endpoint`: copies bytes both ways, and does to them what it is told.

`python -m callflow.lab.chaos.proxy PORT` says where it listens, then answers each line on stdin
with one on stdout, and ends when stdin closes.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import sys
from collections import deque
from collections.abc import Callable
from enum import Enum

HOST = "127.0.0.1"
HELD_MOST_BYTES = 1 << 20
"""So much may be on its way in one direction of a connection before its sender must wait."""

ASKED_AFTER_S = 0.02
"""Who sends nothing for so long has asked what it wanted to ask."""

_RST_AT_CLOSE = struct.pack("ii", 1, 0)


class _End(Enum):
    """How a side of a connection ended; travels behind the bytes it sent before."""

    CLOSED = "closed"
    BROKEN = "broken"


class _Network:
    """What is in force, and every open connection."""

    def __init__(self, target_port: int) -> None:
        self.target_port = target_port
        self.delay_s = 0.0
        self.muted = False
        self.drops = 0
        self.drops_containing = b""
        self.connections: set[_Connection] = set()

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


class _Lane:
    """One direction of a connection: what has come in at one side and not gone out at the other."""

    def __init__(self, network: _Network, end: Callable[[_End], None]) -> None:
        """`end` is called when everything before the end of the sender's side has gone out."""
        self._network = network
        self._end = end
        self._loop = asyncio.get_running_loop()
        self._held: deque[tuple[float, bytes | _End]] = deque()
        self._held_bytes = 0
        self._timer: asyncio.TimerHandle | None = None
        self.source: asyncio.Transport | None = None
        self.sink: asyncio.Transport | None = None
        self.sink_full = False

    def push(self, item: bytes | _End) -> None:
        """Something has come in."""
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

    def _pass(self, item: bytes | _End) -> None:
        assert self.sink is not None
        if isinstance(item, _End):
            self._end(item)
            return
        self._held_bytes -= len(item)
        if not self.sink.is_closing():
            self.sink.write(item)


class _Connection:
    """A client's connection and ours to the server behind, with what is between them."""

    def __init__(self, network: _Network, client: asyncio.Transport) -> None:
        self._network = network
        self._client = client
        self._server: asyncio.Transport | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._up = _Lane(network, self._end_server)
        self._down = _Lane(network, self._end_client)
        self._up.source = self._down.sink = client
        self._asked: bool | None = None
        """None: no answer is due; else one is, and says whether it is of those that get lost."""
        self._losing: asyncio.TimerHandle | None = None
        """Set once a reply gets lost: then none is delivered any more."""
        self._ended: set[_Side] = set()
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
            await loop.create_connection(lambda: _Side(self._network, self), HOST, port)
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

    def said(self, side: _Side, data: bytes) -> None:
        """Bytes from one of the sides."""
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
        self._up.push(_End.CLOSED)
        _break(self._client)

    def ended(self, side: _Side, end: _End) -> None:
        """One of the sides says no more."""
        if side in self._ended and end is _End.CLOSED:
            return
        self._ended.add(side)
        if self._from_client(side):
            if self._losing is None or end is _End.CLOSED:
                self._up.push(end)
        else:
            self._down.push(end)

    def lost(self, side: _Side, error: Exception | None) -> None:
        """The transport of one side is gone."""
        self.ended(side, _End.BROKEN if error is not None else _End.CLOSED)
        if self._server is not None and self._server.is_closing() and self._client.is_closing():
            self._network.connections.discard(self)

    def _end_server(self, end: _End) -> None:
        """The client has ended: the server reads what was sent before, and ends as well."""
        assert self._server is not None
        if end is _End.BROKEN:
            _break(self._server)
        elif not self._server.is_closing():
            self._server.write_eof()

    def _end_client(self, end: _End) -> None:
        assert self._server is not None
        self._server.close()
        if end is _End.BROKEN:
            _break(self._client)
        else:
            self._client.close()

    def full(self, side: _Side, full: bool) -> None:
        """A side takes its bytes more slowly than they come, or no longer does."""
        lane = self._down if self._from_client(side) else self._up
        lane.sink_full = full
        lane.flush()

    def _from_client(self, side: _Side) -> bool:
        return side.transport is self._client


class _Side(asyncio.Protocol):
    """What asyncio tells about one side; without a connection it is a client that makes one."""

    transport: asyncio.Transport

    def __init__(self, network: _Network, connection: _Connection | None = None) -> None:
        self._network = network
        self._given = connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        if self._given is None:
            self._connection = _Connection(self._network, transport)
        else:
            self._connection = self._given
            self._connection.connected(transport)

    def data_received(self, data: bytes) -> None:
        self._connection.said(self, data)

    def eof_received(self) -> bool:
        self._connection.ended(self, _End.CLOSED)
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
    loop, network = asyncio.get_running_loop(), _Network(target_port)
    orders = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(orders), sys.stdin)
    server = await loop.create_server(lambda: _Side(network), HOST, 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    while line := await orders.readline():
        print(network.obey(line.decode().strip()), flush=True)


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1])))
