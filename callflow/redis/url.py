"""Judges Redis addresses: one server, a cluster, a primary behind Sentinels, Celery's broker.

redis-py hands every name behind the `?` on to the connections that it makes later, so an unknown
one would be found by whoever asks first, as a TypeError. No error shows a part of a password that
was not percent-encoded.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlencode, urlsplit

from redis.connection import parse_url

from callflow.errors import SettingsError, did_you_mean

CLUSTER_SCHEMES = {"redis+cluster": "redis", "rediss+cluster": "rediss"}
"""How a cluster is named in CALLFLOW_REDIS_URL, and what its nodes are spoken to by.

By its name and not by asking: whether the broker may live there has to be known before anything is
connected, and which client is wanted even while every node is down.
"""

SENTINEL_SCHEMES = {"redis+sentinel": "redis", "rediss+sentinel": "rediss"}
"""The same for a primary that Sentinels know. They are spoken to in the same way."""

STORE_SCHEMES = ("redis", "rediss", "unix", *SENTINEL_SCHEMES, *CLUSTER_SCHEMES)

BROKER_SCHEMES = ("redis", "rediss", "redis+socket", "sentinel")
"""What kombu calls them; it has no transport for a cluster."""

BROKER_SERVICE = "mymaster"
"""What Sentinels call the primary of the messages, where CALLFLOW_BROKER_SERVICE does not say."""

SENTINEL_FORM = "redis+sentinel://:password@host:26379,host2:26379/service/0"
"""The servers' user and password; every Sentinel; the name under which they know the primary; the
database, which may be left out. Where Sentinels want a password of their own:
`?sentinel_password=…`, and `&sentinel_username=…`."""

FORMS = (
    "redis://:password@host:6379/0 (or rediss://… or unix://…), or "
    f"{SENTINEL_FORM}, or redis+cluster://:password@host:6379,host2:6379"
)

_BROKER_SOCKET = "redis+socket://"
_BROKER_SENTINEL = "sentinel://"

_OF_ALL = frozenset(
    {
        "client_name",
        "db",
        "encoding",
        "encoding_errors",
        "health_check_interval",
        "max_connections",
        "password",
        "protocol",
        "retry_on_timeout",
        "socket_connect_timeout",
        "socket_read_size",
        "socket_timeout",
        "username",
    }
)
_OF_TCP = frozenset({"socket_keepalive"})
_OF_TLS = frozenset(
    {
        "ssl_ca_certs",
        "ssl_ca_data",
        "ssl_cert_reqs",
        "ssl_certfile",
        "ssl_check_hostname",
        "ssl_ciphers",
        "ssl_exclude_verify_flags",
        "ssl_include_verify_flags",
        "ssl_keyfile",
        "ssl_min_version",
        "ssl_password",
    }
)
"""Those that threads and event loops both know: one address is for the workers and for the web."""
_OF_SENTINELS = frozenset({"sentinel_password", "sentinel_username"})


class Address(NamedTuple):
    """Where one server listens."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class SentinelAddress:
    """A primary that Sentinels know. Options are of connections, as redis-py takes them."""

    scheme: str
    sentinels: tuple[Address, ...]
    service: str
    options: dict[str, Any]
    sentinel_options: dict[str, Any]


def is_cluster(url: str) -> bool:
    """True for the address of a cluster."""
    return url.partition("://")[0] in CLUSTER_SCHEMES


def is_sentinel(url: str) -> bool:
    """True for the address of a primary that Sentinels know."""
    return url.partition("://")[0] in SENTINEL_SCHEMES


def parse_cluster(url: str) -> tuple[str, tuple[Address, ...], dict[str, Any]]:
    """The scheme of every node, the nodes that are named, and the options of connections to them.

    One name is enough (ElastiCache's configuration endpoint); several, with commas between them,
    let a process start while one of them is down. User, password and `?ssl_ca_certs=…` are as for
    one server. Raises ValueError for what is no address of a cluster.
    """
    parts = _split(url)
    # A cluster has the database 0 alone.
    if parts.scheme not in CLUSTER_SCHEMES or parts.path not in ("", "/", "/0"):
        raise ValueError("no address of a cluster")
    scheme = CLUSTER_SCHEMES[parts.scheme]
    userinfo, nodes = _several(parts, default_port=6379)
    query = f"?{parts.query}" if parts.query else ""
    return scheme, nodes, _options(f"{scheme}://{userinfo}node{query}")


def parse_sentinel(url: str) -> SentinelAddress:
    """Raises ValueError for what is no address of a primary that Sentinels know."""
    parts = _split(url)
    scheme = SENTINEL_SCHEMES[parts.scheme]
    userinfo, sentinels = _several(parts, default_port=26_379)
    service, _, database = unquote(parts.path).strip("/").partition("/")
    if not service or not (database or "0").isdigit():
        raise ValueError(f"a primary that Sentinels know is named like {SENTINEL_FORM}")
    query = dict(parse_qsl(parts.query))
    theirs = {name.removeprefix("sentinel_"): query.pop(name) for name in _OF_SENTINELS & {*query}}
    options = _options(f"{scheme}://{userinfo}primary/{database}?{urlencode(query)}")
    tls = {name: value for name, value in options.items() if name.startswith("ssl_")}
    return SentinelAddress(scheme, sentinels, service, options, {**tls, **theirs})


