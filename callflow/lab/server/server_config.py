"""How an embedded server is configured; understood by Redis 7.0 and Valkey 9 alike."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


def config(port: int, password: str, data_dir: Path, options: Sequence[str] = ()) -> str:
    """The text of its configuration. `options` are further lines; each wins over ours."""
    return "\n".join(
        (
            "bind 127.0.0.1",
            f"port {port}",
            f"requirepass {password}",
            # For when it is, or becomes, a replica of another one that was given the same.
            f"masterauth {password}",
            f"dir {_quoted(str(data_dir))}",
            "logfile server.log",
            "loglevel warning",
            "daemonize no",
            'save ""',
            "appendonly yes",
            "appendfsync everysec",
            "maxmemory-policy noeviction",
            *options,
            "",
        )
    )


def _quoted(text: str) -> str:
    """Return `text` as one word of a server's configuration."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
