"""Runs the app: one process, one port, until it is told to end."""

from __future__ import annotations

import ipaddress
import resource
import socket
from contextlib import suppress

import uvicorn

from callflow import bootstrap, tracing
from callflow.errors import SettingsError
from callflow.settings import Settings
from callflow.web.app import create

DRAIN_S = 10
"""How long a process that is told to end may go on answering: a reply is awaited for 3.5 s."""

UNSIGNED = (
    "SIGNATURES ARE NOT CHECKED (CALLFLOW_UNSIGNED): anybody who reaches this port can open and "
    "end calls. For development on this machine only."
)


def check(settings: Settings, host: str) -> None:
    """Raises SettingsError for a process that could not answer calls, or would let anybody in."""
    if settings.unsigned and not _loopback(host):
        raise SettingsError(
            "CALLFLOW_UNSIGNED",
            f"set, and {host} can be reached from other machines: unsigned webhooks are believed "
            "on loopback only; unset it, or listen on 127.0.0.1",
        )
    if not settings.unsigned and not settings.webhook_tokens:
        raise SettingsError(
            "CALLFLOW_TWILIO_AUTH_TOKEN",
            "not set: webhooks could not be told from forgeries (CALLFLOW_UNSIGNED=1 turns the "
            "check off, on loopback)",
        )
    if settings.public_url is None:
        raise SettingsError(
            "CALLFLOW_PUBLIC_URL",
            "not set: it is the address at which the carrier reaches us, and part of what it signs",
        )
    if settings.sites is None:
        raise SettingsError(
            "CALLFLOW_SITES",
            "not set: it names the file that says which lift calls and whom to ring for it; "
            "begin with sites.example.yaml, and try it with `callflow sites check FILE`",
        )


def serve(host: str, port: int) -> None:
    """Answer calls on `host` and `port` until SIGTERM. Raises SettingsError, SitesError and
    TracesMissing. Logs as the process does."""
    settings = bootstrap.settings()
    check(settings, host)
    tracing.begin(settings.traces_url, "web")
    # Each caller who waits has a connection, and 1,024 of them is what systems allow by default.
    _, allowed = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, allowed))
    app = create(settings, bootstrap.sites(), bootstrap.telephone())
    server = _Server(
        uvicorn.Config(
            app,
            host=host,
            port=port,
            # The process has one log already, and uvicorn's own would have what callers say.
            log_config=None,
            # Addresses carry what callers say while the store is gone: no log may have them.
            access_log=False,
            ws="websockets-sansio",
            ws_max_size=64 * 1024,
            ws_ping_interval=10,
            ws_ping_timeout=10,
            # Whatever a proxy says of itself: the signature is over the public address alone.
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=DRAIN_S,
            backlog=2048,
        )
    )
    with suppress(KeyboardInterrupt):  # It has ended as it should by then.
        server.run()
    if not server.started:
        raise SystemExit(3)  # As uvicorn.run does; the log says why.


class _Server(uvicorn.Server):
    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let open boards go first: their streams have no end of their own."""
        feed = getattr(self.config.app.state, "feed", None)  # type: ignore[union-attr]
        if feed is not None:
            feed.end()
        await super().shutdown(sockets)


def _loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
