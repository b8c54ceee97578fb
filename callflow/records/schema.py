"""The tables, which version of them a database has, and the steps from one to the next.

`callflow_links` is the chain: one row for each record, supplement and erasure, each naming the hash
of the row before. `callflow_entries` is what the rows hold, entry by entry, in a chain of its own.
`callflow_head` is the end of the chain: whoever adds to it locks it, so that it never forks.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    and_,
    exists,
    insert,
    inspect,
    or_,
    select,
    text,
    update,
)

from callflow.records.canonical import START
from callflow.records.failure import RecordsDamaged, RecordsTooNew

METADATA = MetaData()

RECORD, SUPPLEMENT, ERASURE = "record", "supplement", "erasure"
"""What a link of the chain is."""

HEADER = (
    "began_at", "ended_at", "site", "scenario", "urgency", "outcome", "language", "test",
)  # fmt: skip
"""Columns that records are found by. They are taken from the content, and go when it is erased."""

LINKS = Table(
    "callflow_links",
    METADATA,
    Column("position", BigInteger, primary_key=True, autoincrement=False),
    Column("kind", String(16), nullable=False),
    Column("call_sid", String(64), nullable=False, index=True),
    Column("through", String(64), nullable=False),  # the last lines that it covers
    Column("kept_at", BigInteger, nullable=False),  # ms since 1970, by the archiver's clock
    Column("entries", Integer, nullable=False),
    Column("before", String(64), nullable=False),
    Column("sealed", String(64), nullable=False),
    Column("hash", String(64), nullable=False),
    Column("mac", String(64)),
    Column("began_at", BigInteger),
    Column("ended_at", BigInteger, index=True),
    Column("site", Text),
    Column("scenario", Text),
    Column("urgency", String(8)),
    Column("outcome", Text),
    Column("language", Text),
    Column("test", Boolean),
)
Index("callflow_links_by_site", LINKS.c.site, LINKS.c.ended_at)
_IS_TEST = LINKS.c.test.is_(True)
Index(
    "callflow_tests_by_site",
    LINKS.c.site,
    LINKS.c.ended_at,
    sqlite_where=_IS_TEST,
    postgresql_where=_IS_TEST,
)
_IS_RECORD = LINKS.c.kind == RECORD
Index(
    "callflow_one_record_each",
    LINKS.c.call_sid,
    unique=True,
    sqlite_where=_IS_RECORD,
    postgresql_where=_IS_RECORD,
)

_LATER = LINKS.alias("later")
STANDS = and_(
    or_(LINKS.c.kind == RECORD, LINKS.c.began_at.is_not(None)),
    ~exists().where(
        _LATER.c.call_sid == LINKS.c.call_sid,
        _LATER.c.position > LINKS.c.position,
        _LATER.c.began_at.is_not(None),
    ),
)
"""Meets one row of each call: the last that says what it is found by. That is the record, or a
supplement that changed it: after a failover a call may have ended twice."""

ENTRIES = Table(
    "callflow_entries",
    METADATA,
    Column("position", BigInteger, primary_key=True, autoincrement=False),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("kind", String(16), nullable=False),
    Column("body", Text, nullable=False),
    Column("hash", String(64), nullable=False),
)

HEAD = Table(
    "callflow_head",
    METADATA,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("position", BigInteger, nullable=False),
    Column("hash", String(64), nullable=False),
    Column("mac", String(64)),
)

VERSION = Table("callflow_schema", METADATA, Column("version", Integer, nullable=False))


def _first(connection: Connection) -> None:
    METADATA.create_all(connection)
    connection.execute(insert(VERSION).values(version=0))
    connection.execute(insert(HEAD).values(id=1, position=0, hash=START))


STEPS: tuple[Callable[[Connection], None], ...] = (_first,)
"""Step n leads from version n to n + 1; a database that is empty has version 0."""

_LOCK = 0x63616C6C
"""Two processes that start at once must not both take a step; PostgreSQL locks by a number."""


def version_of(connection: Connection) -> int:
    """The version of the tables; 0 where there are none. Raises RecordsDamaged where it is not to
    be read, and there are others: who took them for none would make them anew."""
    where = connection.engine.url.render_as_string(hide_password=True)
    there = inspect(connection)
    if not there.has_table(VERSION.name):
        if any(there.has_table(table.name) for table in (LINKS, ENTRIES, HEAD)):
            raise RecordsDamaged(where, f"its table {VERSION.name} is gone")
        return 0
    versions = connection.execute(select(VERSION.c.version)).scalars().all()
    if len(versions) != 1 or type(versions[0]) is not int or versions[0] < 1:
        raise RecordsDamaged(where, f"its table {VERSION.name} holds no version")
    return versions[0]


def refuse_newer(where: str, version: int) -> None:
    """Raise RecordsTooNew for tables that this release does not know."""
    if version > len(STEPS):
        raise RecordsTooNew(where, version, len(STEPS))


def step_up(connection: Connection, where: str) -> None:
    """Bring the tables to the newest version, within the transaction at hand. Twice is once.

    Raises RecordsTooNew.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
    version = version_of(connection)
    refuse_newer(where, version)
    for number in range(version, len(STEPS)):
        STEPS[number](connection)
        connection.execute(update(VERSION).values(version=number + 1))
