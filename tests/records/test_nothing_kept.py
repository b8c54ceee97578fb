"""Who looks makes no database: its owner is the archiver, which must be able to write it."""

from __future__ import annotations

from pathlib import Path

import pytest

from callflow.records.database import ENTRIES, version_of
from callflow.records.record_errors import (
    NothingKept,
    NotRecorded,
    RecordRefused,
    RecordsUnavailable,
)
from callflow.records.record_store import KeepResult, RecordStore
from callflow.records.search import RecordQuery, list_records, read_record, read_records
from callflow.records.verify import verify
from tests.archiving import KEY, complete, url_in


def look(records: RecordStore) -> None:
    """All that reads, where there is nothing."""
    assert list_records(records, RecordQuery()) == []
    assert list(read_records(records, RecordQuery())) == []
    assert records.older_than(1) == []
    assert records.last_tests() == {}
    assert records.through(["CA1"]) == {}
    with pytest.raises(NotRecorded):
        read_record(records, "CA1")
    assert (verify(records).holds, verify(records).rows, verify(records).sealed) == (True, 0, False)
    assert not verify(records, known_head=(3, "0" * 64)).holds
    with pytest.raises(NothingKept, match="nothing is kept yet"):
        records.erase(["CA1"], by="ana", why="asked")


def test_who_looks_makes_no_file(tmp_path: Path) -> None:
    records = RecordStore.open(url_in(tmp_path), KEY)
    look(records)
    assert list(tmp_path.iterdir()) == []
    assert records.keep(complete("CA1")) is KeepResult.KEPT
    assert [row.call_sid for row in list_records(records, RecordQuery())] == ["CA1"]


def test_who_looks_makes_no_tables(records: RecordStore) -> None:
    look(records)
    with records.database._transaction(writes=False) as connection:
        assert version_of(connection) == 0


def test_a_file_that_was_put_away_is_not_made_anew_by_who_looks(tmp_path: Path) -> None:
    records = RecordStore.open(url_in(tmp_path), KEY)
    records.keep(complete("CA1"))
    for path in tmp_path.iterdir():
        path.unlink()
    look(records)
    assert list(tmp_path.iterdir()) == []
    assert records.keep(complete("CA1")) is KeepResult.KEPT
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}


def test_a_folder_that_is_not_there_is_told_to_who_looks() -> None:
    with pytest.raises(RecordsUnavailable, match="No such file or directory"):
        list_records(RecordStore.open("sqlite:////not/there/records.db"), RecordQuery())


def test_what_the_database_refuses_of_one_record_is_not_its_absence(records: RecordStore) -> None:
    records.keep(complete("CA1"))
    with pytest.raises(RecordRefused):
        records.keep(complete("CA2", site={"no": "text"}))
    with records.database.writing() as connection:
        stray = {"position": 2, "number": 1, "kind": "said", "body": "{}", "hash": "x"}
        connection.execute(ENTRIES.insert().values(**stray))
    with pytest.raises(RecordRefused, match=r"refused it: (IntegrityError|UniqueViolation)"):
        records.keep(complete("CA3"))
