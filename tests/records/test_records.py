"""Each call is kept once; what comes later is added; what is erased is gone and was there."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import text

from callflow.records import database
from callflow.records.keeping import HOUR_MS, LastTest, ledger
from callflow.records.record_errors import (
    DriverMissing,
    NotRecorded,
    RecordsError,
    RecordsTooNew,
    RecordsUnavailable,
)
from callflow.records.record_store import KeepResult, RecordStore
from callflow.records.search import RecordQuery, list_records, read_record, read_records
from callflow.records.verify import verify
from tests.archiving import BEGAN_MS, KEY, complete, url_in

Alter = Callable[..., None]


def test_a_call_is_kept_whole_and_once(records: RecordStore) -> None:
    call = complete(facts={"floor": "3", "note": "\ud800 zero \x00 零"})
    assert records.keep(call) is KeepResult.KEPT
    assert records.keep(call) is KeepResult.KNOWN
    found = read_record(records, call.call_sid)
    assert found.fields == call.fields
    assert list(found.thread) == list(call.thread)
    assert [line["id"] for line in found.journal] == ["1-0", "2-0", "3-0"]
    assert found.timings == {
        "duration_ms": 8_000,
        "longest_reply_ms": 1_500,
        "human_after_ms": None,
        "takeovers": 0,
    }
    assert records.through([call.call_sid, "CA2"]) == {call.call_sid: "3-0 "}


def test_many_archivers_at_once_keep_each_call_once_in_one_chain(records: RecordStore) -> None:
    failures: list[Exception] = []

    def archive() -> None:
        own = RecordStore.open(records.database._engine.url.render_as_string(False), KEY)
        try:
            for number in range(12):
                own.keep(complete(f"CA{number}"))
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=archive) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    verdict = verify(records)
    assert (verdict.holds, verdict.rows) == (True, 12)


def test_a_supplement_holds_what_is_new_and_nothing_else(records: RecordStore) -> None:
    call = complete()
    records.keep(call)
    later = replace(
        call,
        lines=(*call.lines, ("4-0", {"event": "refused", "at": "1"})),
        views=(("5-0", {"what": "read", "by": "ana", "at": "2"}),),
        thread=(*call.thread, {"role": "caller", "turn": 2, "text": "hello?", "at": 3}),
        fields={**call.fields, "heard": 2},
        through="4-0 5-0",
    )
    before = verify(records).entries
    assert records.keep(later) is KeepResult.SUPPLEMENTED
    assert records.keep(later) is KeepResult.KNOWN
    assert verify(records).entries == before + 4
    found = read_record(records, call.call_sid)
    assert (found.fields["heard"], len(found.thread), len(found.journal)) == (2, 3, 4)
    assert verify(records).holds


def test_records_are_found_by_what_they_were_about(records: RecordStore) -> None:
    records.keep(complete("CA1"))
    records.keep(complete("CA2", site="tower-2", outcome="resolved"))
    other = replace(
        complete("CA3"),
        thread=({"role": "caller", "turn": 1, "text": "电梯 100% quiet", "at": BEGAN_MS},),
        lines=(("1-0", {"event": "ended", "at": str(BEGAN_MS + HOUR_MS)}),),
    )
    records.keep(other)

    def sids(**wanted: object) -> list[str]:
        return [row.call_sid for row in list_records(records, RecordQuery(**wanted))]  # type: ignore[arg-type]

    assert sids() == ["CA3", "CA2", "CA1"]
    assert sids(site="tower-2") == sids(outcome="resolved") == ["CA2"]
    assert sids(since_ms=BEGAN_MS + HOUR_MS) == ["CA3"]
    assert sids(until_ms=BEGAN_MS + HOUR_MS) == ["CA2", "CA1"]
    assert sids(text="MARIA") == ["CA2", "CA1"]
    assert sids(text="电梯") == sids(text="100%") == ["CA3"]
    assert sids(text="1_0") == sids(text="role") == []
    assert [row.call_sid for row in list_records(records, RecordQuery(), most=1)] == ["CA3"]
    assert [one.row.call_sid for one in read_records(records, RecordQuery())] == [
        "CA1",
        "CA2",
        "CA3",
    ]
    with pytest.raises(NotRecorded, match="call CA9 has no lasting record"):
        read_record(records, "CA9")


def test_an_erased_call_leaves_who_and_why_and_no_word(records: RecordStore) -> None:
    for number in range(3):
        records.keep(complete(f"CA{number}"))
    records.keep(replace(complete("CA1"), lines=(("9-0", {"event": "refused", "at": "1"}),)))

    done = records.erase(["CA1", "CA7", "CA1"], by="ana", why="asked by the caller")

    assert done.calls == ("CA1",)
    assert records.erase(["CA1"], by="bo", why="again").calls == ()
    assert records.keep(complete("CA1")) is KeepResult.ERASED
    found = read_record(records, "CA1")
    assert found.erasure is not None
    assert (found.erasure["by"], found.erasure["why"]) == ("ana", "asked by the caller")
    assert (found.fields, found.thread, found.journal, found.row.site) == ({}, (), (), None)
    verdict = verify(records)
    assert (verdict.holds, verdict.erased) == (True, 2)
    with records.database.reading() as connection:
        tables = [
            connection.execute(table.select()).all() for table in (database.LINKS, database.ENTRIES)
        ]
        rows = [
            row for table in tables for row in table if "CA1" in map(str, row) or row[0] in (2, 4)
        ]
    assert "Maria" not in str(rows)
    assert list_records(records, RecordQuery(call_sid="CA1"))[0].erased


def test_no_word_of_an_erased_call_is_left_in_the_file(tmp_path: Path) -> None:
    records = RecordStore.open(url_in(tmp_path))
    records.keep(complete())

    def stored() -> bytes:
        return b"".join(path.read_bytes() for path in tmp_path.iterdir())

    assert b"Maria" in stored()
    records.erase([complete().call_sid], by="ana", why="asked")
    assert b"Maria" not in stored()


def test_what_is_too_old_is_found_until_it_is_erased(records: RecordStore) -> None:
    records.keep(complete("CA1"))
    assert records.older_than(BEGAN_MS) == []
    assert records.older_than(BEGAN_MS + HOUR_MS) == ["CA1"]
    records.erase(["CA1"], by="retention", why="old")
    assert records.older_than(BEGAN_MS + HOUR_MS) == []


def test_the_ledger_knows_each_lifts_last_good_test_call(records: RecordStore) -> None:
    tried: dict[str, object] = {"scenario_type": "test_call_automatic", "urgency": "P5"}
    calls: dict[str, dict[str, object]] = {
        "CA1": {"site": "a"},
        "CA2": {"site": "b", "outcome": "abandoned"},
        "CA3": {"site": "c", "answered": 0},
        "CA4": {"site": "d", "lost": 1},
        "CA5": {"site": "e", "scenario_type": "accidental_press"},
        "CA6": {"site": None},
        "CA7": {"site": "f", "scenario_type": "test_call_engineer"},
    }
    for sid, more in calls.items():
        records.keep(complete(sid, **{**tried, **more}))
    ended = BEGAN_MS + 8_000
    assert records.last_tests() == {"a": ended, "f": ended}

    found = ledger(["f", "a", "b"], {"a": ended, "f": ended + 5}, ended + 72 * HOUR_MS + 3, 72)
    assert found == [
        LastTest("b", None, True),
        LastTest("a", ended, True),
        LastTest("f", ended + 5, False),
    ]


def test_a_database_of_a_newer_release_is_refused(records: RecordStore, alter: Alter) -> None:
    records.keep(complete())
    alter("UPDATE callflow_schema SET version = 99")
    again = RecordStore.open(records.database._engine.url.render_as_string(False))
    with pytest.raises(RecordsTooNew, match="tables of version 99, and this callflow knows up to"):
        again.keep(complete())


def test_a_database_of_an_older_release_is_stepped_up_once(
    records: RecordStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    records.keep(complete("CA1"))
    taken: list[int] = []

    def add_a_column(connection: object) -> None:
        taken.append(1)
        connection.execute(text("ALTER TABLE callflow_links ADD COLUMN colour TEXT"))  # type: ignore[attr-defined]

    steps = (*database.STEPS, add_a_column)
    monkeypatch.setattr("callflow.records.database.STEPS", steps)
    url = records.database._engine.url.render_as_string(False)
    for number in (2, 3):
        RecordStore.open(url, KEY).keep(complete(f"CA{number}"))
    assert taken == [1]
    assert (verify(records).holds, verify(records).rows) == (True, 3)


def test_an_address_that_cannot_be_used_is_told_without_its_password() -> None:
    nowhere = RecordStore.open("postgresql+psycopg://callflow:geheim@127.0.0.1:1/db")
    with pytest.raises(RecordsUnavailable) as told:
        nowhere.keep(complete())
    assert "127.0.0.1:1/db" in str(told.value)
    with pytest.raises(RecordsError) as nonsense:
        RecordStore.open("geheim")
    with pytest.raises(RecordsUnavailable, match="No such file or directory"):
        RecordStore.open("sqlite:////not/there/records.db").keep(complete())
    assert "geheim" not in str(told.value) + str(nonsense.value)
    with pytest.raises(DriverMissing, match=r"pip install 'callflow\[postgres\]'"):
        RecordStore.open("postgresql+pg8000://callflow@127.0.0.1:1/db")


def test_a_file_of_records_is_for_its_owner_alone(tmp_path: Path) -> None:
    RecordStore.open(url_in(tmp_path)).keep(complete())
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}
