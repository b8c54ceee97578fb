"""A primary whose name Sentinels know: every new connection asks them first who it is.

So a client that has lost its connection, or was told that its server is read-only, comes to the
new primary as soon as the Sentinels have one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any
from urllib.parse import SplitResult, parse_qsl, unquote, urlencode, urlsplit

import redis
import redis.asyncio.connection
from redis.backoff import NoBackoff
from redis.connection import ConnectionPool, parse_url
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError
from redis.retry import Retry

from callflow.redis.link import Tcp, Tls

SCHEMES = {"redis+sentinel": "redis", "rediss+sentinel": "rediss"}
"""How it is named in CALLFLOW_REDIS_URL, and what the servers are spoken to by. The Sentinels are
spoken to in the same way."""

FORM = "redis+sentinel://:password@host:26379,host2:26379/service/0"
"""The servers' user and password; every Sentinel; the name under which they know the primary; the
database, which may be left out. Where Sentinels want a password of their own:
`?sentinel_password=…`, and `&sentinel_username=…`."""

PORT = 26_379

_TIMEOUTS = ("socket_timeout", "socket_connect_timeout", "socket_keepalive")


class Sentinels:
    """Who knows where the primary of one service is."""

    def __init__(
        self, addresses: Sequence[tuple[str, int]], service: str, options: dict[str, Any]
    ) -> None:
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


class _Asking:
    """A connection that asks where to connect to."""

    def __init__(self, *, sentinels: Sentinels, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.sentinels = sentinels

    def _connect(self: Any) -> Any:
        self.host, self.port = self.sentinels.primary()
        return super()._connect()  # type: ignore[misc]


class _AskingTcp(_Asking, Tcp):
    pass


class _AskingTls(_Asking, Tls):
    pass


class _AskingAsync:
    def __init__(self, *, sentinels: Sentinels, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.sentinels = sentinels

    async def _connect(self: Any) -> None:
        self.host, self.port = await asyncio.to_thread(self.sentinels.primary)
        await super()._connect()  # type: ignore[misc]


class _AskingAsyncTcp(_AskingAsync, redis.asyncio.connection.Connection):
    pass


class _AskingAsyncTls(_AskingAsync, redis.asyncio.connection.SSLConnection):
    pass


_SYNC: dict[str, type[Any]] = {"redis": _AskingTcp, "rediss": _AskingTls}
_ASYNC: dict[str, type[Any]] = {"redis": _AskingAsyncTcp, "rediss": _AskingAsyncTls}


def is_sentinel(url: str) -> bool:
    """True for the address of a primary that Sentinels know."""
    return url.partition("://")[0] in SCHEMES


def pool_options(url: str, options: dict[str, Any], *, blocking: bool = True) -> dict[str, Any]:
    """What a connection pool of redis-py (of its asyncio half where not `blocking`) needs.

    `options`: of every connection. Raises ValueError for what is no such address.
    """
    parts = urlsplit(url)
    scheme = SCHEMES[parts.scheme]
    userinfo, at, hosts = parts.netloc.rpartition("@")
    service, _, database = unquote(parts.path).strip("/").partition("/")
    named = [SplitResult("", host, "", "", "") for host in hosts.split(",")]
    if not service or not all(one.hostname for one in named) or not (database or "0").isdigit():
        raise ValueError(f"a primary that Sentinels know is named like {FORM}")
    query = dict(parse_qsl(parts.query))
    theirs = {
        name: query.pop(f"sentinel_{name}")
        for name in ("username", "password")
        if f"sentinel_{name}" in query
    }
    plain = f"{scheme}://{userinfo}{at}primary/{database}?{urlencode(query)}"
    ours: dict[str, Any] = parse_url(plain)  # type: ignore[no-untyped-call]
    for name in ("host", "port", "connection_class"):
        ours.pop(name, None)
    tls = {name: value for name, value in ours.items() if name.startswith("ssl_")}
    sentinels = Sentinels(
        [(one.hostname or "", one.port or PORT) for one in named],
        service,
        {
            **{name: options[name] for name in _TIMEOUTS if name in options},
            **tls,
            **theirs,
            "connection_class": Tls if scheme == "rediss" else Tcp,
            "retry": Retry(NoBackoff(), 0),
            "protocol": 2,
            "decode_responses": True,
        },
    )
    kinds = _SYNC if blocking else _ASYNC
    return {**options, **ours, "connection_class": kinds[scheme], "sentinels": sentinels}
