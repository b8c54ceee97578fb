"""What staff do in a call: once for each request; the second of two is told; nothing by halves."""

from __future__ import annotations

import pytest

from callflow.call import edits, ladder
from callflow.call.edits import (
    BadSeen,
    Disposition,
    MaybeTrapped,
    ReasonMissing,
    StaleEdit,
    TooMuch,
    WithHuman,
)
from callflow.call.facts import HUMAN_FACTS, InvalidFact, known, parsed
from callflow.call.record import CallRecord
from callflow.call.state import CallState
from callflow.call.urgency import Urgency, gravest
from callflow.errors import CallEnded, UnknownCall
from callflow.store.keys import call_keys
from callflow.store.result import Claimed, Result
from callflow.store.staff_actions import (
    FETCHED_MS,
    MOST_NOTE_CHARS,
    MOST_NOTES,
    MOST_REASON_CHARS,
    MOST_WAITING,
    BadRequestName,
    BadWords,
)
from callflow.understand import Understanding
from tests.engines import lexical
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
    staff = parts.store.staff
    for first in (True, False):
        assert staff.add_note(SID, "one", "ana", request="r1") is first
        assert staff.say(SID, "two", "ana", request="r2", seen=0) is first
        assert staff.set_urgency(SID, "P5", "ana", request="r3", seen=0)[0] is first
        assert staff.take_over(SID, "ana", "+441632960777", request="r4", seen=0)[0] is first
    record = parts.record()
    assert (len(record.notes), len(record.sayings)) == (1, 1)
    assert {thing: act.n for thing, act in record.acts.items()} == {
        "say": 1,
        "urgency": 1,
        "call": 1,
    }
    for first in (True, False):
        done = staff.end(parts.record, SID, Disposition.TEST, "ana", request="r5")
        assert done is first
    assert parts.events().count("ended") == 1


