"""Serves the REST API on loopback, in the loop of the carrier."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from starlette.applications import Starlette

from callflow.errors import CallflowError


class ApiPortTaken(CallflowError):
    """Another program listens where the REST API should."""

    def __init__(self, port: int, reason: str) -> None:
        self.port = port
        super().__init__(
            f"port {port} cannot be used for the carrier's REST API: {reason}; is another phone "
            "running? End it, or choose another port"
        )


class ApiServer:
    """`port` 0 becomes the one that is listened on."""

    def __init__(self, app: Starlette, port: int) -> None:
        self.port = port
        config = uvicorn.Config(
            app, log_level="critical", access_log=False, lifespan="off", ws="none"
        )
        self._server = _Server(config)
        self._serving: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Listen. Raises ApiPortTaken."""
        # Named as TCP, or asyncio would leave Nagle's algorithm on: 40 ms for an answer at times.
        bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound.bind(("127.0.0.1", self.port))
            bound.listen(1024)
        except OSError as error:
            bound.close()
            raise ApiPortTaken(self.port, error.strerror or str(error)) from error
        self.port = bound.getsockname()[1]
        self._serving = asyncio.create_task(self._server.serve(sockets=[bound]))
        await self._server.listening.wait()

    async def stop(self) -> None:
        """Listen no more. What is being answered is answered; twice is once."""
        if self._serving is None:
            return
        # uvicorn looks ten times a second whether it is to end, and pauses once more on its way:
        # too long for tests that begin and end a carrier each.
        self._serving.cancel()
        await asyncio.wait({self._serving})
        for listening in self._server.servers:
            listening.close()
        for connection in list(self._server.server_state.connections):
            connection.shutdown()
        self._serving = None


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are the business of the program that this carrier is a part of."""
        yield
