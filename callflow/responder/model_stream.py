"""One request to a model, in a thread of its own, with deadlines that hold.

A client library's timeout counts each read anew, so an endpoint that drips a letter a second never
reaches it. Here a thread reads and a queue stands between: whoever waits at the queue leaves when
the time is over and hangs up by shutting the socket down, which wakes the thread wherever it reads.
"""

from __future__ import annotations

import logging
import os
import queue
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from threading import Event
from typing import Any, Final

import httpx2

from callflow.responder.model import Failure, ModelError

for _name in ("openai", "anthropic", "httpx2", "httpcore2"):
    # Below this they write down requests, and with them what a caller has said.
    logging.getLogger(_name).setLevel(logging.WARNING)

MOST_REQUESTS: Final = 8
"""Requests of one model that one process has under way, those it has hung up on included."""

KEEP_S: Final = 30.0
"""How long a connection is kept for the caller's next turn; a new one costs a TLS handshake."""

_STOP_POLL_S: Final = 0.05
"""How late a lost lease is noticed at the most."""


@cache
def certificates() -> ssl.SSLContext:
    """The certificates that endpoints are checked against; read once, before the fork."""
    return httpx2.create_ssl_context()


READ_ERRORS: Final = (httpx2.TransportError, httpx2.StreamError)


def read_timeout(first_s: float, timeout_s: float) -> httpx2.Timeout:
    """What a client waits for at most: to connect and send, and for each read."""
    return httpx2.Timeout(first_s, read=timeout_s)


class ModelConnection:
    """One connection to an endpoint. One request at a time; one that was hung up is used up."""

    def __init__(self, build: Callable[[httpx2.Client], Any]) -> None:
        self._stream: Any = None
        self._hung_up = False
        self.client = build(
            httpx2.Client(
                verify=certificates(),
                limits=httpx2.Limits(
                    max_connections=1, max_keepalive_connections=1, keepalive_expiry=KEEP_S
                ),
                event_hooks={"request": [self._watch]},
                follow_redirects=True,
            )
        )

    def hang_up(self) -> None:
        """Wake the thread that reads from it; it finds the connection gone. Twice does no harm."""
        self._hung_up = True
        stream = self._stream
        sock = stream.get_extra_info("socket") if stream is not None else None
        if isinstance(sock, socket.socket):
            # Closed by its own thread a moment ago: that is as good.
            with suppress(OSError):
                # Not SSLSocket's own: that one takes the TLS layer away under the reader's feet.
                socket.socket.shutdown(sock, socket.SHUT_RDWR)

    def close(self) -> None:
        """Give the connection back to the system."""
        self.client.close()

    def _watch(self, request: httpx2.Request) -> None:
        request.extensions["trace"] = self._traced

    def _traced(self, event: str, info: dict[str, Any]) -> None:
        if event.endswith(("connect_tcp.complete", "start_tls.complete")):
            self._stream = info["return_value"]
            if self._hung_up:
                self.hang_up()


class ConnectionPool:
    """The connections of one model in one process; a forked child begins with none."""

    def __init__(self, name: str, build: Callable[[httpx2.Client], Any]) -> None:
        self.name = name
        self._build = build
        self._lock = threading.Lock()
        self._begin_anew(os.getpid())

    def _begin_anew(self, pid: int) -> None:
        self._pid = pid
        self._lock = threading.Lock()
        self._idle: list[ModelConnection] = []
        self._busy = 0

    def take(self) -> ModelConnection:
        """A connection that is free, or a new one. Raises ModelError when too many hang."""
        if self._pid != os.getpid():
            self._begin_anew(os.getpid())
        with self._lock:
            if self._busy >= MOST_REQUESTS:
                raise ModelError(
                    self.name, "unreachable", f"{self._busy} earlier requests still hang"
                )
            self._busy += 1
            if self._idle:
                return self._idle.pop()
        try:
            return ModelConnection(self._build)
        except BaseException:
            self._forget_one()
            raise

    def give_back(self, connection: ModelConnection, *, usable: bool) -> None:
        """The thread of this connection has ended; `usable`: the next request may go over it."""
        if not usable:
            connection.close()
        with self._lock:
            self._busy -= 1
            if usable:
                self._idle.append(connection)

    def _forget_one(self) -> None:
        with self._lock:
            self._busy -= 1

    @property
    def busy(self) -> int:
        """Requests under way, those that were hung up and whose threads have not ended included."""
        return self._busy if self._pid == os.getpid() else 0


class _End:
    """Stands in the queue behind the last letter of a reply that is whole."""


