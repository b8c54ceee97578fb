"""Reads the whole chain and says where it was changed: which call, and which entry of it.

Without a key it shows every change that leaves the rest as it was. Whoever can write the database
could compute all of it anew; with a key (CALLFLOW_RECORDS_KEY) they cannot. What no chain shows by
itself is that its end was cut off and an older one put in its place, or that all of its codes were
taken away: who keeps the head that `verify` prints somewhere else can ask whether it is still
there. `unsealed` tells how many rows have no code: those from before there was a key are no change.

What a row or its file has become is told whatever it is: a cell of another type, text that is no
UTF-8, a page that SQLite cannot read, an index that knows a row otherwise.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, select

from callflow.records.canonical import START, same, seal
from callflow.records.chain import Head, entry_hash, first_of, row_hash, sealed_of
from callflow.records.failure import RecordsDamaged
from callflow.records.integrity import cells, damage, plain, read_raw, shown, unreadable
from callflow.records.records import Records
from callflow.records.schema import ENTRIES, ERASURE, HEAD, HEADER, LINKS

BATCH = 200


@dataclass(frozen=True, slots=True)
class Fault:
    """One place where the chain does not hold. `entry` counts from 1; None: the row itself.
    `position` is None where it is a place in the file that SQLite names."""

    position: int | None
    call_sid: str | None
    entry: int | None
    what: str

    @property
    def sentence(self) -> str:
        """The same for people."""
        if self.position is None:
            return f"the file: {self.what}"
        whose = f"call {self.call_sid}" if self.call_sid else "the chain"
        entry = "" if self.entry is None else f", entry {self.entry}"
        return f"{whose} (row {self.position}{entry}): {self.what}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was found. `keyed`: there is a key here; `sealed`: every row has a keyed code that was
    checked; `unsealed` have none. Where the chain holds those are the first ones, from before there
    was a key, or all codes were taken away: who knows an earlier head can tell."""

    faults: tuple[Fault, ...]
    rows: int
    entries: int
    erased: int
    head: Head
    sealed: bool
    unsealed: int
    keyed: bool = False

    @property
    def holds(self) -> bool:
        """True when nothing was changed."""
        return not self.faults


@dataclass(slots=True)
class _Walk:
    """One walk along the chain, from its first row to its end."""

    key: bytes | None
    known: int | None = None
    """the row whose hash is to be remembered"""
    seen: str | None = None
    erased: Mapping[int, str] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    before: str = START
    position: int = 0
    entries: int = 0
    last_mac: str | None = None
    unsealed: int = 0
    coded: bool = False
    """a row before has a keyed code: there is a key, and each row has one from there on"""

    def row(self, row: Mapping[str, Any], entries: Sequence[Mapping[str, Any]]) -> None:
        """The next row, with its entries."""
        if (found := unreadable(LINKS, row)) is not None:
            self._unread(row, found)
            return
        row = plain(LINKS, row)
        position, sid = row["position"], row["call_sid"]
        if position != self.position + 1:
            told = f"rows {self.position + 1} to {position - 1} are missing"
            self.faults.append(Fault(position, None, None, told))
        elif row["before"] != self.before:
            self._fault(row, None, "it does not name the hash of the row before it")
        if row["hash"] != row_hash(row):
            self._fault(row, None, "what it says of itself was changed")
        self._seal(row)
        if position in self.erased and not entries:
            self._blank(row)
        else:
            self._content(row, sid, entries)
        self.before, self.position, self.last_mac = row["hash"], position, row["mac"]
        if position == self.known:
            self.seen = self.before
        self.entries += len(entries)

    def _unread(self, row: Mapping[str, Any], found: str) -> None:
        position = row["position"] if type(row["position"]) is int else self.position + 1
        told = f"what it says of itself was changed: {found}"
        self.faults.append(Fault(position, shown(row["call_sid"]), None, told))
        # What comes behind it is judged by what is left of it.
        self.before = shown(row["hash"]) or ""
        self.position, self.last_mac = position, shown(row["mac"])

    def _seal(self, row: Mapping[str, Any]) -> None:
        if row["mac"] is None:
            if self.coded:
                self._fault(row, None, "it has no keyed code, and rows before it have one")
            self.unsealed += 1
            return
        self.coded = True
        expected = seal(self.key, row["hash"])
        if expected is not None and not same(expected, row["mac"]):
            self._fault(row, None, "its keyed code is not of CALLFLOW_RECORDS_KEY")

    def _blank(self, row: Mapping[str, Any]) -> None:
        if self.erased[row["position"]] != row["call_sid"]:
            self._fault(row, None, "it was erased as another call's")
        if any(row[name] is not None for name in HEADER):
            self._fault(row, None, "it was erased, and something was written there since")

    def _content(self, row: Mapping[str, Any], sid: str, entries: Sequence[Any]) -> None:
        last = first_of(sid, row["position"])
        for number, entry in enumerate(entries, 1):
            if entry["number"] != number:
                self._fault(row, number, "it is missing")
                return
            if (found := unreadable(ENTRIES, entry)) is not None:
                self._fault(row, number, f"it was changed: {found}")
                return
            if entry["hash"] != entry_hash(last, number, entry["kind"], entry["body"]):
                self._fault(row, number, f"it was changed ({entry['kind']})")
                return
            last = entry["hash"]
        if len(entries) != row["entries"]:
            self._fault(row, len(entries) + 1, f"it has {len(entries)} of {row['entries']} entries")
        elif row["sealed"] != sealed_of(row, last):
            self._fault(row, None, "what it is found by, or its last entry, was changed")

    def _fault(self, row: Mapping[str, Any], entry: int | None, what: str) -> None:
        self.faults.append(Fault(row["position"], row["call_sid"], entry, what))

    def end(self, row: Mapping[str, Any] | None) -> Head:
        """The end of the chain is where it is said to be. Returns it."""
        found = "it is missing" if row is None else unreadable(HEAD, row)
        if row is None or found is not None:
            told = f"what says where its end is was changed: {found}"
            self.faults.append(Fault(self.position, None, None, told))
            return Head(0, "")
        head = Head(row["position"], row["hash"], row["mac"])
        if (head.position, head.hash) != (self.position, self.before):
            told = f"its end was at row {head.position}, and the last row is {self.position}"
            if head.position == self.position:
                told = "its end is not the hash of the last row"
            self.faults.append(Fault(self.position, None, None, told))
        elif head.mac != self.last_mac:
            self.faults.append(
                Fault(head.position, None, None, "the keyed code of its end differs")
            )
        return head


