"""A small HTTP client: one POST, with Twilio's two timeouts, over connections that are kept.

The usual clients take 2 to 6 ms of CPU for a request when hundreds wait at once, this one 0.1 ms:
a load generator that is slower than what it loads measures itself.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Self

import h11

from callflow.errors import CallflowError
from callflow.lab.carrier.network import Target

KEPT_S: Final = 2.0
"""Servers close connections that have been idle for some seconds (uvicorn: 5): a request that
meets the closing would fail for a reason that no carrier has."""

_CHUNK: Final = 65_536

Headers = Sequence[tuple[str, str]]


class NotConnected(CallflowError):
    """No connection within the time given, or it was refused: the request was not sent."""


class NoResponse(CallflowError):
    """The connection broke, or went silent for too long: whether it arrived is not known."""


@dataclass(frozen=True, slots=True)
class Response:
    """What came back."""

    status: int
    content_type: str
    body: bytes


@dataclass(slots=True)
class _Connection:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    machine: h11.Connection = field(default_factory=lambda: h11.Connection(h11.CLIENT))
    idle_since: float = 0.0

    @property
    def usable(self) -> bool:
        """True if the other side has not hung up and will not do so at any moment."""
        closed = self.reader.at_eof() or self.writer.is_closing()
        return not closed and time.monotonic() - self.idle_since < KEPT_S

    async def ask(self, head: h11.Request, body: bytes, read_s: float) -> Response:
        machine = self.machine
        sent = (machine.send(head), machine.send(h11.Data(body)), machine.send(h11.EndOfMessage()))
        self.writer.write(b"".join(part or b"" for part in sent))
        response: h11.Response | None = None
        answer = bytearray()
        while True:
            event = machine.next_event()
            match event:
                case h11.NEED_DATA:
                    async with asyncio.timeout(read_s):
                        machine.receive_data(await self.reader.read(_CHUNK))
                case h11.Response():
                    response = event
                case h11.Data():
                    answer += event.data
                case h11.EndOfMessage():
                    assert response is not None, "h11 ends no message before its head"
                    return Response(response.status_code, _content_type(response), bytes(answer))
                case h11.ConnectionClosed():
                    raise NoResponse("the connection was closed without an answer")

    def reusable(self) -> bool:
        """Make ready for the next request; False when the server wants to close."""
        if self.machine.our_state is not h11.DONE or self.machine.their_state is not h11.DONE:
            return False
        self.machine.start_next_cycle()
        self.idle_since = time.monotonic()
        return True


class HttpClient:
    """Sends POST requests; leave it as a context to close what is kept."""

    def __init__(self) -> None:
        self._idle: defaultdict[Target, list[_Connection]] = defaultdict(list)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for connections in self._idle.values():
            for connection in connections:
                connection.writer.close()
        self._idle.clear()

    async def post(
        self,
        target: Target,
        path: str,
        headers: Headers,
        body: bytes,
        *,
        connect_s: float,
        read_s: float,
    ) -> Response:
        """The answer. `read_s` is the longest pause between two pieces of it.

        Raises NotConnected and NoResponse; never sends twice.
        """
        connection = await self._connection(target, connect_s)
        kept = False
        try:
            length = ("Content-Length", str(len(body)))
            head = h11.Request(method="POST", target=path, headers=[*headers, length])
            response = await connection.ask(head, body, read_s)
            kept = connection.reusable()
            return response
        except TimeoutError as error:
            raise NoResponse(f"no answer within {read_s:g} s") from error
        except (OSError, h11.RemoteProtocolError) as error:
            raise NoResponse(f"the connection broke: {error or type(error).__name__}") from error
        finally:
            if kept:
                self._idle[target].append(connection)
            else:
                connection.writer.close()

    async def _connection(self, target: Target, connect_s: float) -> _Connection:
        idle = self._idle[target]
        while idle:
            kept = idle.pop()
            if kept.usable:
                return kept
            kept.writer.close()
        try:
            async with asyncio.timeout(connect_s):
                reader, writer = await asyncio.open_connection(
                    target.host, target.port, ssl=target.tls or None
                )
        except TimeoutError as error:
            raise NotConnected(f"no connection within {connect_s:g} s") from error
        except OSError as error:
            raise NotConnected(f"no connection: {error.strerror or error}") from error
        return _Connection(reader, writer)


def _content_type(response: h11.Response) -> str:
    for name, value in response.headers:
        if name == b"content-type":
            return value.decode("latin-1")
    return ""
