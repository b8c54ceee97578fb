"""Stores records that last: each call is kept once, and what comes later is added to it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, Row, case, delete, exists, func, insert, select, update

from callflow.records.completed_call import ERASED, CompletedCall, RecordEntry
from callflow.records.database import (
    ENTRIES,
    ERASURE,
    HEAD,
    LINKS,
    RECORD,
    STANDS,
    SUPPLEMENT,
    Database,
)
from callflow.records.hashes import (
    HEADER,
    ChainHead,
    canonical,
    entry_hash,
    first_of,
    row_hash,
    same,
    seal,
    sealed_of,
)
from callflow.records.keeping import ERASED_TOGETHER
from callflow.records.record_errors import SealBroken

ASKED_TOGETHER = 500
"""Calls that one question names: databases take so many thousand parameters and no more."""

_ERASED_THEN = case((LINKS.c.kind == ERASURE, LINKS.c.kept_at))
_KEPT_THEN = case((LINKS.c.kind != ERASURE, LINKS.c.kept_at))


class KeepResult(StrEnum):
    """What became of a complete call."""

    KEPT = "kept"
    SUPPLEMENTED = "supplemented"
    """It was kept before, and more has been written since."""
    KNOWN = "known"
    """It was kept before, as it is."""
    ERASED = "erased"
    """It was kept and then erased: nothing more of it is."""


@dataclass(frozen=True, slots=True)
class ErasedCalls:
    """What an erasure has taken away: calls, and the entries that held their content."""

    calls: tuple[str, ...]
    entries: int


@dataclass(frozen=True, slots=True)
class NewRow:
    """A row that is to be added. `through` names the last lines that it covers."""

    kind: str
    call_sid: str
    through: str
    entries: Sequence[RecordEntry]
    header: Mapping[str, Any] = field(default_factory=dict)


class RecordStore:
    """The records in one database. Threads may share it; each thing it does is one transaction.

    All raise RecordsUnavailable when the database cannot be used: whether the transaction happened
    is then unknown, and asking again is safe. What adds to the chain raises SealBroken where its
    end is not sealed with `key`, and RecordRefused for what the database cannot hold. `clock_ms`
    is for tests.
    """

    def __init__(
        self,
        database: Database,
        key: bytes | None = None,
        *,
        clock_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self.database = database
        self.key = key
        self._clock_ms = clock_ms

    @classmethod
    def open(
        cls, url: str, key: bytes | None = None, *, longest_s: float | None = None
    ) -> RecordStore:
        """The records at `url`; nothing is asked yet. `longest_s`: see `Database`.

        Raises DriverMissing, and RecordsError for what is no address.
        """
        return cls(Database(url, longest_s), key)

    def keep(self, call: CompletedCall) -> KeepResult:
        """Store a call, whole and once; what is new since it was stored becomes a supplement,
        which is found by what the call is now."""
        with self.database.writing() as connection:
            head = lock_head(connection)
            rows = _rows_of(connection, call.call_sid)
            kinds = [row.kind for row in rows]
            if RECORD not in kinds:
                draft = NewRow(RECORD, call.call_sid, call.through, call.entries(), call.header())
                append(connection, head, draft, self._clock_ms(), self.key)
                return KeepResult.KEPT
            if ERASURE in kinds:
                return KeepResult.ERASED
            stored = _entries_of(connection, [row.position for row in rows])
            more = call.since(stored)
            if not more:
                return KeepResult.KNOWN
            found_by = call.header()
            last = next(row for row in reversed(rows) if row.began_at is not None)
            changed = any(getattr(last, name) != found_by[name] for name in HEADER)
            draft = NewRow(
                SUPPLEMENT, call.call_sid, call.through, more, found_by if changed else {}
            )
            append(connection, head, draft, self._clock_ms(), self.key)
            return KeepResult.SUPPLEMENTED

    def through(self, call_sids: Sequence[str]) -> dict[str, str]:
        """Up to which lines each of these calls is kept, of those that are."""
        query = (
            select(LINKS.c.call_sid, LINKS.c.through)
            .where(LINKS.c.call_sid.in_(call_sids), LINKS.c.kind != ERASURE)
            .order_by(LINKS.c.position)
        )
        return {row.call_sid: row.through for row in self.database.fetch(query)}

    def erased(self, call_sids: Sequence[str]) -> dict[str, int]:
        """Those of them whose content was erased, each with when something of it was kept last,
        ms."""
        found: dict[str, int] = {}
        for start in range(0, len(call_sids), ASKED_TOGETHER):
            some = call_sids[start : start + ASKED_TOGETHER]
            query = (
                select(LINKS.c.call_sid, func.max(_KEPT_THEN))
                .where(LINKS.c.call_sid.in_(some))
                .group_by(LINKS.c.call_sid)
                .having(func.max(_ERASED_THEN).is_not(None))
            )
            found |= {sid: int(at or 0) for sid, at in self.database.fetch(query)}
        return found

    def erase(self, call_sids: Sequence[str], *, by: str, why: str) -> ErasedCalls:
        """Take away all content of these calls: what was said, what is known of them, their
        journals. What stays is that each was kept, and when it was erased, by whom and why. Those
        that are not kept, or erased already, are left out.

        So many as ERASED_TOGETHER are one transaction; in between others add to the chain. After an
        error some of them may be erased: ask again. Raises NothingKept where there is no record.
        """
        self.database.need()
        done: list[str] = []
        count = 0
        asked = list(dict.fromkeys(call_sids))
        for start in range(0, len(asked), ERASED_TOGETHER):
            with self.database.writing() as connection:
                head = lock_head(connection)
                for call_sid in asked[start : start + ERASED_TOGETHER]:
                    rows = _rows_of(connection, call_sid)
                    if not rows or any(row.kind == ERASURE for row in rows):
                        continue
                    positions = [row.position for row in rows]
                    head, gone = self._erase(connection, head, call_sid, positions, by, why)
                    done.append(call_sid)
                    count += gone
        return ErasedCalls(tuple(done), count)

    def _erase(
        self,
        connection: Connection,
        head: ChainHead,
        call_sid: str,
        positions: list[int],
        by: str,
        why: str,
    ) -> tuple[ChainHead, int]:
        gone = connection.execute(delete(ENTRIES).where(ENTRIES.c.position.in_(positions))).rowcount
        blank: dict[str, Any] = dict.fromkeys(HEADER)
        connection.execute(update(LINKS).where(LINKS.c.position.in_(positions)).values(**blank))
        now = self._clock_ms()
        body = canonical({"positions": positions, "by": by, "why": why, "at": now})
        draft = NewRow(ERASURE, call_sid, "", [RecordEntry(ERASED, body)])
        return append(connection, head, draft, now, self.key), gone

    def older_than(self, ended_before_ms: int, most: int = 1_000) -> list[str]:
        """Calls that ended before that moment and are not erased, the oldest first."""
        query = (
            select(LINKS.c.call_sid)
            .where(STANDS, LINKS.c.ended_at < ended_before_ms)
            .order_by(LINKS.c.ended_at)
            .limit(most)
        )
        return [call_sid for (call_sid,) in self.database.fetch(query)]

    def last_tests(self) -> dict[str, int]:
        """When each lift's last good test call ended, ms, by the id of its site."""
        query = (
            select(LINKS.c.site, func.max(LINKS.c.ended_at))
            .where(STANDS, LINKS.c.test.is_(True))
            .group_by(LINKS.c.site)
        )
        return {str(site): int(at) for site, at in self.database.fetch(query)}


