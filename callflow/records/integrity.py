"""Reads cells as they are in the file, whatever they have become, and what SQLite says of its file.

SQLite stores any type in any column, and a single bit can turn a text into bytes or into no UTF-8.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Boolean, Connection, Integer, Select, Table, select, type_coerce
from sqlalchemy.types import NullType

MOST_TOLD = 20
"""Places that SQLite names; one damaged page can have thousands."""


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
    told = connection.exec_driver_sql(f"PRAGMA integrity_check({MOST_TOLD})").scalars().all()
    return [str(one) for one in told if one != "ok"]


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
