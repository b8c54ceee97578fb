"""A person's word on how urgent a call is: what stands against it, and what is kept of it."""

from __future__ import annotations

import pytest

from callflow.call.disposition import Disposition, MaybeTrapped
from callflow.call.edits import TooMuch
from callflow.call.record import CallRecord
from callflow.call.urgency import Urgency, gravest
from callflow.store.keys import call_keys
from callflow.store.result import Claimed, Result
from callflow.store.staff_actions import MOST_NOTES, MOST_REASON_CHARS, BadWords
from callflow.understand import Understanding
from tests.engines import lexical
from tests.parts import SID, Parts


def grounded(parts: Parts, turn: int, **grounds: Urgency) -> CallRecord:
    """A worker has understood the next utterance, and this speaks for an urgency by then."""
    parts.store.record_utterance(SID, turn, "words")
    claimed = parts.store.claim(SID, "w", f"c{turn}")
    assert isinstance(claimed, Claimed)
    understood = claimed.record.model_copy(
        update={"understood": turn, "urgency": gravest(*grounds.values()), "grounds": grounds}
    )
    for _ in range(2):
        assert parts.store.save_analysis(claimed.lease, understood).result is Result.OK
    parts.store.commit(claimed.lease, turn, "Yes.")
    return parts.record()


def test_a_danger_that_the_person_did_not_know_of_raises_the_call_again(parts: Parts) -> None:
    parts.store.open(SID)
    work = parts.store.staff
    fire: dict[str, Urgency] = {"fire_smoke": "P1", "danger:smoke": "P1"}
    grounded(parts, 1, **fire)
    work.set_urgency(SID, "P4", "ana", request="a", reason='toast, "known":{}} 100%')
    assert grounded(parts, 2, **fire).urgency == "P4"
    assert grounded(parts, 3, **fire, test_call="P5").urgency == "P4"
    assert grounded(parts, 4, **fire, entrapment="P3").urgency == "P3"
    record = grounded(parts, 5, medical="P1", **fire)
    assert (record.urgency, record.urgency_heard) == ("P1", "P1")
    assert grounded(parts, 6, medical="P1", **fire).urgency == "P1"
    work.set_urgency(SID, "P4", "bo", request="b", reason="he only slept")
    assert grounded(parts, 7, medical="P1", **fire).urgency == "P4"
    assert grounded(parts, 8, **{**fire, "danger:fire": "P1"}, medical="P1").urgency == "P1"


def test_what_has_applied_no_more_is_news_when_it_is_heard_again(parts: Parts) -> None:
    parts.store.open(SID)
    grounded(parts, 1, entrapment="P3")
    parts.store.staff.set_urgency(SID, "P5", "ana", request="a", reason='they are "out" 100%')
    assert grounded(parts, 2, self_released="P5").urgency == "P5"
    record = grounded(parts, 3, entrapment="P3")
    assert record.urgency == "P3"
    assert record.urgency_set is not None
    assert (record.urgency_set.reason, record.urgency_set.known) == ('they are "out" 100%', {})


def test_every_reason_stays_with_the_call_and_none_is_cut(parts: Parts) -> None:
    parts.store.open(SID)
    grounded(parts, 1, fire_smoke="P1")
    work = parts.store.staff
    for _ in range(2):
        work.set_urgency(SID, "P4", "ana", request="a", reason="toast")
    work.set_urgency(SID, "P1", "bo", request="b")
    with pytest.raises(BadWords, match="reason"):
        work.set_urgency(SID, "P4", "bo", request="c", reason="x" * (MOST_REASON_CHARS + 1))
    assert parts.record().urgency == "P1"
    work.set_urgency(SID, "P3", "bo", request="c", reason="x" * MOST_REASON_CHARS)
    kept = [(one.by, one.urgency, one.text) for one in parts.record().notes]
    assert kept == [("ana", "P4", "toast"), ("bo", "P3", "x" * MOST_REASON_CHARS)]
    assert "toast" not in str(parts.client.xrange(call_keys(SID).journal))


def test_a_call_that_is_full_of_notes_takes_no_reason(parts: Parts) -> None:
    parts.store.open(SID)
    grounded(parts, 1, fire_smoke="P1")
    work = parts.store.staff
    for number in range(MOST_NOTES):
        work.add_note(SID, "one more", "ana", request=f"n{number}")
    with pytest.raises(TooMuch):
        work.set_urgency(SID, "P4", "ana", request="a", reason="toast")
    assert parts.record().urgency == "P1"
    work.set_urgency(SID, "P1", "ana", request="b")


def listened(parts: Parts, *utterances: str) -> CallRecord:
    """A worker has understood and answered each of these."""
    understanding = Understanding(lexical)
    for words in utterances:
        turn = parts.record().heard + 1
        parts.store.record_utterance(SID, turn, words)
        claimed = parts.store.claim(SID, "w", f"c{turn}")
        assert isinstance(claimed, Claimed)
        found = understanding.analyse(claimed.record).applied_to(claimed.record)
        parts.store.save_analysis(claimed.lease, found)
        parts.store.commit(claimed.lease, turn, "Yes.")
    return parts.record()


def test_words_of_another_danger_raise_a_call_that_a_person_has_made_less_of(parts: Parts) -> None:
    parts.store.open(SID)
    assert listened(parts, "There is smoke and fire").urgency == "P1"
    parts.store.staff.set_urgency(SID, "P4", "ana", request="a", reason="toast")
    assert listened(parts, "there is smoke", "").urgency == "P4"
    record = listened(parts, "now my father has chest pain and he is not breathing")
    assert (record.urgency, record.scenario_type) == ("P1", "medical")
    assert listened(parts, "", "okay").urgency == "P1"


def test_what_was_heard_guards_the_end_however_long_the_caller_is_silent(parts: Parts) -> None:
    parts.store.open(SID)
    listened(parts, "There is smoke and fire")
    parts.store.staff.set_urgency(SID, "P4", "ana", request="u", reason="toast")
    record = listened(parts, "", "")
    assert (record.urgency, record.urgency_heard) == ("P4", "P1")
    with pytest.raises(MaybeTrapped, match="P1"):
        parts.store.staff.end(parts.record, SID, Disposition.RESOLVED, "ana", request="e")
