"""Connections to one server: each tries once, and every wait has an end.

A failover shows itself in three ways: the connection breaks, nothing is answered, or a server that
was the primary says that it is read-only while its connections stay open. Each is met in the same
way: another connection, through the address that leads to the primary, and the same once more.
"""

from __future__ import annotations

import asyncio
import os
import re
import threading
import time
from collections.abc import Sequence
from typing import Any

import redis
import redis.asyncio.connection
from redis.backoff import NoBackoff
from redis.connection import (
    Connection,
    ConnectionPool,
    SSLConnection,
    UnixDomainSocketConnection,
)
from redis.exceptions import AuthenticationError, ReadOnlyError, RedisError, ResponseError
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError
from redis.retry import Retry

from callflow.redis.url import Address, parse_sentinel

CONNECTION_ERRORS = (RedisConnectionError, RedisTimeoutError)

TRIES = 3
"""The second time on a new connection; the third one only where the others failed at once."""

PAUSE_S = 0.03
"""Between two tries: an endpoint that is moved to another server needs a moment."""

_NOT_NOW = frozenset(
    {
        "LOADING",  # It has started, and reads its data.
        "MASTERDOWN",  # A replica that has lost its primary.
        "CLUSTERDOWN",
        "TRYAGAIN",  # The keys of a slot are on the move.
        "UNBLOCKED",  # It became a replica while we were waiting.
        "NOREPLICAS",  # The server's own min-replicas-to-write.
        "MISCONF",  # Its disk is full: it takes nothing until there is room.
    }
)
_WORD = re.compile(r"[A-Z]{5,}")


def is_temporary(error: Exception) -> bool:
    """True for an answer which says that nothing was done, and that it may be done in a moment."""
    if isinstance(error, AuthenticationError):
        return False
    said = {getattr(error, "status_code", None), *_WORD.findall(str(error))}
    return isinstance(error, ResponseError) and not _NOT_NOW.isdisjoint(said)


def is_read_only(error: Exception) -> bool:
    """True where a replica was asked to write. Old servers say so in the text of another error."""
    if isinstance(error, ReadOnlyError):
        return True
    text = str(error)
    return isinstance(error, ResponseError) and (
        "READONLY" in text or "WAIT cannot be used with replica" in text
    )


class _SingleAttempt:
    """Tries once: trying again is its user's business, who knows for how long somebody can wait.

    redis-py's own connections try each step again by themselves, one inside the other: of a server
    that does not answer somebody who has asked once hears after eight times the time-out.
    """

    def connect(self: Any) -> None:
        self.connect_check_health()

    def connect_check_health(
        self, check_health: bool = True, retry_socket_connect: bool = True
    ) -> None:
        base: Any = super()
        base.connect_check_health(check_health, retry_socket_connect=False)

    def check_health(self: Any) -> None:
        if self.health_check_interval and time.monotonic() > self.next_health_check:
            self._send_ping()


class TcpConnection(_SingleAttempt, Connection):
    """For `redis://…`."""


class TlsConnection(_SingleAttempt, SSLConnection):
    """For `rediss://…`."""

    def on_connect_check_health(self, check_health: bool = True) -> None:
        """Log in, and read one answer at least: TLS 1.3 sends session tickets after its handshake,
        and redis-py's pool takes anything unread for an answer that nobody has asked for."""
        super().on_connect_check_health(check_health)
        self.send_command("PING", check_health=False)  # type: ignore[no-untyped-call]
        self.read_response()


class UnixConnection(_SingleAttempt, UnixDomainSocketConnection):
    """For `unix://…`."""


CONNECTIONS: dict[str, type[Any]] = {
    "redis": TcpConnection,
    "rediss": TlsConnection,
    "unix": UnixConnection,
}
"""By the scheme of an address."""

Command = tuple[tuple[Any, ...], dict[str, Any]]
"""One command: its arguments, and redis-py's options for reading its answer."""


def send(connection: Any, commands: Sequence[Command]) -> None:
    """Send all of them at once."""
    connection.send_packed_command(connection.pack_commands([args for args, _ in commands]))


def receive(connection: Any, count: int, answers: list[Any]) -> None:
    """Read so many answers into `answers`; an error is an answer. Raises CONNECTION_ERRORS, with
    those that came before in `answers`."""
    for _ in range(count):
        try:
            answers.append(connection.read_response())
        except ResponseError as error:
            answers.append(error)