def _split(url: str) -> SplitResult:
    """As urlsplit, which newer Pythons keep from addresses with several hosts, one in brackets."""
    scheme, mark, rest = url.partition("://")
    netloc = re.split("[/?#]", rest, maxsplit=1)[0]
    if not mark or "," not in netloc:
        return urlsplit(url)
    return urlsplit(f"{scheme}://hosts{rest[len(netloc) :]}")._replace(netloc=netloc)


def _several(parts: SplitResult, default_port: int) -> tuple[str, tuple[Address, ...]]:
    """User and password with their `@`, and the hosts between the commas."""
    userinfo, at, hosts = parts.netloc.rpartition("@")
    named = [SplitResult("", host, "", "", "") for host in hosts.split(",")]
    if not all(one.hostname for one in named):
        raise ValueError("a host without a name")
    found = tuple(Address(one.hostname or "", one.port or default_port) for one in named)
    return userinfo + at, found


def _options(url: str) -> dict[str, Any]:
    """What the address of one server says of connections, but for where it is."""
    options: dict[str, Any] = parse_url(url)  # type: ignore[no-untyped-call]
    for name in ("host", "port", "connection_class"):
        options.pop(name, None)
    return options


def check_parameters(url: str) -> None:
    """Raise SettingsError, with its name alone, for a parameter that no connection would take.

    Raises ValueError where it may be a part of a password that was not percent-encoded.
    """
    parts = _split(url)
    if parts.scheme in ("redis", "rediss"):
        _check_unambiguous(url)
    known = _known_parameters(parts.scheme)
    for name, _ in parse_qsl(parts.query, keep_blank_values=True):
        if name in known:
            continue
        if "@" in parts.query:
            raise ValueError("a question mark before the host")
        raise SettingsError(
            "CALLFLOW_REDIS_URL",
            f"has the parameter {name!r} behind its question mark, {_way_out(name, known)}",
        )


def _check_unambiguous(url: str) -> None:
    """Raise ValueError, without a part of it, for `redis://…` or `rediss://…` in which a sign of a
    password that was not percent-encoded would end the host: the rest would be shown as its name.
    """
    parts = urlsplit(url)
    database = parts.path.strip("/")
    whole = parts.netloc.count("@") <= 1 and ("@" in parts.netloc or "@" not in parts.query)
    if "#" in url or not whole or (database and not database.isdecimal()):
        raise ValueError("a host that may be a part of the password")


def _known_parameters(scheme: str) -> frozenset[str]:
    known = _OF_ALL if scheme == "unix" else _OF_ALL | _OF_TCP
    if scheme.startswith("rediss"):
        known |= _OF_TLS
    return known | _OF_SENTINELS if scheme.endswith("+sentinel") else known


def _way_out(name: str, known: frozenset[str]) -> str:
    if name in _OF_TLS:
        return "which is for TLS alone: begin the address with rediss instead of redis"
    return f"which is unknown{did_you_mean(name, known, most_listed=len(known))}"


def check_broker_url(url: str) -> None:
    """Raise ValueError, without a part of it, where kombu would fail at every connection."""
    for one in url.split(";"):
        scheme = one.partition("://")[0]
        try:
            parts = urlsplit(one)
            broken = parts.port == 0 or (scheme == "sentinel" and not parts.hostname)
            if scheme in ("redis", "rediss"):
                _check_unambiguous(one)
        except ValueError:
            broken = True  # The text of the error may hold a part of the password.
        if scheme != url.partition("://")[0] or broken:
            raise ValueError(
                "has a host or a port that is none: write redis://:password@host:6379/0, or "
                "sentinel://:password@host:26379;sentinel://host2:26379, with special characters "
                "of the password percent-encoded"
            )


def store_url_of_broker(url: str, service: str) -> str:
    """The broker's address as CALLFLOW_REDIS_URL would name the same place: kombu writes some in
    its own way, and others after each other. `service`: what Sentinels call its primary."""
    if url.startswith(_BROKER_SOCKET):
        return f"unix://{url.removeprefix(_BROKER_SOCKET)}".replace("virtual_host=", "db=")
    if not url.startswith(_BROKER_SENTINEL):
        return url
    # User, password and database are those of the first, as kombu takes them.
    named: Sequence[SplitResult] = [urlsplit(one) for one in url.split(";")]
    userinfo, at, _ = named[0].netloc.rpartition("@")
    hosts = ",".join(one.netloc.rpartition("@")[2] for one in named)
    database = named[0].path.strip("/")
    return f"redis+sentinel://{userinfo}{at}{hosts}/{quote(service, safe='')}/{database}"
