"""The chain: each row names the hash of the one before, and closes over its entries.

A row's hash covers its place, its kind, whose it is and the seal of its content; the seal covers
what it is found by and the hash of its last entry; each entry's hash covers the one before. So
content can be erased and the rows still bear each other out, and a byte that was changed shows
where it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, exists, insert, select, update

from callflow.records.canonical import canonical, digest, same, seal
from callflow.records.complete import Entry
from callflow.records.failure import SealBroken
from callflow.records.schema import ENTRIES, HEAD, HEADER, LINKS


class Head(NamedTuple):
    """The end of the chain."""

    position: int
    hash: str
    mac: str | None = None


class Draft(NamedTuple):
    """A row that is to be added. `through` names the last lines that it covers."""

    kind: str
    call_sid: str
    through: str
    entries: Sequence[Entry]
    header: Mapping[str, Any] = {}


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


def lock_head(connection: Connection) -> Head:
    """The end of the chain, which nobody else moves before this transaction has ended."""
    found = connection.execute(select(HEAD).where(HEAD.c.id == 1).with_for_update()).one()
    return Head(found.position, found.hash, found.mac)


def read_head(connection: Connection) -> Head:
    """The end of the chain as it was written last."""
    found = connection.execute(select(HEAD).where(HEAD.c.id == 1)).one()
    return Head(found.position, found.hash, found.mac)


def append(
    connection: Connection, head: Head, draft: Draft, kept_at: int, key: bytes | None
) -> Head:
    """Add a row behind `head`, which is locked. Returns the new end.

    Raises SealBroken where that end is not one that this key has sealed: whoever made it could
    otherwise have the row to come bear it out. A key may be set later, over rows without any code.
    """
    _demand_seal(connection, head, key)
    position = head.position + 1
    rows = list(_chained(first_of(draft.call_sid, position), draft.entries))
    last = rows[-1]["hash"] if rows else first_of(draft.call_sid, position)
    row: dict[str, Any] = {
        "position": position,
        "kind": draft.kind,
        "call_sid": draft.call_sid,
        "through": draft.through,
        "kept_at": kept_at,
        "entries": len(rows),
        "before": head.hash,
        "sealed": sealed_of(draft.header, last),
    }
    row["hash"] = row_hash(row)
    row["mac"] = seal(key, row["hash"])
    connection.execute(insert(LINKS).values(**row, **draft.header))
    if rows:
        connection.execute(insert(ENTRIES), [{"position": position, **one} for one in rows])
    after = Head(position, row["hash"], row["mac"])
    moved = {"position": position, "hash": after.hash, "mac": after.mac}
    connection.execute(update(HEAD).where(HEAD.c.id == 1).values(**moved))
    return after


def _demand_seal(connection: Connection, head: Head, key: bytes | None) -> None:
    where = connection.engine.url.render_as_string(hide_password=True)
    expected = seal(key, head.hash)
    if head.mac is None:
        coded = select(exists().where(LINKS.c.mac.is_not(None)))
        if expected is not None and connection.execute(coded).scalar_one():
            told = "its end has no keyed code, and rows before it have one"
            raise SealBroken(where, head.position, told)
    elif expected is None:
        told = "its end has a keyed code, and CALLFLOW_RECORDS_KEY is not set here"
        raise SealBroken(where, head.position, told)
    elif not same(expected, head.mac):
        told = "the keyed code of its end is not of CALLFLOW_RECORDS_KEY"
        raise SealBroken(where, head.position, told)


def _chained(before: str, entries: Iterable[Entry]) -> Iterable[dict[str, Any]]:
    for number, (kind, body) in enumerate(entries, 1):
        before = entry_hash(before, number, kind, body)
        yield {"number": number, "kind": kind, "body": body, "hash": before}
