"""Whatever one byte of the file becomes, it is told with its place: nothing is only a traceback."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callflow.errors import CallflowError
from callflow.records.failure import RecordsDamaged
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
    return Path(shutil.copy(good, tmp_path / "records.db"))


def looked_at(file: Path) -> ChainVerdict:
    return verify(RecordStore.open(f"sqlite:///{file}", KEY))


def sql(file: Path, *statements: str) -> None:
    with closing(sqlite3.connect(file)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


TEXTS = ("kind", "call_sid", "through", "before", "sealed", "hash", "mac")
FOUND_BY = ("began_at", "ended_at", "site", "scenario", "urgency", "outcome", "language", "test")
NUMBERS = ("kept_at", "entries")


@pytest.mark.parametrize("value", ["x'ff00'", "CAST(x'ff41' AS TEXT)"])
@pytest.mark.parametrize("column", [*TEXTS, *FOUND_BY, *NUMBERS])
def test_a_cell_that_became_another_kind_of_thing_names_its_call(
    copy: Path, column: str, value: str
) -> None:
    sql(copy, f"UPDATE callflow_links SET {column} = {value} WHERE position = 2")
    (first, *_) = [one for one in looked_at(copy).faults if one.position == 2]
    assert column == "call_sid" or first.call_sid == "CA2"
    assert first.sentence.encode()


@pytest.mark.parametrize("value", ["x'ff00'", "CAST(x'ff41' AS TEXT)"])
@pytest.mark.parametrize("column", ["kind", "body", "hash"])
def test_an_entry_that_became_another_kind_of_thing_is_named(
    copy: Path, column: str, value: str
) -> None:
    sql(copy, f"UPDATE callflow_entries SET {column} = {value} WHERE position = 2 AND number = 3")
    first = looked_at(copy).faults[0]
    assert (first.call_sid, first.entry) == ("CA2", 3)
    assert first.what.startswith("it was changed")


@pytest.mark.parametrize("value", ["'zz'", "x'ff00'", "-3", "1.5", "99"])
@pytest.mark.parametrize(
    "column",
    [("callflow_links", "position"), ("callflow_entries", "position"),
     ("callflow_entries", "number"), ("callflow_head", "position")],
)  # fmt: skip
def test_a_place_that_is_none_is_told(copy: Path, column: tuple[str, str], value: str) -> None:
    table, name = column
    where = {"callflow_links": "position = 2", "callflow_head": "id = 1"}.get(
        table, "position = 2 AND number = 2"
    )
    sql(copy, f"UPDATE {table} SET {name} = {value} WHERE {where}")
    verdict = looked_at(copy)
    assert not verdict.holds
    assert all(one.sentence for one in verdict.faults)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE callflow_schema SET version = 'zz'",
        "UPDATE callflow_schema SET version = -3",
        "UPDATE callflow_schema SET version = 0",
        "DELETE FROM callflow_schema",
        "DROP TABLE callflow_schema",
    ],
)
def test_tables_of_no_version_are_not_taken_for_none(copy: Path, statement: str) -> None:
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


@pytest.mark.parametrize("table", ["callflow_links", "callflow_entries", "callflow_head"])
def test_a_page_that_cannot_be_read_is_told(copy: Path, table: str) -> None:
    with closing(sqlite3.connect(copy)) as connection:
        (root,) = connection.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)
        ).fetchone()
        (page_bytes,) = connection.execute("PRAGMA page_size").fetchone()
    whole = bytearray(copy.read_bytes())
    whole[(root - 1) * page_bytes] ^= 0x40
    copy.write_bytes(whole)
    faults = looked_at(copy).faults
    assert "nothing behind it can be read" in faults[0].sentence
    assert any(one.position is None for one in faults)


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
