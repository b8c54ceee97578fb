"""Connects to the Redis server that holds the calls, whatever form its address has.

Everything else in callflow speaks to Redis through this folder: its names for clients and errors
are here.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import redis
import redis.asyncio
from redis.backoff import ExponentialWithJitterBackoff
from redis.client import PubSub
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import (
    MovedError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
)
from redis.exceptions import TimeoutError as RedisTimeoutError
from redis.retry import Retry

from callflow.errors import SettingsError, StoreError, StoreFull, StoreReadOnly, StoreUnavailable
from callflow.redis.cluster import AsyncCluster, Cluster
from callflow.redis.connection import (
    CONNECTION_ERRORS,
    CONNECTIONS,
    is_read_only,
    is_temporary,
    sentinel_pool_options,
)
from callflow.redis.url import FORMS, check_parameters, is_cluster, is_sentinel

__all__ = [
    "CONNECTION_ERRORS",
    "AsyncClient",
    "Client",
    "PubSub",
    "RedisConnectionError",
    "RedisError",
    "ResponseError",
    "address",
    "connect",
    "connect_async",
    "nodes",
    "owner",
    "subscription",
    "translated",
]

CONNECT_TIMEOUT_S = 1.0
"""Within a region a connection takes milliseconds; a second means a host that is not there."""

ANSWER_TIMEOUT_S = 2.0
"""A script takes well under a millisecond. redis-py's own five seconds, ten times over, kept a
half-open link waiting for 58.8 s; two seconds, twice, leave a caller's turn its four."""

RETRIES = 1

REPLICA_ROLES = ("slave", "replica")
"""What INFO calls a server that follows another one."""

Client = redis.Redis
"""A connection to the server, or to a cluster."""

AsyncClient = redis.asyncio.Redis | AsyncCluster
"""The same for an event loop."""


def connect(
    url: str,
    *,
    connect_timeout_s: float = CONNECT_TIMEOUT_S,
    answer_timeout_s: float = ANSWER_TIMEOUT_S,
) -> Client:
    """A client for `url` that connects on first use, and whose waits all have an end.

    One question takes at most two answers and one connection: a server that has gone without a
    word is given up after one, and what is behind its address by then gets the other.
    Raises SettingsError for what is no address, and for a parameter in it that is unknown.
    """
    options = {
        **_options(connect_timeout_s, answer_timeout_s),
        "socket_keepalive": True,
        "health_check_interval": 10,
        "retry": Retry(ExponentialWithJitterBackoff(cap=0.2, base=0.02), RETRIES),
        # Who is told that its server is read-only finds the new primary on a new connection.
        "retry_on_error": [RedisConnectionError, RedisTimeoutError, ReadOnlyError],
    }
    with _address_errors():
        check_parameters(url)
        if is_cluster(url):
            return Cluster(url, options)
        if is_sentinel(url):
            pool = redis.ConnectionPool(**sentinel_pool_options(url, options))
            return redis.Redis(connection_pool=pool)
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
) -> AsyncClient:
    """The same for an event loop. Raises SettingsError."""
    backoff = ExponentialWithJitterBackoff(cap=0.2, base=0.02)
    options = {
        **_options(connect_timeout_s, answer_timeout_s),
        "retry": redis.asyncio.retry.Retry(backoff, RETRIES),
    }
    with _address_errors():
        check_parameters(url)
        if is_cluster(url):
            return AsyncCluster(url, options)
        if is_sentinel(url):
            pool = sentinel_pool_options(url, options, blocking=False)
            return redis.asyncio.Redis(connection_pool=redis.asyncio.ConnectionPool(**pool))
        return redis.asyncio.Redis.from_url(url, **options)


def _options(connect_timeout_s: float, answer_timeout_s: float) -> dict[str, Any]:
    return {
        "decode_responses": True,
        "protocol": 2,
        "driver_info": None,
        "socket_connect_timeout": connect_timeout_s,
        "socket_timeout": answer_timeout_s,
    }


@contextmanager
def _address_errors() -> Iterator[None]:
    try:
        yield
    except ValueError:
        # The text of the error may hold a part of the password: it is left out.
        raise SettingsError(
            "CALLFLOW_REDIS_URL",
            f"is no address of a Redis server: write {FORMS}, with special characters of the "
            "password percent-encoded",
        ) from None


def address(client: AsyncClient | Client) -> str:
    """Where `client` connects to, without its password: `host:port/db` or a socket's path."""
    if isinstance(client, AsyncCluster):
        host, port = client.seeds[0]
        return f"{host}:{port}/0"
    kwargs = client.connection_pool.connection_kwargs
    if path := kwargs.get("path"):
        return str(path)
    if sentinels := kwargs.get("sentinels"):
        return f"{sentinels}/{kwargs.get('db', 0)}"
    return f"{kwargs.get('host')}:{kwargs.get('port')}/{kwargs.get('db', 0)}"


def nodes(client: Client) -> list[Client]:
    """The servers behind `client`: itself, or one client for each master of a cluster."""
    return client.primaries() if isinstance(client, Cluster) else [client]


def owner(client: Client, name: str) -> Client:
    """The server that a channel of this name is at home at; another one after its slot has moved
    or its master was replaced. It is looked for again every two seconds."""
    return client.owner(name) if isinstance(client, Cluster) else client


async def subscription(client: AsyncClient) -> redis.asyncio.client.PubSub:
    """A subscription; in a cluster at one node, each time at the next one."""
    return await client.subscription() if isinstance(client, AsyncCluster) else client.pubsub()


@contextmanager
def translated(where: str) -> Iterator[None]:
    """Raise our own errors for Redis's: the border is crossed here and nowhere else."""
    try:
        yield
    except OutOfMemoryError as error:
        raise StoreFull(where) from error
    except CONNECTION_ERRORS as error:
        raise StoreUnavailable(where, str(error)) from error
    except MovedError as error:
        raise StoreError(
            f"the Redis server at {where} is one node of a cluster and holds a part of the calls: "
            "write redis+cluster://… (or rediss+cluster://…) in CALLFLOW_REDIS_URL"
        ) from error
    except RedisError as error:
        # An error inside a script arrives as a plain ResponseError with the cause in its text.
        if is_read_only(error):
            raise StoreReadOnly(where) from error
        if is_temporary(error):
            raise StoreUnavailable(where, str(error)) from error
        raise StoreError(f"the Redis server at {where} refused: {error}") from error
