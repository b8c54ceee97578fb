"""Facts that people record: beside those of the caller, in nobody's way, and never anonymous."""

from __future__ import annotations

import pytest

from callflow.call.facts import HUMAN_FACTS, InvalidFact, known, parsed
from callflow.errors import CallEnded, UnknownCall
from callflow.store.result import Claimed, Result
from tests.parts import SID, Parts


def test_a_recorded_fact_stands_in_the_record_and_who_did_it_in_the_journal(parts: Parts) -> None:
    parts.store.open(SID, facts={"lift": "Lift 4"})
    assert parts.store.staff.record_fact(SID, "dispatch.requested", True, "ana")
    assert parts.store.staff.record_fact(SID, "eta_minutes", 25, "ana")
    record = parts.record()
    assert record.recorded == {"dispatch.requested": True, "eta_minutes": 25}
    assert known(record) == {"lift": "Lift 4", "dispatch.requested": True, "eta_minutes": 25}
    noted = [(e.event, e.fact, e.by) for e in parts.journal() if e.fact]
    assert noted == [
        ("recorded", "dispatch.requested", "ana"),
        ("recorded", "eta_minutes", "ana"),
    ]


def test_twice_is_once_and_a_fact_can_be_changed_and_taken_back(parts: Parts) -> None:
    parts.store.open(SID)
    note = parts.store.staff.record_fact
    assert note(SID, "eta_minutes", 25, "ana")
    assert not note(SID, "eta_minutes", 25, "bo")
    assert note(SID, "eta_minutes", 40, "bo")
    assert note(SID, "eta_minutes", None, "bo")
    assert not note(SID, "eta_minutes", None, "bo")
    assert parts.record().recorded == {}
    assert parts.events().count("recorded") == 2
    assert parts.events().count("withdrawn") == 1


def test_a_worker_in_the_middle_of_a_turn_does_not_overwrite_it(parts: Parts) -> None:
    parts.store.open(SID)
    parts.store.record_utterance(SID, 1, "three of us")
    claimed = parts.store.claim(SID, "w", "c1")
    assert isinstance(claimed, Claimed)
    parts.store.staff.record_fact(SID, "dispatch.requested", True, "ana")
    understood = claimed.record.model_copy(update={"understood": 1, "facts": {"people": 3}})
    parts.store.save_analysis(claimed.lease, understood)
    committed = parts.store.commit(claimed.lease, 1, "Three.", facts={"people": 3, "inside": True})
    assert committed.result is Result.OK
    record = parts.record()
    assert record.facts == {"people": 3, "inside": True}
    assert record.recorded == {"dispatch.requested": True}


def test_nothing_is_recorded_of_a_call_that_is_over_or_unknown(parts: Parts) -> None:
    with pytest.raises(UnknownCall):
        parts.store.staff.record_fact(SID, "eta_minutes", 25, "ana")
    parts.store.open(SID)
    parts.store.end(SID, "hung_up")
    with pytest.raises(CallEnded):
        parts.store.staff.record_fact(SID, "eta_minutes", 25, "ana")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("people", "3"),
        ("dispatch", "yes"),
        ("dispatch.requested", "maybe"),
        ("eta_minutes", "soon"),
        ("eta_minutes", "0"),
        ("eta_minutes", "-5"),
        ("eta_minutes", "2.5"),
        ("eta_minutes", "1441"),
    ],
)
def test_what_people_cannot_record_is_refused_with_the_rule(name: str, text: str) -> None:
    with pytest.raises(InvalidFact, match=name):
        parsed(name, text)


def test_every_fact_that_people_record_can_be_written() -> None:
    for name, kind in HUMAN_FACTS.items():
        assert parsed(name, " Yes " if kind == "flag" else "20") in (True, 20)
