"""What may stand behind the `?` of a server's address.

redis-py hands every name on to the connections that it makes later, so an unknown one would be
found by whoever asks first, as a TypeError.
"""

from __future__ import annotations

from urllib.parse import parse_qsl, urlsplit

from callflow.errors import SettingsError, did_you_mean

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


def refuse_unknown(url: str) -> None:
    """Raise SettingsError, with its name alone, for a parameter that no connection would take.

    Raises ValueError where it may be a part of a password that was not percent-encoded.
    """
    parts = urlsplit(url)
    if parts.scheme in ("redis", "rediss"):
        refuse_ambiguous(url)
    known = _known(parts.scheme)
    for name, _ in parse_qsl(parts.query, keep_blank_values=True):
        if name in known:
            continue
        if "@" in parts.query:
            raise ValueError("a question mark before the host")
        raise SettingsError(
            "CALLFLOW_REDIS_URL",
            f"has the parameter {name!r} behind its question mark, {_way_out(name, known)}",
        )


def refuse_ambiguous(url: str) -> None:
    """Raise ValueError, without a part of it, for `redis://…` or `rediss://…` in which a sign of a
    password that was not percent-encoded would end the host: the rest would be shown as its name.
    """
    parts = urlsplit(url)
    database = parts.path.strip("/")
    whole = parts.netloc.count("@") <= 1 and ("@" in parts.netloc or "@" not in parts.query)
    if "#" in url or not whole or (database and not database.isdecimal()):
        raise ValueError("a host that may be a part of the password")


def _known(scheme: str) -> frozenset[str]:
    known = _OF_ALL if scheme == "unix" else _OF_ALL | _OF_TCP
    if scheme.startswith("rediss"):
        known |= _OF_TLS
    return known | _OF_SENTINELS if scheme.endswith("+sentinel") else known


def _way_out(name: str, known: frozenset[str]) -> str:
    if name in _OF_TLS:
        return "which is for TLS alone: begin the address with rediss instead of redis"
    return f"which is unknown{did_you_mean(name, known, most_listed=len(known))}"