def verify(records: Records, *, known_head: tuple[int, str] | None = None) -> Verdict:
    """Walk along the whole chain. `known_head`: a position and its hash that were written down
    before. Where nothing is kept yet there is nothing that was changed. Raises RecordsUnavailable.
    """
    if not records.database.holds_any():
        gone = [] if known_head is None else [_cut_off(known_head[0])]
        return Verdict(tuple(gone), 0, 0, 0, Head(0, START), sealed=False, unsealed=0)
    known, known_hash = known_head or (None, None)
    walk, end = _Walk(records.key, known), Head(0, "")
    try:
        with records.database.reading() as connection:
            end = _walked(connection, walk)
    except RecordsDamaged as error:
        told = f"nothing behind it can be read: {error.found}"
        walk.faults.append(Fault(walk.position, None, None, told))
    walk.faults += [Fault(None, None, None, told) for told in _damage(records)]
    if known is not None and walk.seen != known_hash:
        walk.faults.append(_cut_off(known))
    return Verdict(
        tuple(walk.faults),
        walk.position,
        walk.entries,
        len(walk.erased),
        end,
        sealed=records.key is not None and walk.position > 0 and not walk.unsealed,
        unsealed=walk.unsealed,
        keyed=records.key is not None,
    )


def _walked(connection: Connection, walk: _Walk) -> Head:
    read_raw(connection)
    head = connection.execute(cells(HEAD).where(HEAD.c.id == 1)).mappings().one_or_none()
    walk.erased, unread = _erasures(connection)
    walk.faults += unread
    for row, entries in _rows(connection):
        walk.row(row, entries)
    end = walk.end(None if head is None else dict(head))
    walk.faults += _strays(connection)
    return end


def _damage(records: Records) -> list[str]:
    try:
        with records.database.reading() as connection:
            read_raw(connection)
            return damage(connection)
    except RecordsDamaged as error:
        return [error.found]


def _cut_off(position: int) -> Fault:
    told = "the head that you know is not in it: rows were taken away or written anew"
    return Fault(position, None, None, told)


def _erasures(connection: Connection) -> tuple[dict[int, str], list[Fault]]:
    """Which rows were erased and of which call, by the rows that say so; and those that cannot be
    read."""
    found: dict[int, str] = {}
    faults: list[Fault] = []
    query = (
        select(LINKS.c.position, LINKS.c.call_sid, ENTRIES.c.body)
        .join(ENTRIES, ENTRIES.c.position == LINKS.c.position)
        .where(LINKS.c.kind == ERASURE)
        .order_by(LINKS.c.position)
    )
    for position, call_sid, body in connection.execute(query):
        try:
            found |= dict.fromkeys([int(one) for one in json.loads(body)["positions"]], call_sid)
        except (ValueError, KeyError, TypeError, OverflowError):
            told = "the erasure cannot be read"
            faults.append(Fault(_counted(position), shown(call_sid), 1, told))
    return found, faults


def _rows(connection: Connection) -> Iterator[tuple[Mapping[str, Any], list[Mapping[str, Any]]]]:
    # One cursor over all: a place that is no number any more has none to go on from.
    links = connection.execute(
        cells(LINKS).order_by(LINKS.c.position), execution_options={"yield_per": BATCH}
    )
    for batch in links.mappings().partitions():
        held = (
            cells(ENTRIES)
            .where(
                ENTRIES.c.position.in_([one for row in batch if (one := _counted(row["position"]))])
            )
            .order_by(ENTRIES.c.position, ENTRIES.c.number)
        )
        by_row: dict[int, list[Mapping[str, Any]]] = {}
        for entry in connection.execute(held).mappings():
            by_row.setdefault(entry["position"], []).append(dict(entry))
        for row in batch:
            yield dict(row), by_row.pop(row["position"], [])


def _strays(connection: Connection) -> list[Fault]:
    """Entries of no row."""
    query = (
        select(ENTRIES.c.position, ENTRIES.c.number)
        .where(ENTRIES.c.position.not_in(select(LINKS.c.position)))
        .limit(BATCH)
    )
    return [
        Fault(_counted(position), None, _counted(number), "an entry belongs to no row")
        for position, number in connection.execute(query)
    ]


def _counted(value: object) -> int | None:
    return value if type(value) is int else None
