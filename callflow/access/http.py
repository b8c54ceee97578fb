"""Security headers, cookies, form origins and client addresses of the board's requests.

How people reach the board is as the settings say and never as a request says: any of its headers
may be a stranger's.
"""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response

from callflow.settings import LOOPBACK

SESSION_COOKIE, PRE_SESSION_COOKIE = "callflow-session", "callflow-before"
"""Of somebody who has signed in, and of a browser in which somebody is about to."""

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "font-src 'self'; media-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
"""Scripts and styles come from our own files alone: a caller's words that get into a page by our
mistake are not run (https://www.w3.org/TR/CSP3/)."""

HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # Not no-referrer: with it browsers send `Origin: null` along with our own forms.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "Cache-Control": "no-store",
}

HSTS = "max-age=31536000"
"""A year of https alone, for this host and not for others of the domain."""


class BoardOrigin:
    """Where the board is for people (`url`), behind how many proxies of ours."""

    def __init__(self, url: str, proxies: int = 0) -> None:
        parts = urlsplit(url)
        self.url = f"{parts.scheme}://{parts.netloc}"
        self.secure = parts.scheme == "https"
        self.hides_passwords = self.secure or parts.hostname in LOOPBACK
        """False where somebody in between could read a password: then nobody signs in."""
        self._proxies = proxies

    def add_headers(self, response: Response) -> Response:
        """The same answer with the security headers that every answer must have."""
        response.headers.update(HEADERS)
        if self.secure:
            response.headers["Strict-Transport-Security"] = HSTS
        return response

    def sent(self, request: Request) -> bool:
        """True for a form from a page of ours. Browsers say where it comes from, and send `null`
        or nothing where they will not tell: that is not ours either."""
        origin = request.headers.get("origin", "").lower()
        if origin == self.url.lower():
            return True
        # On this machine it has several names, and another port at the end of a tunnel.
        host = request.headers.get("host", "").lower()
        return (
            not self.secure and origin == f"http://{host}" and urlsplit(origin).hostname in LOOPBACK
        )

    def read_cookie(self, request: Request, name: str) -> str:
        """The token in a cookie of ours; empty where the browser has none."""
        return request.cookies.get(self._full_name(name), "")

    def set_cookie(self, response: Response, name: str, token: str) -> None:
        """Have the browser keep `token` until it is closed; scripts cannot read it, and other
        sites' pages make it send it with links alone."""
        response.set_cookie(
            self._full_name(name),
            token,
            path="/",
            secure=self.secure,
            httponly=True,
            samesite="lax",
        )

    def delete_cookie(self, response: Response, name: str) -> None:
        """Have the browser forget a cookie."""
        response.delete_cookie(
            self._full_name(name), path="/", secure=self.secure, httponly=True, samesite="lax"
        )

    def _full_name(self, name: str) -> str:
        # With __Host- a browser takes it from this host alone, by https (RFC 6265bis, 4.1.3.2).
        return f"__Host-{name}" if self.secure else name

    def client_address(self, request: Request) -> str:
        """Who asks: an IPv4 address, or the first half of an IPv6 address, of which one customer
        has as many as they like."""
        near = request.client.host if request.client else "unknown"
        hops = ",".join(request.headers.getlist("x-forwarded-for")).split(",")
        # The last entry is from the nearest proxy; what stands before ours anybody may have sent.
        far = hops[-self._proxies].strip() if 0 < self._proxies <= len(hops) else near
        found = _parse_address(far) or _parse_address(near)
        if isinstance(found, ipaddress.IPv6Address):
            return str(found.ipv4_mapped or ipaddress.ip_network((found, 64), strict=False))
        return near if found is None else str(found)


def _parse_address(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """An address, also where a proxy has put a port behind it (`192.0.2.1:4711`, `[::1]:4711`)."""
    for form in (address, address.rpartition(":")[0].strip("[]")):
        try:
            return ipaddress.ip_address(form)
        except ValueError:
            continue
    return None
