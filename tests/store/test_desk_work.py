"""What people do in a call: once for each request; the second of two is told; nothing by halves."""

from __future__ import annotations

import pytest

from callflow.call import edits, ladder
from callflow.call.disposition import Disposition, MaybeTrapped
from callflow.call.edits import BadSeen, ReasonMissing, StaleEdit, WithHuman
from callflow.call.record import CallRecord
from callflow.call.state import CallState
from callflow.errors import CallEnded, UnknownCall
from callflow.store.keys import call_keys
from callflow.store.result import Claimed, Result
from callflow.store.staff_actions import MOST_NOTE_CHARS, BadRequestName, BadWords
from tests.parts import SID, Parts

WORDS = "An engineer is at the door / “now”."


def seen(parts: Parts, thing: str) -> int:
    """What somebody sees who looks at this moment."""
    return edits.seen_count(edits.version_token(parts.record().acts), thing)


def by_lines(parts: Parts) -> list[tuple[str, str | None]]:
    return [(line.event, line.by) for line in parts.journal() if line.by]


def test_a_note_is_kept_with_who_wrote_it_and_its_words_are_not_in_the_journal(
    parts: Parts,
) -> None:
    parts.store.open(SID)
    assert parts.store.staff.add_note(SID, WORDS, "ana", request="r1")
    (note,) = parts.record().notes
    assert (note.by, note.text) == ("ana", WORDS)
    assert ("noted", "ana") in by_lines(parts)
    assert WORDS not in str(parts.client.xrange(call_keys(SID).journal))


def test_the_same_request_again_is_done_once(parts: Parts) -> None:
    parts.store.open(SID)
    work, sayings = parts.store.staff, parts.store.staff
    for first in (True, False):
        assert work.add_note(SID, "one", "ana", request="r1") is first
        assert sayings.say(SID, "two", "ana", request="r2", seen=0) is first
        assert work.set_urgency(SID, "P5", "ana", request="r3", seen=0)[0] is first
        assert work.take_over(SID, "ana", "+441632960777", request="r4", seen=0)[0] is first
    record = parts.record()
    assert (len(record.notes), len(record.sayings)) == (1, 1)
    assert {thing: act.n for thing, act in record.acts.items()} == {
        "say": 1,
        "urgency": 1,
        "call": 1,
    }
    for first in (True, False):
        done = work.end(parts.record, SID, Disposition.TEST, "ana", request="r5")
        assert done is first
    assert parts.events().count("ended") == 1


def test_the_second_of_two_people_is_told_who_was_first_and_changes_nothing(parts: Parts) -> None:
    parts.store.open(SID)
    work, sayings = parts.store.staff, parts.store.staff
    looked = seen(parts, edits.URGENCY)
    work.set_urgency(SID, "P1", "ana", request="a", seen=looked, now_ms=1_000)
    with pytest.raises(StaleEdit, match="ana set the urgency") as told:
        work.set_urgency(SID, "P4", "bo", request="b", reason="quiet", seen=looked)
    assert (told.value.by, told.value.at) == ("ana", 1_000)
    assert parts.record().urgency == "P1"
    work.set_urgency(SID, "P2", "bo", request="b", seen=seen(parts, edits.URGENCY))

    sayings.say(SID, "one", "ana", request="c", seen=0)
    with pytest.raises(StaleEdit, match="ana had something said"):
        sayings.say(SID, "two", "bo", request="d", seen=0)
    work.take_over(SID, "ana", None, request="e", seen=0)
    with pytest.raises(StaleEdit, match="ana took the call over"):
        work.take_over(SID, "bo", None, request="f", seen=0)
    with pytest.raises(StaleEdit):
        work.end(parts.record, SID, Disposition.TEST, "bo", request="g", seen=0, confirmed=True)
    parts.store.staff.record_fact(SID, "eta_minutes", 20, "ana", seen=0, request="h")
    with pytest.raises(StaleEdit, match="ana recorded eta_minutes"):
        parts.store.staff.record_fact(SID, "eta_minutes", 5, "bo", seen=0, request="i")
    assert not parts.store.staff.record_fact(SID, "eta_minutes", 20, "bo", seen=0, request="j")
    record = parts.record()
    assert record.recorded == {"eta_minutes": 20}
    assert [saying.text for saying in record.sayings] == ["one"]
    assert record.alert is not None
    assert record.alert.asked_by == "ana"
    assert record.outcome is None


