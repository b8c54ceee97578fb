"""Finds records that last, and reads them whole with all that was added to them."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, exists, select

from callflow.records.completed_call import ERASED, FIELDS, LINE, SAID, TIMINGS, VERSIONS, VIEW
from callflow.records.database import ENTRIES, ERASURE, LINKS, STANDS
from callflow.records.hashes import HEADER, canonical
from callflow.records.record_errors import NotRecorded
from callflow.records.record_store import RecordStore

BATCH = 100


@dataclass(frozen=True, slots=True)
class RecordQuery:
    """Which records: all that meet each of these. Times are ms since 1970, `until` is left out;
    `text` is looked for in what was said, small and capital letters alike."""

    since_ms: int | None = None
    until_ms: int | None = None
    site: str | None = None
    outcome: str | None = None
    text: str | None = None
    call_sid: str | None = None


@dataclass(frozen=True, slots=True)
class RecordRow:
    """What a record is found by; all None but its place where it was erased. Its place is that of
    the record, or of the last supplement that changed what it is found by."""

    call_sid: str
    position: int
    kept_at: int
    hash: str
    erased: bool
    began_at: int | None
    ended_at: int | None
    site: str | None
    scenario: str | None
    urgency: str | None
    outcome: str | None
    language: str | None
    test: bool | None


@dataclass(frozen=True, slots=True)
class FullRecord:
    """One record with its supplements. `rows` are their places in the chain; `erasure` tells when
    it was erased, by whom and why, and then all else is empty. The lines of `journal` have their
    ids; `views` tell who read it. `thread` is in the order in which it was said: after a failover
    it holds the words that were taken back, and those that were said in their place."""

    row: RecordRow
    rows: tuple[Mapping[str, Any], ...]
    fields: Mapping[str, Any]
    thread: tuple[Mapping[str, Any], ...]
    journal: tuple[Mapping[str, Any], ...]
    views: tuple[Mapping[str, Any], ...]
    versions: Mapping[str, Any]
    timings: Mapping[str, Any]
    erasure: Mapping[str, Any] | None

    def as_dict(self) -> dict[str, Any]:
        """The same for JSON; this form is kept from release to release."""
        return {
            "call_sid": self.row.call_sid,
            "kept_at": self.rows[0]["kept_at"],
            "record": {**self.fields, "conversation_thread": list(self.thread)},
            "journal": list(self.journal),
            "views": list(self.views),
            "timings": dict(self.timings),
            "versions": dict(self.versions),
            "erasure": None if self.erasure is None else dict(self.erasure),
            "chain": [dict(one) for one in self.rows],
        }


def list_records(records: RecordStore, wanted: RecordQuery, most: int = 100) -> list[RecordRow]:
    """Records that are wanted, the newest end first; erased ones where nothing is asked for that
    only their content could tell; none where nothing is kept yet. Raises RecordsUnavailable."""
    found: list[RecordRow] = []
    if not records.database.holds_any():
        return found
    with records.database.reading() as connection:
        for row in _rows(connection, wanted, newest_first=True):
            found.append(row)
            if len(found) == most:
                break
    return found


def read_record(records: RecordStore, call_sid: str) -> FullRecord:
    """One record. Raises NotRecorded, and RecordsUnavailable."""
    with closing(read_records(records, RecordQuery(call_sid=call_sid))) as found:
        for record in found:
            return record
    raise NotRecorded(call_sid)


def read_records(records: RecordStore, wanted: RecordQuery) -> Generator[FullRecord]:
    """All records that are wanted, in the order in which they were kept; read one by one, so that
    as many as there are may be exported. Raises RecordsUnavailable."""
    if not records.database.holds_any():
        return
    with records.database.reading() as connection:
        for row in _rows(connection, wanted, newest_first=False):
            yield _whole(connection, row)


def _rows(
    connection: Connection, wanted: RecordQuery, *, newest_first: bool
) -> Iterator[RecordRow]:
    order = LINKS.c.position.desc() if newest_first else LINKS.c.position
    last: int | None = None
    while True:
        query = select(LINKS).where(STANDS, *_where(wanted)).order_by(order)
        if last is not None:
            further = LINKS.c.position < last if newest_first else LINKS.c.position > last
            query = query.where(further)
        batch = connection.execute(query.limit(BATCH)).mappings().all()
        for found in batch:
            last = found["position"]
            row = _row(dict(found))
            if wanted.text is None or _was_said(connection, row.call_sid, wanted.text):
                yield row
        if len(batch) < BATCH:
            return


def _row(found: Mapping[str, Any]) -> RecordRow:
    return RecordRow(
        found["call_sid"],
        found["position"],
        found["kept_at"],
        found["hash"],
        # A call that was kept always has a beginning.
        erased=found["began_at"] is None,
        **{name: found[name] for name in HEADER},
    )


def _where(wanted: RecordQuery) -> Iterator[ColumnElement[bool]]:
    if wanted.call_sid is not None:
        yield LINKS.c.call_sid == wanted.call_sid
    if wanted.since_ms is not None:
        yield LINKS.c.ended_at >= wanted.since_ms
    if wanted.until_ms is not None:
        yield LINKS.c.ended_at < wanted.until_ms
    if wanted.site is not None:
        yield LINKS.c.site == wanted.site
    if wanted.outcome is not None:
        yield LINKS.c.outcome == wanted.outcome
    if wanted.text is not None:
        # The database leaves out most; what stands elsewhere than in the words is seen later.
        written = canonical(wanted.text)[1:-1]
        theirs = LINKS.alias("theirs")
        said = (
            select(ENTRIES.c.number)
            .join(theirs, theirs.c.position == ENTRIES.c.position)
            .where(
                theirs.c.call_sid == LINKS.c.call_sid,
                ENTRIES.c.kind == SAID,
                ENTRIES.c.body.icontains(written, autoescape=True),
            )
        )
        yield exists(said.correlate(LINKS))


def _was_said(connection: Connection, call_sid: str, text: str) -> bool:
    said = [json.loads(body) for kind, body in _bodies(connection, call_sid) if kind == SAID]
    return any(text.casefold() in str(one.get("text", "")).casefold() for one in said)


def _bodies(connection: Connection, call_sid: str) -> Sequence[tuple[str, str]]:
    query = (
        select(ENTRIES.c.kind, ENTRIES.c.body)
        .join(LINKS, LINKS.c.position == ENTRIES.c.position)
        .where(LINKS.c.call_sid == call_sid)
        .order_by(ENTRIES.c.position, ENTRIES.c.number)
    )
    return [(kind, body) for kind, body in connection.execute(query)]


def _whole(connection: Connection, row: RecordRow) -> FullRecord:
    bodies: dict[str, list[Any]] = {}
    for kind, body in _bodies(connection, row.call_sid):
        bodies.setdefault(kind, []).append(json.loads(body))
    query = select(LINKS).where(LINKS.c.call_sid == row.call_sid).order_by(LINKS.c.position)
    shown = ("position", "kind", "kept_at", "before", "hash", "mac")
    rows = tuple(
        {name: one[name] for name in shown} for one in connection.execute(query).mappings()
    )
    erasures = [one for one in rows if one["kind"] == ERASURE]
    return FullRecord(
        row,
        rows,
        # The last one holds all of them as they were in the end.
        fields=bodies.get(FIELDS, [{}])[-1],
        thread=_in_order(bodies.get(SAID, ())),
        journal=tuple(bodies.get(LINE, ())),
        views=tuple(bodies.get(VIEW, ())),
        versions=bodies.get(VERSIONS, [{}])[0],
        timings=bodies.get(TIMINGS, [{}])[-1],
        erasure=_erasure(bodies) if erasures else None,
    )


def _in_order(said: Sequence[Mapping[str, Any]]) -> tuple[Mapping[str, Any], ...]:
    """Each thing that was said once, as it was known last: what was heard of it may come later."""
    known: dict[str, Mapping[str, Any]] = {}
    for one in said:
        known[canonical({key: one[key] for key in one if key != "heard"})] = one
    return tuple(sorted(known.values(), key=lambda one: int(one["at"])))


def _erasure(bodies: Mapping[str, list[Any]]) -> Mapping[str, Any]:
    return {name: bodies[ERASED][0][name] for name in ("by", "why", "at")}
