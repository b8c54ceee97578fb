"""Reads the whole chain and says where it was changed: which call, and which entry of it.

Without a key it shows every change that leaves the rest as it was. Whoever can write the database
could compute all of it anew; with a key (CALLFLOW_RECORDS_KEY) they cannot. What no chain shows by
itself is that its end was cut off and an older one put in its place, or that all of its codes were
taken away: who keeps the head that `verify` prints somewhere else can ask whether it is still
there. `unsealed` tells how many rows have no code: those from before there was a key are no change.

What a row or its file has become is told whatever it is: SQLite stores any type in any column, a
single bit can turn a text into bytes or into no UTF-8, SQLite may be unable to read a page, and an
index may know a row otherwise.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Boolean, Connection, Integer, Select, Table, select, type_coerce
from sqlalchemy.types import NullType

from callflow.records.database import ENTRIES, ERASURE, HEAD, LINKS
from callflow.records.hashes import (
    HEADER,
    START,
    ChainHead,
    entry_hash,
    first_of,
    row_hash,
    same,
    seal,
    sealed_of,
)
from callflow.records.record_errors import RecordsDamaged
from callflow.records.record_store import RecordStore

BATCH = 200

MOST_TOLD = 20
"""Places that SQLite names; one damaged page can have thousands."""


@dataclass(frozen=True, slots=True)
class ChainFault:
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
class ChainVerdict:
    """What was found. `keyed`: there is a key here; `sealed`: every row has a keyed code that was
    checked; `unsealed` have none. Where the chain holds those are the first ones, from before there
    was a key, or all codes were taken away: who knows an earlier head can tell."""

    faults: tuple[ChainFault, ...]
    rows: int
    entries: int
    erased: int
    head: ChainHead
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
    faults: list[ChainFault] = field(default_factory=list)
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
            what = f"rows {self.position + 1} to {position - 1} are missing"
            self.faults.append(ChainFault(position, None, None, what))
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
        what = f"what it says of itself was changed: {found}"
        self.faults.append(ChainFault(position, shown(row["call_sid"]), None, what))
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
        self.faults.append(ChainFault(row["position"], row["call_sid"], entry, what))

    def end(self, row: Mapping[str, Any] | None) -> ChainHead:
        """The end of the chain is where it is said to be. Returns it."""
        found = "it is missing" if row is None else unreadable(HEAD, row)
        if row is None or found is not None:
            what = f"what says where its end is was changed: {found}"
            self.faults.append(ChainFault(self.position, None, None, what))
            return ChainHead(0, "")
        head = ChainHead(row["position"], row["hash"], row["mac"])
        if (head.position, head.hash) != (self.position, self.before):
            what = f"its end was at row {head.position}, and the last row is {self.position}"
            if head.position == self.position:
                what = "its end is not the hash of the last row"
            self.faults.append(ChainFault(self.position, None, None, what))
        elif head.mac != self.last_mac:
            self.faults.append(
                ChainFault(head.position, None, None, "the keyed code of its end differs")
            )
        return head


def verify(records: RecordStore, *, known_head: tuple[int, str] | None = None) -> ChainVerdict:
    """Walk along the whole chain. `known_head`: a position and its hash that were written down
    before. Where nothing is kept yet there is nothing that was changed. Raises RecordsUnavailable.
    """
    if not records.database.holds_any():
        gone = [] if known_head is None else [_cut_off(known_head[0])]
        return ChainVerdict(tuple(gone), 0, 0, 0, ChainHead(0, START), sealed=False, unsealed=0)
    known, known_hash = known_head or (None, None)
    walk, end = _Walk(records.key, known), ChainHead(0, "")
    try:
        with records.database.reading() as connection:
            end = _walked(connection, walk)
    except RecordsDamaged as error:
        what = f"nothing behind it can be read: {error.found}"
        walk.faults.append(ChainFault(walk.position, None, None, what))
    walk.faults += [ChainFault(None, None, None, what) for what in _damage(records)]
    if known is not None and walk.seen != known_hash:
        walk.faults.append(_cut_off(known))
    return ChainVerdict(
        tuple(walk.faults),
        walk.position,
        walk.entries,
        len(walk.erased),
        end,
        sealed=records.key is not None and walk.position > 0 and not walk.unsealed,
        unsealed=walk.unsealed,
        keyed=records.key is not None,
    )


def _walked(connection: Connection, walk: _Walk) -> ChainHead:
    read_raw(connection)
    head = connection.execute(cells(HEAD).where(HEAD.c.id == 1)).mappings().one_or_none()
    walk.erased, unread = _erasures(connection)
    walk.faults += unread
    for row, entries in _rows(connection):
        walk.row(row, entries)
    end = walk.end(None if head is None else dict(head))
    walk.faults += _strays(connection)
    return end


def _damage(records: RecordStore) -> list[str]:
    try:
        with records.database.reading() as connection:
            read_raw(connection)
            return damage(connection)
    except RecordsDamaged as error:
        return [error.found]


def _cut_off(position: int) -> ChainFault:
    what = "the head that you know is not in it: rows were taken away or written anew"
    return ChainFault(position, None, None, what)


def _erasures(connection: Connection) -> tuple[dict[int, str], list[ChainFault]]:
    """Which rows were erased and of which call, by the rows that say so; and those that cannot be
    read."""
    found: dict[int, str] = {}
    faults: list[ChainFault] = []
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
            what = "the erasure cannot be read"
            faults.append(ChainFault(_counted(position), shown(call_sid), 1, what))
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


def _strays(connection: Connection) -> list[ChainFault]:
    """Entries of no row."""
    query = (
        select(ENTRIES.c.position, ENTRIES.c.number)
        .where(ENTRIES.c.position.not_in(select(LINKS.c.position)))
        .limit(BATCH)
    )
    return [
        ChainFault(_counted(position), None, _counted(number), "an entry belongs to no row")
        for position, number in connection.execute(query)
    ]


def _counted(value: object) -> int | None:
    return value if type(value) is int else None


def read_raw(connection: Connection) -> None:
    """Have this connection hand over text that is no UTF-8: other readers get an error for it."""
    if connection.dialect.name == "sqlite":
        driver: Any = connection.connection.dbapi_connection
        driver.text_factory = lambda text: text.decode(errors="surrogateescape")


def cells(table: Table) -> Select[*tuple[Any, ...]]:
    """All columns of `table`, as they are stored: no type makes `true` of a seven."""
    return select(*(type_coerce(one, NullType()).label(one.name) for one in table.columns))


def plain(table: Table, row: Mapping[str, Any]) -> dict[str, Any]:
    """The same row with its flags as flags, where they are some."""
    return {
        name: bool(value) if value in (0, 1) and _is_flag(table, name) else value
        for name, value in row.items()
    }


def unreadable(table: Table, row: Mapping[str, Any]) -> str | None:
    """Which cell is not of the type of its column, in words; None where all are."""
    for name, value in row.items():
        if not _fits(table, name, value):
            if value is None:
                return f"its {name} is missing"
            kind = "flag" if _is_flag(table, name) else "number" if _counts(table, name) else "text"
            return f"its {name} is no {kind}"
    return None


def damage(connection: Connection) -> list[str]:
    """What SQLite finds wrong in its file: pages, and rows that an index knows otherwise. Empty for
    a server, which looks after its own."""
    if connection.dialect.name != "sqlite":
        return []
    lines = connection.exec_driver_sql(f"PRAGMA integrity_check({MOST_TOLD})").scalars().all()
    return [str(one) for one in lines if one != "ok"]


def shown(value: object) -> str | None:
    """A text that may be printed; None for what is none."""
    return value.encode(errors="backslashreplace").decode() if isinstance(value, str) else None


def _fits(table: Table, name: str, value: object) -> bool:
    if value is None:
        return bool(table.columns[name].nullable)
    if _is_flag(table, name):
        return isinstance(value, int) and value in (0, 1)
    if _counts(table, name):
        return type(value) is int
    return isinstance(value, str) and shown(value) == value


def _is_flag(table: Table, name: str) -> bool:
    return isinstance(table.columns[name].type, Boolean)


def _counts(table: Table, name: str) -> bool:
    return isinstance(table.columns[name].type, Integer)
