"""The address of the Celery messages: kombu writes some in its own way, others after each other."""

from __future__ import annotations

from urllib.parse import quote, urlsplit

from callflow.redis.parameters import refuse_ambiguous

SOCKET = "redis+socket://"
SENTINEL = "sentinel://"


def refuse_broken(url: str) -> None:
    """Raise ValueError, without a part of it, where kombu would fail at every connection."""
    for one in url.split(";"):
        scheme = one.partition("://")[0]
        try:
            parts = urlsplit(one)
            broken = parts.port == 0 or (scheme == "sentinel" and not parts.hostname)
            if scheme in ("redis", "rediss"):
                refuse_ambiguous(one)
        except ValueError:
            broken = True  # The text of the error may hold a part of the password.
        if scheme != url.partition("://")[0] or broken:
            raise ValueError(
                "has a host or a port that is none: write redis://:password@host:6379/0, or "
                "sentinel://:password@host:26379;sentinel://host2:26379, with special characters "
                "of the password percent-encoded"
            )


def as_of_calls(url: str, service: str) -> str:
    """The same place as CALLFLOW_REDIS_URL would name it. `service`: what Sentinels call it."""
    if url.startswith(SOCKET):
        return f"unix://{url.removeprefix(SOCKET)}".replace("virtual_host=", "db=")
    if not url.startswith(SENTINEL):
        return url
    # User, password and database are those of the first, as kombu takes them.
    named = [urlsplit(one) for one in url.split(";")]
    userinfo, at, _ = named[0].netloc.rpartition("@")
    hosts = ",".join(one.netloc.rpartition("@")[2] for one in named)
    database = named[0].path.strip("/")
    return f"redis+sentinel://{userinfo}{at}{hosts}/{quote(service, safe='')}/{database}"
