"""Runs the Lua scripts, and is the border where Redis's errors become ours.

Each transition is one script in `lua/`, named after it. Clients retry, so a script may run twice
for one request; every one of them is safe to run twice. `prelude.lua` stands before each.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

import redis
import redis.asyncio
from redis.backoff import ExponentialWithJitterBackoff
from redis.connection import Connection
from redis.exceptions import (
    ConnectionError as RedisConnectionError,
)
from redis.exceptions import (
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
)
from redis.exceptions import (
    TimeoutError as RedisTimeoutError,
)
from redis.retry import Retry

from callflow.errors import SettingsError, StoreError, StoreFull, StoreReadOnly, StoreUnavailable

CONNECT_TIMEOUT_S = 1.0
"""Within a region a connection takes milliseconds; a second means a host that is not there."""

ANSWER_TIMEOUT_S = 2.0
"""A script takes well under a millisecond. redis-py's own five seconds, ten times over, kept a
half-open link waiting for 58.8 s; two seconds, twice, leave a caller's turn its four."""

RETRIES = 1

Client = redis.Redis
"""What the rest of callflow calls a connection to the server, without importing redis."""


class Invocation(NamedTuple):
    """One run of one script: the file's stem, its KEYS and its ARGV."""

    script: str
    keys: tuple[str, ...]
    args: tuple[str | int, ...]


@cache
def source(script: str) -> tuple[str, str]:
    """The text of a script with the prelude before it, and its SHA-1 as EVALSHA wants it."""
    folder = resources.files("callflow.store") / "lua"
    text = "\n".join(
        (folder / f"{name}.lua").read_text(encoding="utf-8") for name in ("prelude", script)
    )
    return text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


def connect(
    url: str,
    *,
    connect_timeout_s: float = CONNECT_TIMEOUT_S,
    answer_timeout_s: float = ANSWER_TIMEOUT_S,
) -> redis.Redis:
    """A client for `url` that connects on first use, and whose waits all have an end.

    Raises SettingsError for what is no address.
    """
    try:
        return redis.Redis.from_url(
            url,
            decode_responses=True,
            protocol=2,
            socket_connect_timeout=connect_timeout_s,
            socket_timeout=answer_timeout_s,
            socket_keepalive=True,
            health_check_interval=10,
            retry=Retry(ExponentialWithJitterBackoff(cap=0.2, base=0.02), RETRIES),
            retry_on_error=[RedisConnectionError, RedisTimeoutError],
        )
    except ValueError:
        # The text of the error may hold a part of the password: it is left out.
        raise SettingsError(
            "CALLFLOW_REDIS_URL",
            "is no address of a Redis server: write redis://:password@host:6379/0 (or rediss://… "
            "or unix://…), with special characters of the password percent-encoded",
        ) from None


def address(client: redis.Redis | redis.asyncio.Redis) -> str:
    """Where `client` connects to, without its password: `host:port/db` or a socket's path."""
    kwargs = client.connection_pool.connection_kwargs
    if path := kwargs.get("path"):
        return str(path)
    return f"{kwargs.get('host')}:{kwargs.get('port')}/{kwargs.get('db', 0)}"


@contextmanager
def translated(where: str) -> Iterator[None]:
    """Raise our own errors for Redis's: the border is crossed here and nowhere else."""
    try:
        yield
    except ReadOnlyError as error:
        raise StoreReadOnly(where) from error
    except OutOfMemoryError as error:
        raise StoreFull(where) from error
    except (RedisConnectionError, RedisTimeoutError) as error:
        raise StoreUnavailable(where, str(error)) from error
    except RedisError as error:
        # An error inside a script arrives as a plain ResponseError with the cause in its text.
        if "READONLY" in str(error):
            raise StoreReadOnly(where) from error
        raise StoreError(f"the Redis server at {where} refused: {error}") from error


class Scripts:
    """Runs scripts through one client; threads may share it, forked children may inherit it."""

    def __init__(self, client: redis.Redis) -> None:
        self.client = client
        self.where = address(client)
        self._mine = threading.local()

    def run(self, script: str, keys: Sequence[str], args: Sequence[str | int]) -> Any:
        """Run one script in one round trip (two when the server does not know it yet)."""
        text, sha = source(script)
        with translated(self.where):
            try:
                return self._ask("EVALSHA", sha, len(keys), *keys, *args)
            except NoScriptError:
                return self._ask("EVAL", text, len(keys), *keys, *args)

    def _ask(self, *command: str | int) -> Any:
        """One command on this thread's own connection, with the client's retries.

        Taking a connection from the pool and giving it back costs more CPU than the script's whole
        round trip (59 µs against 23), and here it buys nothing: a thread asks one thing at a time.
        """
        connection: Any = self._connection()
        return connection.retry.call_with_retry(
            lambda: _answer(connection, command), lambda _: connection.disconnect()
        )

    def _connection(self) -> Connection:
        connection: Connection | None = getattr(self._mine, "connection", None)
        # A forked child that inherited it must not read its parent's answers.
        if connection is None or connection.pid != os.getpid():
            pool = self.client.connection_pool
            connection = self._mine.connection = pool.connection_class(**pool.connection_kwargs)
        return connection

    def run_all(self, invocations: Sequence[Invocation]) -> list[Any]:
        """Run many scripts in one round trip, in order; the results come in the same order."""
        if not invocations:
            return []
        with translated(self.where):
            try:
                return self._pipelined(invocations)
            except NoScriptError:
                for script in {one.script for one in invocations}:
                    self.client.script_load(source(script)[0])
                return self._pipelined(invocations)

    def _pipelined(self, invocations: Sequence[Invocation]) -> list[Any]:
        with self.client.pipeline(transaction=False) as pipe:
            for one in invocations:
                pipe.evalsha(source(one.script)[1], len(one.keys), *one.keys, *one.args)
            return pipe.execute()


def _answer(connection: Any, command: Sequence[str | int]) -> Any:
    try:
        connection.send_command(*command)
        return connection.read_response()
    except ResponseError:
        raise  # This was the answer.
    except BaseException:
        # SystemExit of a drained worker, for one, and the turn goes on to hand the call back: the
        # answer that is still on its way must not be taken for the answer to that.
        connection.disconnect()
        raise
