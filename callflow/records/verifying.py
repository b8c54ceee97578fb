"""Reads the whole chain and says where it was changed: which call, and which entry of it.

Without a key it shows every change that leaves the rest as it was. Whoever can write the database
could compute all of it anew; with a key (CALLFLOW_RECORDS_KEY) they cannot. What no chain shows by
itself is that its end was cut off and an older one put in its place, or that all of its codes were
taken away: who keeps the head that `verify` prints somewhere else can ask whether it is still
there. `unsealed` tells how many rows have no code.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, select

from callflow.records.canonical import START, same, seal
from callflow.records.chain import Head, entry_hash, first_of, row_hash, sealed_of
from callflow.records.records import Records
from callflow.records.schema import ENTRIES, ERASURE, HEAD, HEADER, LINKS

BATCH = 200


@dataclass(frozen=True, slots=True)
class Fault:
    """One place where the chain does not hold. `entry` counts from 1; None: the row itself."""

    position: int
    call_sid: str | None
    entry: int | None
    what: str

    @property
    def sentence(self) -> str:
        """The same for people."""
        whose = f"call {self.call_sid}" if self.call_sid else "the chain"
        entry = "" if self.entry is None else f", entry {self.entry}"
        return f"{whose} (row {self.position}{entry}): {self.what}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was found. `sealed`: every row has a keyed code that was checked; `unsealed` have none.
    Where the chain holds those are the first ones, from before there was a key."""

    faults: tuple[Fault, ...]
    rows: int
    entries: int
    erased: int
    head: Head
    sealed: bool
    unsealed: int

    @property
    def holds(self) -> bool:
        """True when nothing was changed."""
        return not self.faults


@dataclass(slots=True)
class _Walk:
    """One walk along the chain, from its first row to its end."""

    key: bytes | None
    erased: Mapping[int, str]
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
        position, sid = int(row["position"]), str(row["call_sid"])
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
        self.entries += len(entries)

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
            if entry["hash"] != entry_hash(last, number, entry["kind"], entry["body"]):
                self._fault(row, number, f"it was changed ({entry['kind']})")
                return
            last = entry["hash"]
        if len(entries) != row["entries"]:
            self._fault(row, len(entries) + 1, f"it has {len(entries)} of {row['entries']} entries")
        elif row["sealed"] != sealed_of(row, last):
            self._fault(row, None, "what it is found by, or its last entry, was changed")

    def _fault(self, row: Mapping[str, Any], entry: int | None, what: str) -> None:
        self.faults.append(Fault(int(row["position"]), str(row["call_sid"]), entry, what))

    def end(self, head: Head) -> None:
        """The end of the chain is where it is said to be."""
        if (head.position, head.hash) != (self.position, self.before):
            told = f"its end was at row {head.position}, and the last row is {self.position}"
            if head.position == self.position:
                told = "its end is not the hash of the last row"
            self.faults.append(Fault(self.position, None, None, told))
        elif head.mac != self.last_mac:
            self.faults.append(
                Fault(head.position, None, None, "the keyed code of its end differs")
            )
        elif self.key is not None and self.position and not self.coded:
            # Rows without a code are borne out by a later one that has one.
            told = (
                "its last row has no keyed code: CALLFLOW_RECORDS_KEY was not set, or is not known"
            )
            self.faults.append(Fault(self.position, None, None, told))


def verify(records: Records, *, known_head: tuple[int, str] | None = None) -> Verdict:
    """Walk along the whole chain. `known_head`: a position and its hash that were written down
    before. Where nothing is kept yet there is nothing that was changed. Raises RecordsUnavailable.
    """
    if not records.database.holds_any():
        gone = [] if known_head is None else [_cut_off(known_head[0])]
        return Verdict(tuple(gone), 0, 0, 0, Head(0, START), sealed=False, unsealed=0)
    with records.database.reading() as connection:
        head = connection.execute(select(HEAD).where(HEAD.c.id == 1)).one_or_none()
        end = Head(0, "") if head is None else Head(head.position, head.hash, head.mac)
        erased, unread = _erasures(connection)
        walk = _Walk(records.key, erased)
        walk.faults += unread
        seen: str | None = None
        for row, entries in _rows(connection):
            walk.row(row, entries)
            if known_head is not None and row["position"] == known_head[0]:
                seen = row["hash"]
        walk.end(end)
        walk.faults += _strays(connection)
    if known_head is not None and seen != known_head[1]:
        walk.faults.append(_cut_off(known_head[0]))
    sealed = records.key is not None and walk.position > 0 and not walk.unsealed
    return Verdict(
        tuple(walk.faults),
        walk.position,
        walk.entries,
        len(erased),
        end,
        sealed,
        walk.unsealed,
    )


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
        except (ValueError, KeyError, TypeError):
            faults.append(Fault(position, call_sid, 1, "the erasure cannot be read"))
    return found, faults


def _rows(connection: Connection) -> Iterator[tuple[Mapping[str, Any], list[Mapping[str, Any]]]]:
    after: int | None = None
    while True:
        query = select(LINKS).order_by(LINKS.c.position).limit(BATCH)
        if after is not None:
            query = query.where(LINKS.c.position > after)
        rows = connection.execute(query).mappings().all()
        if not rows:
            return
        first, after = rows[0]["position"], rows[-1]["position"]
        held = (
            select(ENTRIES)
            .where(ENTRIES.c.position.between(first, after))
            .order_by(ENTRIES.c.position, ENTRIES.c.number)
        )
        by_row: dict[int, list[Mapping[str, Any]]] = {}
        for entry in connection.execute(held).mappings():
            by_row.setdefault(entry["position"], []).append(dict(entry))
        for row in rows:
            yield dict(row), by_row.pop(row["position"], [])


def _strays(connection: Connection) -> list[Fault]:
    """Entries of no row."""
    query = (
        select(ENTRIES.c.position, ENTRIES.c.number)
        .where(ENTRIES.c.position.not_in(select(LINKS.c.position)))
        .limit(BATCH)
    )
    return [
        Fault(position, None, number, "an entry belongs to no row")
        for position, number in connection.execute(query)
    ]