def test_the_second_of_two_people_is_told_who_was_first_and_changes_nothing(parts: Parts) -> None:
    parts.store.open(SID)
    staff = parts.store.staff
    looked = seen(parts, edits.URGENCY)
    staff.set_urgency(SID, "P1", "ana", request="a", seen=looked, now_ms=1_000)
    with pytest.raises(StaleEdit, match="ana set the urgency") as told:
        staff.set_urgency(SID, "P4", "bo", request="b", reason="quiet", seen=looked)
    assert (told.value.by, told.value.at) == ("ana", 1_000)
    assert parts.record().urgency == "P1"
    staff.set_urgency(SID, "P2", "bo", request="b", seen=seen(parts, edits.URGENCY))

    staff.say(SID, "one", "ana", request="c", seen=0)
    with pytest.raises(StaleEdit, match="ana had something said"):
        staff.say(SID, "two", "bo", request="d", seen=0)
    staff.take_over(SID, "ana", None, request="e", seen=0)
    with pytest.raises(StaleEdit, match="ana took the call over"):
        staff.take_over(SID, "bo", None, request="f", seen=0)
    with pytest.raises(StaleEdit):
        staff.end(parts.record, SID, Disposition.TEST, "bo", request="g", seen=0, confirmed=True)
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
    staff = parts.store.staff

    def everything() -> list[type[BaseException]]:
        raised: list[type[BaseException]] = []
        for act in (
            lambda: staff.add_note(SID, "one", "ana", request="r1"),
            lambda: staff.say(SID, "two", "ana", request="r2"),
            lambda: staff.set_urgency(SID, "P2", "ana", request="r3"),
            lambda: staff.take_over(SID, "ana", None, request="r4"),
            lambda: staff.end(
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
    assert staff.take_phrases(SID, "t") == ()


def test_a_request_has_a_name_that_can_be_stored_and_a_note_words(parts: Parts) -> None:
    parts.store.open(SID)
    for name in ("", "a b", "x" * 65, "ä", "a\n"):
        with pytest.raises(BadRequestName):
            parts.store.staff.add_note(SID, "one", "ana", request=name)
    for words in ("", "  \n", "x" * (MOST_NOTE_CHARS + 1)):
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
    record = parts.store.staff.record_fact
    assert record(SID, "eta_minutes", 25, "ana")
    assert not record(SID, "eta_minutes", 25, "bo")
    assert record(SID, "eta_minutes", 40, "bo")
    assert record(SID, "eta_minutes", None, "bo")
    assert not record(SID, "eta_minutes", None, "bo")
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


def test_what_people_cannot_record_is_refused_with_the_rule() -> None:
    wrong = ("people=3", "dispatch=yes", "dispatch.requested=maybe", "eta_minutes=soon")
    for given in (*wrong, *(f"eta_minutes={text}" for text in ("0", "-5", "2.5", "1441"))):
        name, _, text = given.partition("=")
        with pytest.raises(InvalidFact, match=name):
            parsed(name, text)


def test_every_fact_that_people_record_can_be_written() -> None:
    for name, kind in HUMAN_FACTS.items():
        assert parsed(name, " Yes " if kind == "flag" else "20") in (True, 20)


def test_a_phrase_is_given_to_one_teller_and_stands_in_the_thread_once(parts: Parts) -> None:
    parts.store.open(SID, greeting="Hello.")
    staff = parts.store.staff
    staff.say(SID, WORDS, "ana", request="p1")
    (given,) = staff.take_phrases(SID, "socket")
    assert (given.id, given.text, given.by) == ("p1", WORDS, "ana")
    assert staff.take_phrases(SID, "socket") == (given,), "its answer may have been lost"
    staff.mark_heard(SID, ["p1"], left_ms=5_000)
    assert staff.take_phrases(SID, "socket") == ()
    entry = parts.record().conversation_thread[-1]
    assert (entry.role, entry.text, entry.by) == ("human", WORDS, "ana")
    assert len(parts.record().conversation_thread) == 2
    assert parts.events().count("said") == 1
    assert WORDS not in str(parts.client.xrange(call_keys(SID).journal))


def test_a_phrase_whose_teller_died_is_given_to_the_next_until_it_was_heard(parts: Parts) -> None:
    parts.store.open(SID)
    staff = parts.store.staff
    staff.say(SID, "Help is here.", "ana", request="p1", now_ms=1_000)
    assert staff.take_phrases(SID, "one", now_ms=1_000)
    assert staff.take_phrases(SID, "two", now_ms=1_500), "nobody knows that it was sent"
    staff.mark_heard(SID, ["p1"], left_ms=2_000, now_ms=1_500)
    assert staff.take_phrases(SID, "three", now_ms=3_000), "it broke off"
    staff.mark_heard(SID, ["p1"], left_ms=2_000, now_ms=3_000)
    assert staff.take_phrases(SID, "four", now_ms=5_000) == (), "it was heard"
    assert parts.record().sayings == ()
    assert len(parts.record().conversation_thread) == 1


def test_a_phrase_that_was_heard_is_said_no_more(parts: Parts) -> None:
    parts.store.open(SID)
    staff = parts.store.staff
    staff.say(SID, "{one}", "ana", request="p1")
    staff.say(SID, '"two"', "bo", request="p2")
    assert [one.text for one in staff.take_phrases(SID, "t")] == ["{one}", '"two"']
    staff.mark_heard(SID, ["p1"])
    staff.mark_heard(SID, ["p1"])
    assert [one.text for one in parts.record().sayings] == ['"two"']
    assert [one.text for one in staff.take_phrases(SID, "other")] == ['"two"']


def test_a_phrase_is_left_to_the_line_that_was_fetched_for_it(parts: Parts) -> None:
    parts.store.open(SID)
    staff = parts.store.staff
    assert not staff.claim_fetch(SID)
    staff.say(SID, "Help is here.", "ana", request="p1")
    assert staff.claim_fetch(SID, now_ms=1_000)
    assert not staff.claim_fetch(SID, now_ms=1_001), "two processes fetch it once"
    assert staff.take_phrases(SID, "turn", now_ms=1_002) == ()
    assert staff.take_phrases(SID, "join", fetched=True, now_ms=1_003)
    assert not staff.claim_fetch(SID, now_ms=90_000), "somebody has it"


def test_a_line_that_never_came_is_not_waited_for(parts: Parts) -> None:
    parts.store.open(SID)
    staff = parts.store.staff
    staff.say(SID, "Help is here.", "ana", request="p1")
    assert staff.claim_fetch(SID, now_ms=1_000)
    assert staff.take_phrases(SID, "turn", now_ms=1_000 + FETCHED_MS)


def test_more_phrases_than_a_caller_can_hear_are_refused(parts: Parts) -> None:
    parts.store.open(SID)
    for number in range(MOST_WAITING):
        parts.store.staff.say(SID, "one more", "ana", request=f"p{number}")
    with pytest.raises(TooMuch):
        parts.store.staff.say(SID, "one more", "ana", request="p")
    assert len(parts.record().sayings) == MOST_WAITING


def test_a_phrase_that_waits_when_a_human_comes_is_not_said(parts: Parts) -> None:
    parts.store.open(SID)
    parts.store.staff.say(SID, "one", "ana", request="b")
    parts.store.handovers.accept(SID, ladder.accepted(ladder.fresh("asked"), "CAhuman"))
    assert parts.store.staff.take_phrases(SID, "t") == ()


def test_whoever_stores_a_turn_is_told_whether_a_phrase_waits(parts: Parts) -> None:
    parts.store.open(SID)
    assert not parts.store.record_utterance(SID, 1, "stuck").phrases
    parts.store.staff.say(SID, "Help is here.", "ana", request="p1")
    assert parts.store.record_utterance(SID, 2, "hello").phrases
    assert parts.store.record_utterance(SID, 2, "hello").phrases, (
        "it is not known of a turn that was stored"
    )
    parts.store.staff.take_phrases(SID, "t")
    parts.store.staff.mark_heard(SID, ["p1"])
    assert not parts.store.record_utterance(SID, 3, "hello?").phrases


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
    staff = parts.store.staff
    fire: dict[str, Urgency] = {"fire_smoke": "P1", "danger:smoke": "P1"}
    grounded(parts, 1, **fire)
    staff.set_urgency(SID, "P4", "ana", request="a", reason='toast, "known":{}} 100%')
    assert grounded(parts, 2, **fire).urgency == "P4"
    assert grounded(parts, 3, **fire, test_call="P5").urgency == "P4"
    assert grounded(parts, 4, **fire, entrapment="P3").urgency == "P3"
    record = grounded(parts, 5, medical="P1", **fire)
    assert (record.urgency, record.urgency_heard) == ("P1", "P1")
    assert grounded(parts, 6, medical="P1", **fire).urgency == "P1"
    staff.set_urgency(SID, "P4", "bo", request="b", reason="he only slept")
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
    staff = parts.store.staff
    for _ in range(2):
        staff.set_urgency(SID, "P4", "ana", request="a", reason="toast")
    staff.set_urgency(SID, "P1", "bo", request="b")
    with pytest.raises(BadWords, match="reason"):
        staff.set_urgency(SID, "P4", "bo", request="c", reason="x" * (MOST_REASON_CHARS + 1))
    assert parts.record().urgency == "P1"
    staff.set_urgency(SID, "P3", "bo", request="c", reason="x" * MOST_REASON_CHARS)
    kept = [(one.by, one.urgency, one.text) for one in parts.record().notes]
    assert kept == [("ana", "P4", "toast"), ("bo", "P3", "x" * MOST_REASON_CHARS)]
    assert "toast" not in str(parts.client.xrange(call_keys(SID).journal))


def test_a_call_that_is_full_of_notes_takes_no_reason(parts: Parts) -> None:
    parts.store.open(SID)
    grounded(parts, 1, fire_smoke="P1")
    staff = parts.store.staff
    for number in range(MOST_NOTES):
        staff.add_note(SID, "one more", "ana", request=f"n{number}")
    with pytest.raises(TooMuch):
        staff.set_urgency(SID, "P4", "ana", request="a", reason="toast")
    assert parts.record().urgency == "P1"
    staff.set_urgency(SID, "P1", "ana", request="b")


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
