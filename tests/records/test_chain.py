"""Whatever is changed in the database shows, and `verify` names the call and the entry."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import Column, Integer, Table, update
from sqlalchemy.types import BigInteger, Boolean

from callflow.records.database import ENTRIES, HEAD, LINKS
from callflow.records.hashes import canonical, digest, entry_hash, first_of, row_hash
from callflow.records.record_errors import RecordRefused
from callflow.records.record_store import RecordStore
from callflow.records.verify import ChainFault, verify
from tests.archiving import KEY, complete, url_in

Alter = Callable[..., None]
CALLS = 4


def filled(records: RecordStore) -> RecordStore:
    """Four calls, one with a supplement, one erased: six rows."""
    for number in range(1, CALLS + 1):
        records.keep(complete(f"CA{number}"))
    records.keep(replace(complete("CA2"), lines=(("9-0", {"event": "refused", "at": "1"}),)))
    records.erase(["CA3"], by="ana", why="asked")
    return records


def faults(records: RecordStore) -> list[tuple[str | None, int | None]]:
    return [(one.call_sid, one.entry) for one in verify(records).faults]


def test_a_chain_that_nobody_changed_holds(records: RecordStore) -> None:
    verdict = verify(filled(records))
    assert verdict.faults == ()
    assert (verdict.rows, verdict.erased, verdict.sealed) == (6, 1, True)


def test_a_changed_word_names_the_call_and_the_entry(records: RecordStore, alter: Alter) -> None:
    filled(records)
    alter(
        "UPDATE callflow_entries SET body = replace(body, 'stuck', 'stock') "
        "WHERE position = 2 AND kind = 'said' AND number = 3"
    )
    (fault,) = verify(records).faults
    assert (fault.call_sid, fault.entry) == ("CA2", 3)
    assert fault.sentence == "call CA2 (row 2, entry 3): it was changed (said)"


def test_a_removed_entry_and_a_removed_record_show(records: RecordStore, alter: Alter) -> None:
    filled(records)
    alter("DELETE FROM callflow_entries WHERE position = 4 AND number = 2")
    assert faults(records) == [("CA4", 2)]
    alter("DELETE FROM callflow_links WHERE position = 4")
    alter("DELETE FROM callflow_entries WHERE position = 4")
    (fault,) = verify(records).faults
    assert fault == ChainFault(5, None, None, "rows 4 to 4 are missing")


def test_a_removed_end_shows(records: RecordStore, alter: Alter) -> None:
    filled(records)
    alter("DELETE FROM callflow_entries WHERE position = 6")
    alter("DELETE FROM callflow_links WHERE position = 6")
    told = [one.what for one in verify(records).faults]
    assert "its end was at row 6, and the last row is 5" in told


def test_the_content_of_a_call_cannot_go_without_an_erasure(
    records: RecordStore, alter: Alter
) -> None:
    filled(records)
    alter("DELETE FROM callflow_entries WHERE position = 1")
    assert faults(records) == [("CA1", 1)]


def test_an_entry_that_belongs_to_no_row_shows(records: RecordStore, alter: Alter) -> None:
    filled(records)
    alter("INSERT INTO callflow_entries VALUES (9, 1, 'said', '{}', 'x')")
    assert verify(records).faults == (ChainFault(9, None, 1, "an entry belongs to no row"),)


def test_what_is_written_where_a_call_was_erased_shows(records: RecordStore, alter: Alter) -> None:
    filled(records)
    alter("UPDATE callflow_links SET site = 'tower-9' WHERE position = 3")
    assert faults(records) == [("CA3", None)]


def test_an_end_put_back_shows_to_whoever_knows_a_later_one(
    records: RecordStore, alter: Alter
) -> None:
    filled(records)
    known = verify(records).head
    alter("DELETE FROM callflow_entries WHERE position = 6")
    alter("DELETE FROM callflow_links WHERE position = 6")
    alter("UPDATE callflow_links SET site = 'tower-1' WHERE position = 3")
    alter(
        "UPDATE callflow_head SET position = 5, "
        "hash = (SELECT hash FROM callflow_links WHERE position = 5), "
        "mac = (SELECT mac FROM callflow_links WHERE position = 5)"
    )
    told = verify(records, known_head=(known.position, known.hash)).faults
    assert told[-1].what.startswith("the head that you know is not in it")


def computed_anew(records: RecordStore, alter: Alter) -> None:
    """Change a word of the last call, and every hash that covers it, as who knows how can."""
    with records.database.reading() as connection:
        rows = connection.execute(ENTRIES.select().where(ENTRIES.c.position == 1)).mappings().all()
        link = dict(connection.execute(LINKS.select()).mappings().one())
    last = first_of("CA1", 1)
    for row in rows:
        body = row["body"].replace("stuck", "stock")
        last = entry_hash(last, row["number"], row["kind"], body)
        alter(
            "UPDATE callflow_entries SET body = :body, hash = :hash "
            "WHERE position = 1 AND number = :number",
            body=body,
            hash=last,
            number=row["number"],
        )
    header = {name: link[name] for name in ("began_at", "ended_at", "site", "scenario", "urgency")}
    header |= {name: link[name] for name in ("outcome", "language", "test")}
    link["sealed"] = digest("content", canonical(header), last)
    link["hash"] = row_hash(link)
    alter("UPDATE callflow_links SET sealed = :sealed, hash = :hash", **_two(link))
    alter("UPDATE callflow_head SET hash = :hash", hash=link["hash"])


def _two(link: dict[str, Any]) -> dict[str, Any]:
    return {"sealed": link["sealed"], "hash": link["hash"]}


def test_a_chain_that_was_computed_anew_shows_with_a_key_alone(
    records: RecordStore, alter: Alter
) -> None:
    records.keep(complete("CA1"))
    computed_anew(records, alter)
    assert verify(RecordStore(records.database)).holds
    assert "its keyed code is not of CALLFLOW_RECORDS_KEY" in [
        one.what for one in verify(records).faults
    ]
    alter("UPDATE callflow_links SET mac = NULL")
    alter("UPDATE callflow_head SET mac = NULL")
    bare = verify(records)
    assert (bare.holds, bare.sealed, bare.unsealed) == (True, False, 1), "as before there was a key"


def test_rows_from_before_there_was_a_key_are_borne_out_by_later_ones(records: RecordStore) -> None:
    RecordStore(records.database).keep(complete("CA1"))
    before = verify(records)
    assert (before.holds, before.keyed, before.sealed, before.unsealed) == (True, True, False, 1)
    records.keep(complete("CA2"))
    assert (verify(records).holds, verify(records).sealed) == (True, False)
    assert verify(records).unsealed == 1


# Any byte at all.


@cache
def template() -> Path:
    """A database that is filled once; each example changes a copy."""
    folder = Path(tempfile.mkdtemp(prefix="callflow-chain-"))
    filled(RecordStore.open(url_in(folder), KEY))
    return folder


@pytest.fixture(scope="module", autouse=True)
def no_template_is_left() -> Iterator[None]:
    yield
    shutil.rmtree(template(), ignore_errors=True)
    template.cache_clear()


CELLS = [(table, column) for table in (LINKS, ENTRIES, HEAD) for column in table.columns]


def altered(column: Column[Any], value: Any, draw: Callable[[Any], Any]) -> Any:
    """Another value that the column could hold."""
    if isinstance(column.type, Boolean):
        return not value
    if isinstance(column.type, Integer | BigInteger):
        return draw(st.integers(0, 2**40).filter(lambda other: other != value))
    if not value:
        return "x"
    place = draw(st.integers(0, len(value) - 1))
    letter = draw(st.characters(codec="utf-8", exclude_characters=value[place] + "\0"))
    return value[:place] + letter + value[place + 1 :]


@settings(max_examples=150)
@given(st.data(), st.sampled_from(CELLS))
def test_any_byte_that_is_changed_is_found(data: st.DataObject, cell: tuple[Table, Any]) -> None:
    table, column = cell
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(template(), folder, dirs_exist_ok=True)
        records = RecordStore.open(url_in(Path(folder)), KEY)
        with records.database.reading() as connection:
            rows = connection.execute(table.select()).mappings().all()
        row = data.draw(st.sampled_from(rows))
        value = altered(column, row[column.name], data.draw)
        place = [key == row[key.name] for key in table.primary_key]
        try:
            with records.database.writing() as connection:
                connection.execute(update(table).where(*place).values({column.name: value}))
        except RecordRefused:
            if not (column.primary_key or column is LINKS.c.call_sid):
                raise
            # A place that is taken, or a second record of one call: the database itself finds it.
            return
        verdict = verify(records)
        assert not verdict.holds
        if column in (ENTRIES.c.body, ENTRIES.c.kind):
            assert verdict.faults[0].entry == row["number"]
            assert verdict.faults[0].position == row["position"]


def test_the_database_refuses_a_second_record_of_one_call(
    records: RecordStore, alter: Alter
) -> None:
    filled(records)
    with pytest.raises(RecordRefused):
        alter("UPDATE callflow_links SET call_sid = 'CA2' WHERE position = 1")
    assert verify(records).holds
