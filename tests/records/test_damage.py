"""Whatever one byte of the file becomes, it is told with its place: nothing is only a traceback."""

from __future__ import annotations

import itertools
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callflow.errors import CallflowError
from callflow.records.record_errors import RecordsDamaged
from callflow.records.record_store import RecordStore
from callflow.records.verify import ChainVerdict, verify
from tests.archiving import KEY, complete, url_in

TABLES = ("callflow_links", "callflow_entries", "callflow_head", "callflow_schema")


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The file of three calls, of which one is erased."""
    folder = tmp_path_factory.mktemp("good")
    records = RecordStore.open(url_in(folder), KEY)
    for number in range(1, 4):
        records.keep(complete(f"CA{number}"))
    records.erase(["CA1"], by="ana", why="asked")
    yield folder / "records.db"
    shutil.rmtree(folder)


@pytest.fixture
def copy(good: Path, tmp_path: Path) -> Path:
    return copied(good, tmp_path)


def copied(good: Path, folder: Path) -> Path:
    """The file as it was, in place of what was made of it."""
    for left in ("records.db-wal", "records.db-shm"):
        (folder / left).unlink(missing_ok=True)
    return Path(shutil.copy(good, folder / "records.db"))


def looked_at(file: Path) -> ChainVerdict:
    return verify(RecordStore.open(f"sqlite:///{file}", KEY))


def sql(file: Path, *statements: str) -> None:
    with closing(sqlite3.connect(file)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


TEXTS = ("kind", "call_sid", "through", "before", "sealed", "hash", "mac")
FOUND_BY = ("began_at", "ended_at", "site", "scenario", "urgency", "outcome", "language", "test")
NUMBERS = ("kept_at", "entries")


NO_TEXTS = ("x'ff00'", "CAST(x'ff41' AS TEXT)")


def test_a_cell_that_became_another_kind_of_thing_names_its_call(
    good: Path, tmp_path: Path
) -> None:
    missed = []
    for column, value in itertools.product((*TEXTS, *FOUND_BY, *NUMBERS), NO_TEXTS):
        copy = copied(good, tmp_path)
        sql(copy, f"UPDATE callflow_links SET {column} = {value} WHERE position = 2")
        found = [one for one in looked_at(copy).faults if one.position == 2]
        named = bool(found) and (column == "call_sid" or found[0].call_sid == "CA2")
        if not named or not found[0].sentence.encode():
            missed.append((column, value, found))
    assert missed == []


def test_an_entry_that_became_another_kind_of_thing_is_named(good: Path, tmp_path: Path) -> None:
    missed = []
    for column, value in itertools.product(("kind", "body", "hash"), NO_TEXTS):
        copy = copied(good, tmp_path)
        where = "position = 2 AND number = 3"
        sql(copy, f"UPDATE callflow_entries SET {column} = {value} WHERE {where}")
        first = looked_at(copy).faults[0]
        told = first.what.startswith("it was changed")
        if (first.call_sid, first.entry, told) != ("CA2", 3, True):
            missed.append((column, value, first))
    assert missed == []


PLACES = (
    ("callflow_links", "position", "position = 2"),
    ("callflow_entries", "position", "position = 2 AND number = 2"),
    ("callflow_entries", "number", "position = 2 AND number = 2"),
    ("callflow_head", "position", "id = 1"),
)


def test_a_place_that_is_none_is_told(good: Path, tmp_path: Path) -> None:
    missed = []
    for (table, name, where), value in itertools.product(
        PLACES, ("'zz'", "x'ff00'", "-3", "1.5", "99")
    ):
        copy = copied(good, tmp_path)
        sql(copy, f"UPDATE {table} SET {name} = {value} WHERE {where}")
        verdict = looked_at(copy)
        if verdict.holds or not all(one.sentence for one in verdict.faults):
            missed.append((table, name, value))
    assert missed == []


def test_tables_of_no_version_are_not_taken_for_none(good: Path, tmp_path: Path) -> None:
    for statement in (
        "UPDATE callflow_schema SET version = 'zz'",
        "UPDATE callflow_schema SET version = -3",
        "UPDATE callflow_schema SET version = 0",
        "DELETE FROM callflow_schema",
        "DROP TABLE callflow_schema",
    ):
        copy = copied(good, tmp_path)
        sql(copy, statement)
        with pytest.raises(RecordsDamaged, match="callflow_schema"):
            looked_at(copy)
        with pytest.raises(RecordsDamaged, match="was changed, or its disk has failed"):
            RecordStore.open(f"sqlite:///{copy}", KEY).keep(complete("CA9"))


def test_an_index_that_knows_a_row_otherwise_is_told(copy: Path) -> None:
    sql(
        copy,
        "PRAGMA writable_schema = ON",
        "UPDATE sqlite_master SET sql = replace(sql, '(site,', '(scenario,') "
        "WHERE name = 'callflow_links_by_site'",
    )
    (first, *_) = looked_at(copy).faults
    assert first.position is None
    assert "callflow_links_by_site" in first.sentence


def test_what_was_said_is_in_no_error(copy: Path) -> None:
    sql(
        copy,
        "UPDATE callflow_entries SET body = CAST(body || x'ff' AS TEXT) WHERE kind = 'said'",
    )
    with pytest.raises(RecordsDamaged, match="column 'body'") as raised:
        RecordStore.open(f"sqlite:///{copy}", KEY).keep(complete("CA2", heard=2))
    assert "stuck" not in str(raised.value)


def test_a_list_of_tables_that_is_no_text_is_told(copy: Path) -> None:
    whole = bytearray(copy.read_bytes())
    whole[whole.index(b"(site, ended_at)") + 1] ^= 0x80
    copy.write_bytes(whole)
    with pytest.raises(RecordsDamaged):
        looked_at(copy)


def test_a_page_that_cannot_be_read_is_told(good: Path, tmp_path: Path) -> None:
    for table in TABLES[:3]:
        copy = copied(good, tmp_path)
        with closing(sqlite3.connect(copy)) as connection:
            (root,) = connection.execute(
                "SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)
            ).fetchone()
            (page_bytes,) = connection.execute("PRAGMA page_size").fetchone()
        whole = bytearray(copy.read_bytes())
        whole[(root - 1) * page_bytes] ^= 0x40
        copy.write_bytes(whole)
        faults = looked_at(copy).faults
        assert "nothing behind it can be read" in faults[0].sentence, table
        assert any(one.position is None for one in faults), table


def content(file: Path) -> list[object]:
    """All rows of all tables, and those that each index finds."""
    with closing(sqlite3.connect(file)) as connection:
        connection.text_factory = bytes
        return [
            connection.execute(f"SELECT * FROM {table} NOT INDEXED ORDER BY 1, 2, 3").fetchall()
            for table in TABLES[:2]
        ] + [connection.execute(f"SELECT * FROM {table}").fetchall() for table in TABLES[2:]]


@settings(max_examples=40)
@given(data=st.data(), bit=st.integers(0, 7))
def test_any_byte_of_the_file_that_is_changed_changes_nothing_or_is_told(
    good: Path, data: st.DataObject, bit: int
) -> None:
    whole = bytearray(good.read_bytes())
    whole[data.draw(st.integers(0, len(whole) - 1))] ^= 1 << bit
    changed = good.with_name("changed.db")
    for left in ("changed.db-wal", "changed.db-shm"):
        good.with_name(left).unlink(missing_ok=True)
    changed.write_bytes(whole)
    try:
        verdict = looked_at(changed)
    except CallflowError:
        return  # In a sentence, as the command line shows it.
    if verdict.holds:
        assert content(changed) == content(good)
    assert all(one.sentence.encode() for one in verdict.faults)
