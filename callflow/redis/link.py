"""One server, asked from many threads: each has a connection of its own, and every wait has an end.

A failover shows itself in three ways: the connection breaks, nothing is answered, or a server that
was the primary says that it is read-only while its connections stay open. Each is met in the same
way: another connection, through the address that leads to the primary, and the same once more.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Sequence
from typing import Any

import redis
from redis.connection import Connection, SSLConnection, UnixDomainSocketConnection
from redis.exceptions import AuthenticationError, ReadOnlyError, ResponseError
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

LOST = (RedisConnectionError, RedisTimeoutError)

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


def not_now(error: Exception) -> bool:
    """True for an answer which says that nothing was done, and that it may be done in a moment."""
    if isinstance(error, AuthenticationError):
        return False
    said = {getattr(error, "status_code", None), *_WORD.findall(str(error))}
    return isinstance(error, ResponseError) and not _NOT_NOW.isdisjoint(said)


def read_only(error: Exception) -> bool:
    """True where a replica was asked to write. Old servers say so in the text of another error."""
    if isinstance(error, ReadOnlyError):
        return True
    text = str(error)
    return isinstance(error, ResponseError) and (
        "READONLY" in text or "WAIT cannot be used with replica" in text
    )


class _Brisk:
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


class Tcp(_Brisk, Connection):
    """A connection to `redis://…`."""


class Tls(_Brisk, SSLConnection):
    """A connection to `rediss://…`."""


class Local(_Brisk, UnixDomainSocketConnection):
    """A connection to `unix://…`."""


CONNECTIONS: dict[str, type[Any]] = {"redis": Tcp, "rediss": Tls, "unix": Local}
"""By the scheme of an address."""

Asked = tuple[tuple[Any, ...], dict[str, Any]]
"""One command: its arguments, and redis-py's options for reading its answer."""


class Link:
    """The server behind one client. Threads may share it, forked children may inherit it."""

    def __init__(self, client: redis.Redis) -> None:
        self._pool = client.connection_pool
        self._mine = threading.local()

    def ask_all(self, asked: Sequence[Asked]) -> list[Any]:
        """One answer for each command, in order, from one connection; an error is an answer.

        After a failover all of them are asked again, of the new primary: what was asked first may
        have been done, and what follows it may be about that. Raises what cannot be made good.
        """
        began, tries = time.monotonic(), 0
        while True:
            connection = self._connection()
            tries += 1
            try:
                answers = _answers(connection, asked)
            except LOST as error:
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

    def _connection(self) -> Any:
        """This thread's own. Taking one from the pool and giving it back costs more CPU than a
        script's whole round trip (59 µs against 23), and here it buys nothing: a thread asks one
        thing at a time."""
        connection = getattr(self._mine, "connection", None)
        # A forked child that inherited it must not read its parent's answers.
        if connection is None or connection.pid != os.getpid():
            # The first thing that is asked tells whether it is healthy, as a PING would.
            kwargs = {**self._pool.connection_kwargs, "health_check_interval": 0}
            connection = self._mine.connection = self._pool.connection_class(**kwargs)
        return connection


def _failed_over(answer: Any) -> bool:
    return isinstance(answer, ResponseError) and (read_only(answer) or not_now(answer))


def _answers(connection: Any, asked: Sequence[Asked]) -> list[Any]:
    answers: list[Any] = []
    try:
        connection.send_packed_command(connection.pack_commands([args for args, _ in asked]))
        while len(answers) < len(asked):
            try:
                answers.append(connection.read_response())
            except ResponseError as error:
                answers.append(error)
    except BaseException:
        # SystemExit of a drained worker, for one, and the turn goes on to hand the call back: the
        # answer that is still on its way must not be taken for the answer to that.
        connection.disconnect()
        raise
    return answers