def test_who_has_seen_what_the_first_did_may_do_theirs(parts: Parts) -> None:
    parts.store.open(SID)
    parts.store.staff.take_over(SID, "ana", None, request="a", seen=0)
    parts.store.staff.take_over(SID, "bo", None, request="b", seen=seen(parts, edits.CALL))
    alert = parts.record().alert
    assert alert is not None
    assert alert.asked_by == "bo"


def test_an_ended_or_unknown_call_is_not_acted_on(parts: Parts) -> None:
    work, sayings = parts.store.staff, parts.store.staff

    def everything() -> list[type[BaseException]]:
        raised: list[type[BaseException]] = []
        for act in (
            lambda: work.add_note(SID, "one", "ana", request="r1"),
            lambda: sayings.say(SID, "two", "ana", request="r2"),
            lambda: work.set_urgency(SID, "P2", "ana", request="r3"),
            lambda: work.take_over(SID, "ana", None, request="r4"),
            lambda: work.end(
                parts.record, SID, Disposition.TEST, "ana", request="r5", confirmed=True
            ),
        ):
            with pytest.raises((UnknownCall, CallEnded)) as error:
                act()
            raised.append(error.type)
        return raised

    assert set(everything()) == {UnknownCall}
    parts.store.open(SID)
    parts.store.end(SID, "hung_up")
    before = parts.record()
    assert set(everything()) == {CallEnded}
    assert parts.record() == before
    assert sayings.take_phrases(SID, "t") == ()


@pytest.mark.parametrize("request_name", ["", "a b", "x" * 65, "ä", "a\n"])
def test_a_request_has_a_name_that_can_be_stored(parts: Parts, request_name: str) -> None:
    parts.store.open(SID)
    with pytest.raises(BadRequestName):
        parts.store.staff.add_note(SID, "one", "ana", request=request_name)


@pytest.mark.parametrize("words", ["", "  \n", "x" * (MOST_NOTE_CHARS + 1)])
def test_no_words_are_no_note(parts: Parts, words: str) -> None:
    parts.store.open(SID)
    with pytest.raises(BadWords):
        parts.store.staff.add_note(SID, words, "ana", request="r")
    assert parts.record().notes == ()


def test_what_was_seen_must_be_ours() -> None:
    assert edits.seen_count("call=2 fact:eta_minutes=11", "fact:eta_minutes") == 11
    assert edits.seen_count("", "call") == 0
    for given in ("call", "call=x", "call=-1", "call=" + "9" * 10):
        with pytest.raises(BadSeen):
            edits.seen_count(given, "call")


def heard_as(parts: Parts, urgency: str | None, claim: str, turn: int) -> CallRecord:
    """A worker has understood the next utterance so."""
    parts.store.record_utterance(SID, turn, "words")
    claimed = parts.store.claim(SID, "w", claim)
    assert isinstance(claimed, Claimed)
    understood = claimed.record.model_copy(update={"understood": turn, "urgency": urgency})
    for _ in range(2):
        assert parts.store.save_analysis(claimed.lease, understood).result is Result.OK
    parts.store.commit(claimed.lease, turn, "Yes.")
    return parts.record()


