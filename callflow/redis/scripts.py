"""Runs the Lua scripts, and is the border where Redis's errors become ours.

Each transition is one script in `lua/`, named after it. Clients retry, so a script may run twice
for one request; every one of them is safe to run twice. `prelude.lua` stands before each.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

import redis
import redis.asyncio
from redis.backoff import ExponentialWithJitterBackoff
from redis.exceptions import (
    ConnectionError as RedisConnectionError,
)
from redis.exceptions import (
    MovedError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
)
from redis.exceptions import (
    TimeoutError as RedisTimeoutError,
)
from redis.retry import Retry

from callflow.errors import SettingsError, StoreError, StoreFull, StoreReadOnly, StoreUnavailable
from callflow.redis import sentinel
from callflow.redis.cluster import Cluster
from callflow.redis.cluster_async import AsyncCluster
from callflow.redis.link import CONNECTIONS, LOST, Asked, Link, not_now, read_only
from callflow.redis.parameters import refuse_unknown
from callflow.redis.slots import is_cluster

CONNECT_TIMEOUT_S = 1.0
"""Within a region a connection takes milliseconds; a second means a host that is not there."""

ANSWER_TIMEOUT_S = 2.0
"""A script takes well under a millisecond. redis-py's own five seconds, ten times over, kept a
half-open link waiting for 58.8 s; two seconds, twice, leave a caller's turn its four."""

RETRIES = 1

PAUSE_S = 0.1
"""Between two tries of somebody who is patient: a failover takes seconds."""

Client = redis.Redis
"""What the rest of callflow calls a connection to the server, without importing redis."""


class Invocation(NamedTuple):
    """One run of one script: the file's stem, its KEYS and its ARGV."""

    script: str
    keys: tuple[str, ...]
    args: tuple[str | int, ...]


class Replicas(NamedTuple):
    """How many replicas must have what is to be acknowledged, and how long they are waited for."""

    least: int = 0
    wait_ms: int = 300


NO_REPLICAS = Replicas()


_OF_SEVERAL = {
    **{
        name: ("acts", name)
        for name in ("jot", "record", "say", "take", "urge", "utter", "uttered")
    },
    "dispose": ("acts", "dispose", "finish"),
}
"""Scripts that stand in several files, one after the other."""


@cache
def source(script: str) -> tuple[str, str]:
    """The text of a script with the prelude before it, and its SHA-1 as EVALSHA wants it."""
    folder = resources.files("callflow.store") / "lua"
    text = "\n".join(
        (folder / f"{name}.lua").read_text(encoding="utf-8")
        for name in ("prelude", *_OF_SEVERAL.get(script, (script,)))
    )
    return text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


def connect(
    url: str,
    *,
    connect_timeout_s: float = CONNECT_TIMEOUT_S,
    answer_timeout_s: float = ANSWER_TIMEOUT_S,
) -> redis.Redis:
    """A client for `url` that connects on first use, and whose waits all have an end.

    One question takes at most two answers and one connection: a server that has gone without a
    word is given up after one, and what is behind its address by then gets the other.
    Raises SettingsError for what is no address, and for a parameter in it that is unknown.
    """
    options: dict[str, Any] = {
        "decode_responses": True,
        "protocol": 2,
        "driver_info": None,
        "socket_connect_timeout": connect_timeout_s,
        "socket_timeout": answer_timeout_s,
        "socket_keepalive": True,
        "health_check_interval": 10,
        "retry": Retry(ExponentialWithJitterBackoff(cap=0.2, base=0.02), RETRIES),
        # Who is told that its server is read-only finds the new primary on a new connection.
        "retry_on_error": [RedisConnectionError, RedisTimeoutError, ReadOnlyError],
    }
    with _told_in_our_words():
        refuse_unknown(url)
        if is_cluster(url):
            return Cluster(url, options)
        if sentinel.is_sentinel(url):
            return redis.Redis(
                connection_pool=redis.ConnectionPool(**sentinel.pool_options(url, options))
            )
        scheme = url.partition("://")[0]
        if scheme == "unix":
            del options["socket_keepalive"]  # There is no network in between.
        kind = CONNECTIONS.get(scheme)
        return redis.Redis.from_url(url, **options, **({"connection_class": kind} if kind else {}))


def connect_async(
    url: str,
    *,
    connect_timeout_s: float = CONNECT_TIMEOUT_S,
    answer_timeout_s: float = ANSWER_TIMEOUT_S,
) -> redis.asyncio.Redis:
    """The same for an event loop. Raises SettingsError."""
    options: dict[str, Any] = {
        "decode_responses": True,
        "protocol": 2,
        "driver_info": None,
        "socket_connect_timeout": connect_timeout_s,
        "socket_timeout": answer_timeout_s,
        "retry": redis.asyncio.retry.Retry(
            ExponentialWithJitterBackoff(cap=0.2, base=0.02), RETRIES
        ),
    }
    with _told_in_our_words():
        refuse_unknown(url)
        if is_cluster(url):
            return AsyncCluster(url, options)
        if sentinel.is_sentinel(url):
            pool = sentinel.pool_options(url, options, blocking=False)
            return redis.asyncio.Redis(connection_pool=redis.asyncio.ConnectionPool(**pool))
        return redis.asyncio.Redis.from_url(url, **options)


