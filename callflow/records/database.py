"""Opens the database of the records: its tables, transactions that end, and errors in our words.

`callflow_links` is the chain: one row for each record, supplement and erasure, each naming the hash
of the row before. `callflow_entries` is what the rows hold, entry by entry, in a chain of its own.
`callflow_head` is the end of the chain: whoever adds to it locks it, so that it never forks.
"""

from __future__ import annotations

import socket
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Index,
    Integer,
    MetaData,
    Select,
    String,
    Table,
    Text,
    and_,
    create_engine,
    event,
    exists,
    insert,
    inspect,
    make_url,
    or_,
    select,
    text,
    update,
)
from sqlalchemy.exc import (
    ArgumentError,
    DBAPIError,
    InterfaceError,
    OperationalError,
    SQLAlchemyError,
)
from sqlalchemy.pool import NullPool

from callflow.records.hashes import START
from callflow.records.record_errors import (
    DriverMissing,
    NothingKept,
    RecordRefused,
    RecordsDamaged,
    RecordsError,
    RecordsTooNew,
    RecordsUnavailable,
)

CONNECT_TIMEOUT_S = 3
LOCK_TIMEOUT_S = 5
"""Another archiver adds one record at a time, which takes milliseconds."""

_WRITES = "callflow_writes"


METADATA = MetaData()

RECORD, SUPPLEMENT, ERASURE = "record", "supplement", "erasure"
"""What a link of the chain is."""

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


