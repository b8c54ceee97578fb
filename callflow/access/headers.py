"""What every answer of the board tells the browser: nothing foreign runs, nothing is kept."""

from __future__ import annotations

from starlette.responses import Response

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "font-src 'self'",
        "media-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
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


def sealed(response: Response, *, secure: bool) -> Response:
    """The same answer with the headers that it must have. `secure`: people come by https."""
    response.headers.update(HEADERS)
    if secure:
        response.headers["Strict-Transport-Security"] = HSTS
    return response
