"""Random tokens, and what is derived from them.

A session's token is in one place alone: the browser's cookie. The store has its hash, pages have a
CSRF token that is derived from it, and neither leads back to it.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets

TOKEN_BYTES = 32
"""256 bits, of which nobody guesses one."""

_HELD = re.compile(r"([0-9a-f]{32})\.[A-Za-z0-9_-]{43}", re.ASCII)


def fresh(key: str = "") -> str:
    """A new token; with `key` (32 hex digits, whose it is) before it."""
    token = secrets.token_urlsafe(TOKEN_BYTES)
    return f"{key}.{token}" if key else token


def key_of(token: str) -> str | None:
    """Whose a session's token says that it is; None for what is no token of a session."""
    found = _HELD.fullmatch(token)
    return found and found[1]


def hashed(token: str) -> str:
    """What the store keeps of a token."""
    return hashlib.sha256(token.encode()).hexdigest()


def csrf(token: str) -> str:
    """What a form must bring along that is sent from a page of the session of `token`."""
    return hmac.new(token.encode(), b"csrf", hashlib.sha256).hexdigest()


def same(one: str, other: str) -> bool:
    """Whether two secrets are equal, in a time that does not tell where they differ."""
    return hmac.compare_digest(one.encode(), other.encode())