class _Request:
    """Who is still there: the thread that reads, and whoever waits for what it has read."""

    def __init__(self, connection: ModelConnection) -> None:
        self.connection = connection
        self.items: queue.SimpleQueue[str | BaseException | type[_End]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._read = False
        self._left = False
        self._failed = False

    def fail(self) -> None:
        """The endpoint has failed: it may close the connection while the next request is on it."""
        self._failed = True

    def leave(self) -> None:
        """Nobody waits any more: hang up, unless the connection is free already, or another's."""
        with self._lock:
            self._left = True
            if not self._read:
                self.connection.hang_up()

    def finish(self) -> bool:
        """The thread is at its end; returns whether the connection can be used again."""
        with self._lock:
            self._read = True
            return not (self._left or self._failed)


def stream_reply(
    pool: ConnectionPool,
    ask: Callable[[Any], Iterator[str | None]],
    *,
    first_s: float,
    timeout_s: float,
    stop: Event,
) -> Iterator[str]:
    """Yield what `ask(client)` yields, read in a thread; see `Model.stream` for how it ends.

    `ask` yields None once the reply is whole, and may then still tidy up: nobody waits for that.
    It raises ModelError for all that the endpoint does wrong; anything it raises is raised here.
    """
    started = time.monotonic()
    request = _Request(pool.take())
    threading.Thread(
        target=_read_in_thread, args=(pool, request, ask), name="callflow-model", daemon=True
    ).start()
    allowed_s = min(first_s, timeout_s)
    try:
        while (item := _next(request, started + allowed_s, stop)) is not None:
            if item is _End:
                return
            if isinstance(item, BaseException):
                raise item
            allowed_s = timeout_s
            yield str(item)
        if not stop.is_set():
            raise ModelError(pool.name, "slow", f"nothing within {allowed_s:.1f} s")
        request.leave()
    except BaseException:
        request.leave()
        raise


def _next(
    request: _Request, deadline: float, stop: Event
) -> str | BaseException | type[_End] | None:
    """What was read next; None when the time is over or `stop` is set."""
    while not stop.is_set():
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            return None
        with suppress(queue.Empty):
            return request.items.get(timeout=min(left_s, _STOP_POLL_S))
    return None


def _read_in_thread(
    pool: ConnectionPool, request: _Request, ask: Callable[[Any], Iterator[str | None]]
) -> None:
    try:
        for text in ask(request.connection.client):
            request.items.put(_End if text is None else text)
    except BaseException as error:
        # Raised again by whoever waits; nobody does any more when the connection was hung up.
        request.fail()
        request.items.put(error)
    finally:
        pool.give_back(request.connection, usable=request.finish())


def as_model_error(name: str, sdk: Any, error: Exception, begun: bool) -> ModelError:
    """What a client library's error means; `sdk` is its module, `begun`: the answer had begun.

    Neither the prompt nor the endpoint's words are in it: both may hold what a caller said.
    """
    if isinstance(error, ModelError):
        return error
    if isinstance(error, sdk.APITimeoutError | httpx2.TimeoutException):
        return ModelError(name, "slow", type(error).__name__)
    if isinstance(error, sdk.APIStatusError):
        return _refused(name, error)
    if isinstance(error, sdk.APIConnectionError | httpx2.TransportError | OSError):
        return ModelError(name, "cut" if begun else "unreachable", type(error).__name__)
    if isinstance(error, sdk.APIError):
        # An error that the endpoint tells in the middle of its stream.
        return ModelError(name, "server", type(error).__name__)
    return ModelError(name, "nonsense", type(error).__name__)


def _refused(name: str, error: Any) -> ModelError:
    status = int(error.status_code)
    if status < 400:
        # Told in the middle of a stream whose headers had said that all is well.
        busy = getattr(error, "type", None) in ("overloaded_error", "rate_limit_error")
        return ModelError(name, "busy" if busy else "server", type(error).__name__)
    kind: Failure = "refused"
    if status in (401, 403, 404):
        kind = "auth"
    elif status in (408, 504):
        kind = "slow"
    elif status == 429:
        kind = "busy"
    elif status >= 500:
        kind = "server"
    return ModelError(
        name, kind, f"HTTP {status}", status=status, retry_after_s=_retry_after(error)
    )


def _retry_after(error: Any) -> float:
    """Seconds in the header; a date, or nothing, counts as no wish."""
    try:
        return max(float(error.response.headers.get("retry-after", 0)), 0.0)
    except ValueError:
        return 0.0


def endpoint(url: str | None) -> str:
    """What tells two endpoints apart in a model's name: host and port, never a password."""
    if url is None:
        return ""
    parts = httpx2.URL(url)
    return f"@{parts.host}" + (f":{parts.port}" if parts.port else "")
