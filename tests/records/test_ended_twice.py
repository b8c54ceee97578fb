"""A failover may take the end of a call back: it goes on, and its record tells all of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from callflow.records.completed_call import CompletedCall
from callflow.records.record_store import KeepResult, RecordStore
from callflow.records.search import RecordQuery, list_records, read_record, read_records
from callflow.records.verify import verify
from tests.archiving import BEGAN_MS, complete

MINUTE_MS = 60_000


def said(role: str, turn: int, text: str, after_ms: int) -> dict[str, Any]:
    return {"role": role, "turn": turn, "text": text, "at": BEGAN_MS + after_ms}


def first_end(**fields: object) -> CompletedCall:
    """Two turns, of which a failover takes the second back, with the end."""
    call = complete("CA1", **fields)
    more = (said("caller", 2, "old words", 3_000), said("agent", 2, "Old reply.", 4_000))
    return replace(call, thread=(*call.thread, *more))


def second_end(**fields: object) -> CompletedCall:
    """Other words in the second turn, and another end, a minute later."""
    changed = {"outcome": "resolved", "updated_at": BEGAN_MS + MINUTE_MS, **fields}
    call = complete("CA1", **changed)
    more = (said("caller", 2, "my leg is trapped", 9_000), said("agent", 2, "Help.", 19_000))
    ended = ("9-0", {"event": "ended", "at": str(BEGAN_MS + MINUTE_MS), "reason": "resolved"})
    return replace(
        call, thread=(*call.thread, *more), lines=(*call.lines[:2], ended), through="9-0 "
    )


def test_words_in_the_place_of_others_are_kept_beside_them_and_in_order(
    records: RecordStore,
) -> None:
    records.keep(first_end())
    assert records.keep(second_end()) is KeepResult.SUPPLEMENTED
    assert records.keep(second_end()) is KeepResult.KNOWN
    assert [one["text"] for one in read_record(records, "CA1").thread] == [
        *("I am Maria, stuck", "Help is coming.", "old words", "Old reply."),
        *("my leg is trapped", "Help."),
    ]
    assert [row.call_sid for row in list_records(records, RecordQuery(text="LEG is"))] == ["CA1"]
    assert verify(records).holds


def test_words_that_came_earlier_stand_earlier(records: RecordStore) -> None:
    """Another archiver has read what the failover took back after what was said in its place."""
    records.keep(second_end())
    records.keep(first_end())
    texts = [one["text"] for one in read_record(records, "CA1").thread]
    assert texts.index("old words") < texts.index("my leg is trapped")


def test_what_was_heard_of_a_reply_does_not_say_it_twice(records: RecordStore) -> None:
    call = complete("CA1")
    records.keep(call)
    caller, reply = call.thread
    heard = {**reply, "heard": "Help is"}
    assert records.keep(replace(call, thread=(caller, heard))) is KeepResult.SUPPLEMENTED
    assert read_record(records, "CA1").thread == (caller, heard)


def test_it_is_found_by_its_last_end_and_its_times_are_of_that(records: RecordStore) -> None:
    records.keep(first_end())
    first = read_record(records, "CA1").as_dict()["kept_at"]
    records.keep(second_end())
    records.keep(complete("CA2"))
    (row,) = list_records(records, RecordQuery(outcome="resolved"))
    assert (row.call_sid, row.ended_at) == ("CA1", BEGAN_MS + MINUTE_MS)
    assert [one.call_sid for one in list_records(records, RecordQuery(outcome="hung_up"))] == [
        "CA2"
    ]
    assert [one.row.call_sid for one in read_records(records, RecordQuery())] == ["CA1", "CA2"]
    found = read_record(records, "CA1")
    assert found.timings["duration_ms"] == MINUTE_MS
    assert found.timings["longest_reply_ms"] == 10_000
    assert found.as_dict()["kept_at"] == first


def test_it_is_as_old_as_its_last_end_and_erased_once(records: RecordStore) -> None:
    records.keep(first_end())
    records.keep(second_end())
    assert records.older_than(BEGAN_MS + MINUTE_MS) == []
    assert records.older_than(BEGAN_MS + MINUTE_MS + 1) == ["CA1"]
    records.erase(["CA1"], by="retention", why="old")
    assert records.older_than(BEGAN_MS + 2 * MINUTE_MS) == []
    (row,) = list_records(records, RecordQuery())
    assert (row.erased, row.outcome) == (True, None)
    assert verify(records).holds


def test_a_test_call_counts_as_it_ended_last(records: RecordStore) -> None:
    tried = {"scenario_type": "test_call_automatic"}
    records.keep(first_end(**tried))
    assert records.last_tests() == {"tower-1": BEGAN_MS + 8_000}
    records.keep(second_end(**tried))
    assert records.last_tests() == {"tower-1": BEGAN_MS + MINUTE_MS}
    records.keep(replace(second_end(**tried, outcome="abandoned"), through="10-0 "))
    assert records.last_tests() == {}


def test_a_supplement_that_changes_nothing_else_is_found_by_nothing(records: RecordStore) -> None:
    call = complete("CA1")
    records.keep(call)
    records.keep(replace(call, views=(("5-0", {"what": "read", "by": "ana", "at": "2"}),)))
    (row,) = list_records(records, RecordQuery())
    assert (row.position, verify(records).rows) == (1, 2)
