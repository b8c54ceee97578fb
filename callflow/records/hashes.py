"""Computes the hashes of the chain, over values that are written in one way only.

Each row names the hash of the one before, and closes over its entries: a row's hash covers its
place, its kind, whose it is and the seal of its content; the seal covers what it is found by and
the hash of its last entry; each entry's hash covers the one before. So content can be erased and
the rows still bear each other out, and a byte that was changed shows where it was.

A hash is SHA-256 over a JSON list of strings, so that no two lists of parts are written the same;
the first part names what it is a hash of.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

START = "0" * 64
"""Stands for the hash before the first."""

HEADER = (
    "began_at", "ended_at", "site", "scenario", "urgency", "outcome", "language", "test",
)  # fmt: skip
"""Columns that records are found by. They are taken from the content, and go when it is erased."""

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


def entry_hash(before: str, number: int, kind: str, body: str) -> str:
    """The hash of entry `number` of a row, from 1."""
    return digest("entry", before, number, kind, body)


def first_of(call_sid: str, position: int) -> str:
    """What the first entry of a row names as the hash before it."""
    return digest("row", call_sid, position)


def sealed_of(header: Mapping[str, Any], last: str) -> str:
    """The seal of a row's content: what it is found by, and the hash of its last entry."""
    return digest("content", canonical({name: header.get(name) for name in HEADER}), last)


def row_hash(row: Mapping[str, Any]) -> str:
    """The hash of a row, over all that stays when its content is erased."""
    stays = ("position", "kind", "call_sid", "through", "kept_at", "entries", "before", "sealed")
    return digest("link", *(row[name] for name in stays))


class ChainHead(NamedTuple):
    """The end of the chain."""

    position: int
    hash: str
    mac: str | None = None