@contextmanager
def _told_in_our_words() -> Iterator[None]:
    try:
        yield
    except ValueError:
        # The text of the error may hold a part of the password: it is left out.
        raise SettingsError(
            "CALLFLOW_REDIS_URL",
            "is no address of a Redis server: write redis://:password@host:6379/0 (or rediss://… "
            f"or unix://…), or {sentinel.FORM}, or redis+cluster://:password@host:6379,host2:6379, "
            "with special characters of the password percent-encoded",
        ) from None


REPLICA_ROLES = ("slave", "replica")
"""What INFO calls a server that follows another one."""


def address(client: redis.Redis | redis.asyncio.Redis) -> str:
    """Where `client` connects to, without its password: `host:port/db` or a socket's path."""
    kwargs = client.connection_pool.connection_kwargs
    if path := kwargs.get("path"):
        return str(path)
    if sentinels := kwargs.get("sentinels"):
        return f"{sentinels}/{kwargs.get('db', 0)}"
    return f"{kwargs.get('host')}:{kwargs.get('port')}/{kwargs.get('db', 0)}"


@contextmanager
def translated(where: str) -> Iterator[None]:
    """Raise our own errors for Redis's: the border is crossed here and nowhere else."""
    try:
        yield
    except OutOfMemoryError as error:
        raise StoreFull(where) from error
    except LOST as error:
        raise StoreUnavailable(where, str(error)) from error
    except MovedError as error:
        raise StoreError(
            f"the Redis server at {where} is one node of a cluster and holds a part of the calls: "
            "write redis+cluster://… (or rediss+cluster://…) in CALLFLOW_REDIS_URL"
        ) from error
    except RedisError as error:
        # An error inside a script arrives as a plain ResponseError with the cause in its text.
        if read_only(error):
            raise StoreReadOnly(where) from error
        if not_now(error):
            raise StoreUnavailable(where, str(error)) from error
        raise StoreError(f"the Redis server at {where} refused: {error}") from error


class Scripts:
    """Runs scripts through one client; threads may share it, forked children may inherit it.

    `replicas`: who must have what `run_assured` writes. `patience_s`: for so long a script is tried
    again while the server is gone; nothing else is, since what is asked for many calls at once is
    asked again by itself.
    """

    def __init__(
        self, client: redis.Redis, *, replicas: Replicas = NO_REPLICAS, patience_s: float = 0.0
    ) -> None:
        self.client = client
        self.where = address(client)
        self.replicas = replicas
        self._patience_s = patience_s
        self._ask_all: Callable[[Sequence[Asked]], list[Any]] = (
            client.ask_all if isinstance(client, Cluster) else Link(client).ask_all
        )

    def run(self, script: str, keys: Sequence[str], args: Sequence[str | int]) -> Any:
        """Run one script in one round trip (two when the server does not know it yet)."""
        return self._patiently(script, keys, args, ())[0]

    def run_assured(
        self, script: str, keys: Sequence[str], args: Sequence[str | int]
    ) -> tuple[Any, bool]:
        """The same, and whether enough replicas have what it has written, within `wait_ms`.

        The script must write something, even where it changes nothing (`vouch` in the prelude):
        WAIT asks about the last write of its own connection, and where there was none it answers
        at once, with every replica that is connected.
        """
        least, wait_ms = self.replicas
        if not least:
            return self.run(script, keys, args), True
        said, count = self._patiently(script, keys, args, ("WAIT", least, wait_ms))
        return said, int(count) >= least

    def _patiently(
        self, script: str, keys: Sequence[str], args: Sequence[str | int], then: tuple[Any, ...]
    ) -> list[Any]:
        give_up = time.monotonic() + self._patience_s
        while True:
            try:
                with translated(self.where):
                    return self._once(script, keys, args, then)
            except (StoreUnavailable, StoreReadOnly):
                if time.monotonic() + PAUSE_S > give_up:
                    raise
            time.sleep(PAUSE_S)

    def _once(
        self, script: str, keys: Sequence[str], args: Sequence[str | int], then: tuple[Any, ...]
    ) -> list[Any]:
        text, sha = source(script)
        after: list[Asked] = [(then, {})] if then else []
        answers = self._ask_all([(("EVALSHA", sha, len(keys), *keys, *args), {}), *after])
        if isinstance(answers[0], NoScriptError):
            answers = self._ask_all([(("EVAL", text, len(keys), *keys, *args), {}), *after])
        for answer in answers:
            if isinstance(answer, Exception):
                raise answer
        return answers

    def run_all(self, invocations: Sequence[Invocation]) -> list[Any]:
        """Run many scripts in one round trip, in order; the results come in the same order."""
        if not invocations:
            return []
        with translated(self.where):
            try:
                return self._pipelined(invocations, known=True)
            except NoScriptError:
                # Their text goes with them: loaded by itself, it could go to another server, where
                # a connection of the pool still leads after a failover.
                return self._pipelined(invocations, known=False)

    def _pipelined(self, invocations: Sequence[Invocation], *, known: bool) -> list[Any]:
        with self.client.pipeline(transaction=False) as pipe:
            for one in invocations:
                text, sha = source(one.script)
                if known:
                    pipe.evalsha(sha, len(one.keys), *one.keys, *one.args)
                else:
                    pipe.eval(text, len(one.keys), *one.keys, *one.args)
            return pipe.execute()
