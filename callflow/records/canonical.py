"""One way to write a value, and the hashes over what is written.

A hash is SHA-256 over a JSON list of strings, so that no two lists of parts are written the same;
the first part names what it is a hash of.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from typing import Any

START = "0" * 64
"""Stands for the hash before the first."""

_SURROGATE = re.compile("[\ud800-\udfff]")

_encode = json.JSONEncoder(
    ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False
).encode


def canonical(value: Any) -> str:
    """`value` as JSON: keys in order, no spaces. Every database can store it: zeros and halves of
    characters, which some refuse, are written as escapes."""
    return _SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", _encode(value))


def digest(what: str, *parts: str | int) -> str:
    """The hash of `parts`, as 64 hexadecimal digits."""
    written = canonical([what, *(str(part) for part in parts)])
    return hashlib.sha256(written.encode()).hexdigest()


def seal(key: bytes | None, hashed: str) -> str | None:
    """The keyed code of a hash: who does not have the key cannot make it. None without a key."""
    return None if key is None else hmac.new(key, hashed.encode(), hashlib.sha256).hexdigest()


def same(one: str, other: str | None) -> bool:
    """True when both are the same, found out in a time that tells nothing."""
    return hmac.compare_digest(one.encode(), (other or "").encode())