class ThreadConnection:
    """The server behind one pool, with a connection for each thread. Threads may share it, forked
    children may inherit it.

    Taking a connection from redis-py's pool and giving it back costs nearly as much CPU again as a
    script's round trip (20 µs in place of 11), and buys nothing: a thread asks one thing at a time.
    """

    def __init__(self, pool: ConnectionPool) -> None:
        self._pool = pool
        self._mine = threading.local()

    def get(self) -> Any:
        """This thread's own connection."""
        connection = getattr(self._mine, "connection", None)
        # A forked child that inherited it must not read its parent's answers.
        if connection is None or connection.pid != os.getpid():
            # The first thing that is asked tells whether it is healthy, as a PING would.
            kwargs = {**self._pool.connection_kwargs, "health_check_interval": 0}
            connection = self._mine.connection = self._pool.connection_class(**kwargs)
        return connection

    def exchange(self, commands: Sequence[Command]) -> list[Any]:
        """One answer for each command, in order, from one connection; an error is an answer.

        After a failover all of them are asked again, of the new primary: what was asked first may
        have been done, and what follows it may be about that. Raises what cannot be made good.
        """
        began, tries = time.monotonic(), 0
        while True:
            connection = self.get()
            tries += 1
            try:
                answers = _exchange_once(connection, commands)
            except CONNECTION_ERRORS as error:
                if isinstance(error, AuthenticationError):
                    raise
                failure: Exception = error
            else:
                found = next((one for one in answers if _failed_over(one)), None)
                if found is None:
                    return answers
                failure = found
            # Through the endpoint another one may be the primary by now.
            connection.disconnect()
            spent_s = time.monotonic() - began
            if tries >= TRIES or (tries > 1 and spent_s > (connection.socket_timeout or 0)):
                raise failure
            time.sleep(PAUSE_S * tries)


def _failed_over(answer: Any) -> bool:
    return isinstance(answer, ResponseError) and (is_read_only(answer) or is_temporary(answer))


def _exchange_once(connection: Any, commands: Sequence[Command]) -> list[Any]:
    answers: list[Any] = []
    try:
        send(connection, commands)
        receive(connection, len(commands), answers)
    except BaseException:
        # SystemExit of a drained worker, for one, and the turn goes on to hand the call back: the
        # answer that is still on its way must not be taken for the answer to that.
        connection.disconnect()
        raise
    return answers


_TIMEOUTS = ("socket_timeout", "socket_connect_timeout", "socket_keepalive")


class Sentinels:
    """Who knows where the primary of one service is: every new connection asks them first.

    So a client that has lost its connection, or was told that its server is read-only, comes to the
    new primary as soon as the Sentinels have one.
    """

    def __init__(self, addresses: Sequence[Address], service: str, options: dict[str, Any]) -> None:
        """`options`: of the connections to them, as redis-py takes them."""
        self.addresses = tuple(addresses)
        self.service = service
        self._clients = [
            redis.Redis(connection_pool=ConnectionPool(host=host, port=port, **options))
            for host, port in addresses
        ]

    def primary(self) -> tuple[str, int]:
        """Host and port of the primary, by the first Sentinel that answers and knows it.

        Raises redis-py's ConnectionError when none does.
        """
        reason = "it is unknown to them"
        for client in tuple(self._clients):
            try:
                found: Any = client.sentinel_get_master_addr_by_name(self.service)
            except RedisError as error:
                reason = str(error)
                continue
            if found:
                # The one that answers is asked first the next time.
                self._clients.sort(key=lambda one: one is not client)
                return str(found[0]), int(found[1])
        raise RedisConnectionError(f"no Sentinel names the primary of {self.service!r}: {reason}")

    def __str__(self) -> str:
        hosts = ",".join(f"{host}:{port}" for host, port in self.addresses)
        return f"{hosts}/{self.service}"


class _AsksSentinels:
    """A connection that asks where to connect to."""

    def __init__(self, *, sentinels: Sentinels, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.sentinels = sentinels

    def _connect(self: Any) -> Any:
        self.host, self.port = self.sentinels.primary()
        return super()._connect()  # type: ignore[misc]


class _AsksSentinelsAsync:
    def __init__(self, *, sentinels: Sentinels, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.sentinels = sentinels

    async def _connect(self: Any) -> None:
        self.host, self.port = await asyncio.to_thread(self.sentinels.primary)
        await super()._connect()  # type: ignore[misc]


class _SentinelTcp(_AsksSentinels, TcpConnection):
    pass


class _SentinelTls(_AsksSentinels, TlsConnection):
    pass


class _SentinelAsyncTcp(_AsksSentinelsAsync, redis.asyncio.connection.Connection):
    pass


class _SentinelAsyncTls(_AsksSentinelsAsync, redis.asyncio.connection.SSLConnection):
    pass


_SYNC: dict[str, type[Any]] = {"redis": _SentinelTcp, "rediss": _SentinelTls}
_ASYNC: dict[str, type[Any]] = {"redis": _SentinelAsyncTcp, "rediss": _SentinelAsyncTls}


def sentinel_pool_options(
    url: str, options: dict[str, Any], *, blocking: bool = True
) -> dict[str, Any]:
    """What a connection pool of redis-py (of its asyncio half where not `blocking`) needs.

    `options`: of every connection. Raises ValueError for what is no such address.
    """
    found = parse_sentinel(url)
    sentinels = Sentinels(
        found.sentinels,
        found.service,
        {
            **{name: options[name] for name in _TIMEOUTS if name in options},
            **found.sentinel_options,
            "connection_class": CONNECTIONS[found.scheme],
            "retry": Retry(NoBackoff(), 0),
            "protocol": 2,
            "decode_responses": True,
        },
    )
    kind = (_SYNC if blocking else _ASYNC)[found.scheme]
    return {**options, **found.options, "connection_class": kind, "sentinels": sentinels}