def _rows_of(connection: Connection, call_sid: str) -> Sequence[Row[Any]]:
    query = select(LINKS).where(LINKS.c.call_sid == call_sid)
    return connection.execute(query.order_by(LINKS.c.position)).all()


def _entries_of(connection: Connection, positions: list[int]) -> list[RecordEntry]:
    query = (
        select(ENTRIES.c.kind, ENTRIES.c.body)
        .where(ENTRIES.c.position.in_(positions))
        .order_by(ENTRIES.c.position, ENTRIES.c.number)
    )
    return [RecordEntry(kind, body) for kind, body in connection.execute(query)]


def lock_head(connection: Connection) -> ChainHead:
    """The end of the chain, which nobody else moves before this transaction has ended."""
    found = connection.execute(select(HEAD).where(HEAD.c.id == 1).with_for_update()).one()
    return ChainHead(found.position, found.hash, found.mac)


def append(
    connection: Connection, head: ChainHead, draft: NewRow, kept_at: int, key: bytes | None
) -> ChainHead:
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
    after = ChainHead(position, row["hash"], row["mac"])
    moved = {"position": position, "hash": after.hash, "mac": after.mac}
    connection.execute(update(HEAD).where(HEAD.c.id == 1).values(**moved))
    return after


def _demand_seal(connection: Connection, head: ChainHead, key: bytes | None) -> None:
    where = connection.engine.url.render_as_string(hide_password=True)
    expected = seal(key, head.hash)
    if head.mac is None:
        coded = select(exists().where(LINKS.c.mac.is_not(None)))
        if expected is not None and connection.execute(coded).scalar_one():
            found = "its end has no keyed code, and rows before it have one"
            raise SealBroken(where, head.position, found)
    elif expected is None:
        found = "its end has a keyed code, and CALLFLOW_RECORDS_KEY is not set here"
        raise SealBroken(where, head.position, found)
    elif not same(expected, head.mac):
        found = "the keyed code of its end is not of CALLFLOW_RECORDS_KEY"
        raise SealBroken(where, head.position, found)


def _chained(before: str, entries: Iterable[RecordEntry]) -> Iterable[dict[str, Any]]:
    for number, (kind, body) in enumerate(entries, 1):
        before = entry_hash(before, number, kind, body)
        yield {"number": number, "kind": kind, "body": body, "hash": before}