class Database:
    """A place for records. Threads may share it; each transaction has a connection of its own.

    `longest_s`: a connection that is older is cut, so that nobody waits for ever for a server that
    is frozen; None for a person who waits for all records. Who writes first makes the tables, and
    owns them: a reader who did could lock the archiver out. All raise RecordsUnavailable,
    RecordsTooNew, RecordsDamaged, DriverMissing, and RecordRefused for what the database cannot do
    or hold.
    """

    def __init__(self, url: str, longest_s: float | None = None) -> None:
        try:
            parsed = make_url(url)
        except ArgumentError:
            raise RecordsError(
                "in CALLFLOW_RECORDS_URL", "has no address that can be read"
            ) from None
        self.where = parsed.render_as_string(hide_password=True)
        self._file = parsed.database if parsed.get_backend_name() == "sqlite" else None
        self._longest_s = longest_s
        self._ready = False
        options: dict[str, Any] = {"timeout": LOCK_TIMEOUT_S}
        if self._file is None:
            options = {
                "connect_timeout": CONNECT_TIMEOUT_S,
                "keepalives_idle": 5,
                "tcp_user_timeout": 5_000,
                "options": f"-c lock_timeout={LOCK_TIMEOUT_S}s -c client_encoding=UTF8",
            }
        try:
            self._engine = create_engine(
                parsed, poolclass=NullPool, connect_args=options, hide_parameters=True
            )
        except ModuleNotFoundError as error:
            raise DriverMissing(self.where, str(error.name), "postgres") from error
        self._listen()

    def _listen(self) -> None:
        # Before SQLAlchemy asks the server its first questions, which may be the ones that hang.
        event.listen(self._engine, "connect", self._connected, insert=True)
        if self._file is not None:
            event.listen(self._engine, "begin", _begin)

    def _connected(self, connection: Any, _: Any) -> None:
        if self._file is not None:
            # We say ourselves where a transaction begins.
            connection.isolation_level = None
            # What was committed must be on the disk: the working keys go afterwards.
            for pragma in ("journal_mode=WAL", "synchronous=FULL", "secure_delete=ON"):
                connection.execute(f"PRAGMA {pragma}").close()
        elif self._longest_s is not None:
            guard = threading.Timer(self._longest_s, _cut, (connection,))
            guard.daemon = True
            guard.start()
            connection._callflow_guard = guard

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """One consistent look. Raises NothingKept where nobody has written yet."""
        self.need()
        with self._transaction(writes=False) as connection:
            yield connection

    def fetch(self, query: Select[*tuple[Any, ...]]) -> Sequence[Any]:
        """All rows that a query finds; none where nobody has written yet."""
        if not self.holds_any():
            return []
        with self.reading() as connection:
            return connection.execute(query).all()

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """One transaction: all of it is stored when the block has ended, or nothing."""
        self._prepare(make=True)
        with self._transaction(writes=True) as connection:
            yield connection

    def holds_any(self) -> bool:
        """False where nobody has written yet; nothing is made."""
        try:
            self.need()
        except NothingKept:
            return False
        return True

    def need(self) -> None:
        """Raise NothingKept where nobody has written yet; nothing is made."""
        self._prepare(make=False)

    def _prepare(self, *, make: bool) -> None:
        if self._file is not None:
            self._find_file(Path(self._file), make=make)
        if self._ready:
            return
        try:
            self._step_up(make=make)
        except RecordRefused as error:
            # No right to make tables, or no database: that is no single record's.
            raise RecordsUnavailable(self.where, error.cause) from error
        self._ready = True

    def _step_up(self, *, make: bool) -> None:
        with self._transaction(writes=False) as connection:
            version = version_of(connection)
        refuse_newer(self.where, version)
        if version == 0 and not make:
            raise NothingKept(self.where)
        if version < len(STEPS):
            with self._transaction(writes=True) as connection:
                step_up(connection, self.where)

    def _find_file(self, path: Path, *, make: bool) -> None:
        """What callers said is for the owner of the file alone; SQLite would let all read it."""
        try:
            if path.exists():
                return
            # Or it was put away since it was found.
            self._ready = False
            if not make:
                path.parent.stat()
                raise NothingKept(self.where)
            path.touch(mode=0o600, exist_ok=True)
        except OSError as error:
            raise RecordsUnavailable(self.where, error.strerror or str(error)) from error

    @contextmanager
    def _transaction(self, *, writes: bool) -> Iterator[Connection]:
        with self._translated():
            with self._engine.connect() as connection:
                raw = connection.connection.dbapi_connection
                guard = getattr(raw, "_callflow_guard", None)
                try:
                    connection = connection.execution_options(**{_WRITES: writes})
                    if self._file is None and not writes:
                        connection = connection.execution_options(isolation_level="REPEATABLE READ")
                    with connection.begin():
                        yield connection
                finally:
                    if guard is not None:
                        guard.cancel()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except UnicodeDecodeError as error:
            # SQLite quotes what it does not understand, and Python's driver cannot read that.
            raise RecordsDamaged(self.where, "its list of tables is no UTF-8") from error
        except DBAPIError as error:
            if (found := _damage(error.orig)) is not None:
                raise RecordsDamaged(self.where, found) from error
            gone = isinstance(error, (OperationalError, InterfaceError))
            if not (gone or error.connection_invalidated):
                raise RecordRefused(self.where, type(error.orig).__name__) from error
            # Its first line: what follows may show values.
            first = str(error.orig).strip().splitlines()
            raise RecordsUnavailable(
                self.where, first[0] if first else "no reason given"
            ) from error
        except SQLAlchemyError as error:
            # Its name alone: what it says may show values.
            raise RecordRefused(self.where, type(error).__name__) from error


def _damage(error: BaseException | None) -> str | None:
    """What is wrong with the file by what SQLite says; None where it says something else."""
    said = str(error)
    if isinstance(error, sqlite3.OperationalError) and said.startswith("Could not decode to UTF-8"):
        return said.partition(" with text")[0]  # What follows are people's words.
    if isinstance(error, sqlite3.OperationalError) and said.startswith(
        ("no such table", "no such col")
    ):
        return said
    return said if type(error) is sqlite3.DatabaseError else None


def _begin(connection: Connection) -> None:
    writes = connection.get_execution_options().get(_WRITES)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _cut(connection: Any) -> None:
    """End a connection that another thread waits on: it is told that its server has gone."""
    import psycopg

    # It may have ended by itself in this moment.
    with suppress(psycopg.Error, OSError):
        with socket.socket(fileno=socket.dup(connection.fileno())) as line:
            line.shutdown(socket.SHUT_RDWR)
