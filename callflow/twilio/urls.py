"""Builds the addresses that Twilio asks us at, and says how long it may take over each.

Twilio signs the address that it was given, so every process derives addresses from the one
configured public base URL; what a proxy made of host, port and path does not matter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode, urlsplit, urlunsplit

_SOCKET_SCHEMES: Final = {"https": "wss", "http": "ws"}


@dataclass(frozen=True, slots=True)
class Patience:
    """Twilio's connection overrides for one webhook address; they are no part of its signature.

    `connect_ms` 100 to 10,000, `read_ms` and `total_ms` 100 to 15,000, `retries` 0 to 5.
    """

    connect_ms: int = 1_000
    read_ms: int = 3_000
    total_ms: int = 15_000
    retries: int = 2
    retry_on: str = "all"

    @property
    def fragment(self) -> str:
        """As Twilio reads it behind the `#`."""
        return (
            f"ct={self.connect_ms}&rt={self.read_ms}&tt={self.total_ms}"
            f"&rc={self.retries}&rp={self.retry_on}"
        )


ANSWER: Final = Patience()
"""For addresses whose answer the caller waits for: ours come within 2.5 s, so a process that has
not answered after 3 s is dead or frozen, and another one, which sees that it is asked again, has
answered before the caller has heard nothing for 4 s. Twilio gives up after 15 s in any case."""

AT_ONCE: Final = Patience(connect_ms=500, read_ms=800, retries=3)
"""For addresses that a caller's line is moved to: answered from the record, in milliseconds, and
perhaps because the process that is asked first is frozen."""


def answered_within(wait_s: float) -> Patience:
    """For addresses that are answered after `wait_s` at the latest, but for a moment."""
    return Patience(read_ms=round(wait_s * 1000) + 500)


NOTICE: Final = Patience(connect_ms=2_000, read_ms=5_000, retries=5)
"""For status callbacks, which nobody waits for."""


def signed_url(public_url: str, path: str, query: str = "") -> str:
    """The address that Twilio signed for a request for `path` with the raw `query`.

    `public_url` may end with a path and a slash: `https://voice.example.org/lifts/`.
    """
    asked = f"?{query}" if query else ""
    return f"{public_url.rstrip('/')}/{path.lstrip('/')}{asked}"


def socket_url(public_url: str, path: str) -> str:
    """The address of a WebSocket, `wss://…`: given to Twilio, and signed by it in the handshake."""
    parts = urlsplit(signed_url(public_url, path))
    return urlunsplit(parts._replace(scheme=_SOCKET_SCHEMES.get(parts.scheme, parts.scheme)))


def callback_url(
    public_url: str,
    path: str,
    query: Mapping[str, str | int] | None = None,
    patience: Patience | None = ANSWER,
) -> str:
    """An address to give to Twilio: absolute, the query encoded, the overrides behind it."""
    address = signed_url(public_url, path, urlencode(query or {}))
    return f"{address}#{patience.fragment}" if patience else address