def test_a_persons_urgency_stands_until_something_graver_is_heard(parts: Parts) -> None:
    parts.store.open(SID)
    assert heard_as(parts, "P3", "c1", 1).urgency == "P3"
    with pytest.raises(ReasonMissing, match="P3"):
        parts.store.staff.set_urgency(SID, "P4", "ana", request="a")
    parts.store.staff.set_urgency(SID, "P4", "ana", request="a", reason="they are out")
    assert heard_as(parts, "P3", "c2", 2).urgency == "P4"
    record = heard_as(parts, "P1", "c3", 3)
    assert (record.urgency, record.urgency_heard) == ("P1", "P1")
    assert heard_as(parts, "P4", "c4", 4).urgency == "P4"
    with pytest.raises(ReasonMissing):
        parts.store.staff.set_urgency(SID, "P5", "ana", request="b")
    parts.store.staff.set_urgency(SID, "P1", "bo", request="c")
    record = heard_as(parts, "P5", "c5", 5)
    assert (record.urgency, record.urgency_heard) == ("P1", "P5")
    assert record.urgency_set is not None
    assert (record.urgency_set.by, record.urgency_set.over) == ("bo", "P4")


def test_what_nobody_has_heard_yet_is_graver_than_a_persons_guess(parts: Parts) -> None:
    parts.store.open(SID)
    parts.store.staff.set_urgency(SID, "P5", "ana", request="a")
    assert heard_as(parts, "P3", "c1", 1).urgency == "P3"


def test_a_call_in_which_somebody_may_be_trapped_is_ended_only_on_confirmation(
    parts: Parts,
) -> None:
    parts.store.open(SID)
    heard_as(parts, "P3", "c1", 1)

    def end(confirmed: bool = False) -> bool:
        return parts.store.staff.end(
            parts.record, SID, Disposition.RELEASED, "ana", request="r", confirmed=confirmed
        )

    with pytest.raises(MaybeTrapped):
        end()
    parts.store.staff.set_urgency(SID, "P5", "ana", request="u", reason="a guess")
    with pytest.raises(MaybeTrapped):
        end()
    assert parts.record().outcome is None
    parts.store.staff.record_fact(SID, "release.confirmed", True, "ana")
    assert end()
    record = parts.record()
    assert (record.call_state, record.outcome) == (CallState.COMPLETE, "released")
    assert record.disposition is not None
    assert (record.disposition.what, record.disposition.by) == ("released", "ana")
    assert ("disposed", "ana") in by_lines(parts)
    assert parts.client.pttl(call_keys(SID).call) > 0


def test_a_caller_who_says_that_they_are_trapped_meanwhile_is_not_hung_up_on(parts: Parts) -> None:
    """The record changes between the look and the end."""
    parts.store.open(SID)
    looks = 0

    def read(call_sid: str) -> CallRecord:
        nonlocal looks
        looks += 1
        record = parts.record(call_sid)
        if looks == 1:
            parts.store.record_utterance(SID, 1, "we are stuck", now_ms=record.updated_at + 5)
        return record

    with pytest.raises(MaybeTrapped):
        parts.store.staff.end(read, SID, Disposition.TEST, "ana", request="r")
    assert looks == 2
    assert parts.record().outcome is None
    assert parts.store.staff.end(read, SID, Disposition.TEST, "ana", request="r", confirmed=True)


def test_where_a_human_is_on_the_line_nobody_takes_the_call_or_has_something_said(
    parts: Parts,
) -> None:
    parts.store.open(SID, alert="assist")
    rung = ladder.ringing(ladder.fresh("assist"), "r", "Control")
    parts.store.handovers.accept(SID, ladder.accepted(rung, "CAhuman"))
    with pytest.raises(WithHuman, match="is with Control"):
        parts.store.staff.take_over(SID, "ana", None, request="a")
    with pytest.raises(WithHuman):
        parts.store.staff.say(SID, "one", "ana", request="b")
    assert parts.record().handling == "human"
    assert ("accepted", "Control") in by_lines(parts)


def test_who_takes_a_call_over_is_rung_before_the_site(parts: Parts) -> None:
    parts.store.open(SID, alert="assist")
    done, before = parts.store.staff.take_over(SID, "ana", "+441632960777", request="a")
    assert done
    assert before == ladder.fresh("assist")
    record = parts.record()
    assert record.alert == ladder.wanted_by("ana", "+441632960777")
    assert record.handling == "agent", "the agent talks on until somebody has picked up"
    assert SID in parts.client.zrange(call_keys(SID).shard.rings, 0, -1)
