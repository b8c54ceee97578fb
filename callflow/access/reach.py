"""How people reach the board, and what follows: which cookies are safe, whose forms are ours.

It is as the settings say and never as a request says: any of its headers may be a stranger's.
"""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response

from callflow.settings.people import LOOPBACK

SESSION, BEFORE = "callflow-session", "callflow-before"
"""Cookies: of somebody who has signed in, and of a browser in which somebody is about to."""


class Reach:
    """Where the board is for people (`url`), behind how many proxies of ours."""

    def __init__(self, url: str, proxies: int = 0) -> None:
        parts = urlsplit(url)
        self.url = f"{parts.scheme}://{parts.netloc}"
        self.secure = parts.scheme == "https"
        """Whether everything that is secret comes by https alone."""
        self.safe = self.secure or parts.hostname in LOOPBACK
        """False where somebody in between could read a password: then nobody signs in."""
        self._proxies = proxies

    def own(self, request: Request) -> bool:
        """Whether a form comes from a page of ours. Browsers say where it comes from, and send
        `null` or nothing where they will not tell: that is not ours either."""
        origin = request.headers.get("origin", "").lower()
        if origin == self.url.lower():
            return True
        # On this machine it has several names, and another port at the end of a tunnel.
        host = request.headers.get("host", "").lower()
        return (
            not self.secure and origin == f"http://{host}" and urlsplit(origin).hostname in LOOPBACK
        )

    def token(self, request: Request, name: str) -> str:
        """What the browser has in a cookie of ours; empty where it has none."""
        return request.cookies.get(self._named(name), "")

    def give(self, response: Response, name: str, token: str) -> None:
        """Have the browser keep `token` until it is closed; scripts cannot read it, and other
        sites' pages make it send it with links alone."""
        response.set_cookie(
            self._named(name), token, path="/", secure=self.secure, httponly=True, samesite="lax"
        )

    def take(self, response: Response, name: str) -> None:
        """Have the browser forget a cookie."""
        response.delete_cookie(
            self._named(name), path="/", secure=self.secure, httponly=True, samesite="lax"
        )

    def _named(self, name: str) -> str:
        # With __Host- a browser takes it from this host alone, by https (RFC 6265bis, 4.1.3.2).
        return f"__Host-{name}" if self.secure else name

    def address(self, request: Request) -> str:
        """Who asks: an IPv4 address, or the first half of an IPv6 address, of which one customer
        has as many as they like."""
        near = request.client.host if request.client else "unknown"
        said = ",".join(request.headers.getlist("x-forwarded-for")).split(",")
        # The last entry is from the nearest proxy; what stands before ours anybody may have sent.
        far = said[-self._proxies].strip() if 0 < self._proxies <= len(said) else near
        found = _read(far) or _read(near)
        if isinstance(found, ipaddress.IPv6Address):
            return str(found.ipv4_mapped or ipaddress.ip_network((found, 64), strict=False))
        return near if found is None else str(found)


def _read(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """An address, also where a proxy has put a port behind it (`192.0.2.1:4711`, `[::1]:4711`)."""
    for form in (address, address.rpartition(":")[0].strip("[]")):
        try:
            return ipaddress.ip_address(form)
        except ValueError:
            continue
    return None
