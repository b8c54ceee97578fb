"""Phrases of people: each is given to whoever speaks with the caller until it was heard."""

from __future__ import annotations

import pytest

from callflow.call import ladder
from callflow.call.edits import TooMuch
from callflow.store.keys import call_keys
from callflow.store.staff_actions import FETCHED_MS, MOST_WAITING
from tests.parts import SID, Parts

WORDS = "An engineer is at the door / “now”."


def test_a_phrase_is_given_to_one_teller_and_stands_in_the_thread_once(parts: Parts) -> None:
    parts.store.open(SID, greeting="Hello.")
    sayings = parts.store.staff
    sayings.say(SID, WORDS, "ana", request="p1")
    (given,) = sayings.take_phrases(SID, "socket")
    assert (given.id, given.text, given.by) == ("p1", WORDS, "ana")
    assert sayings.take_phrases(SID, "socket") == (given,), "its answer may have been lost"
    sayings.mark_heard(SID, ["p1"], left_ms=5_000)
    assert sayings.take_phrases(SID, "socket") == ()
    entry = parts.record().conversation_thread[-1]
    assert (entry.role, entry.text, entry.by) == ("human", WORDS, "ana")
    assert len(parts.record().conversation_thread) == 2
    assert parts.events().count("said") == 1
    assert WORDS not in str(parts.client.xrange(call_keys(SID).journal))


def test_a_phrase_whose_teller_died_is_given_to_the_next_until_it_was_heard(parts: Parts) -> None:
    parts.store.open(SID)
    sayings = parts.store.staff
    sayings.say(SID, "Help is here.", "ana", request="p1", now_ms=1_000)
    assert sayings.take_phrases(SID, "one", now_ms=1_000)
    assert sayings.take_phrases(SID, "two", now_ms=1_500), "nobody knows that it was sent"
    sayings.mark_heard(SID, ["p1"], left_ms=2_000, now_ms=1_500)
    assert sayings.take_phrases(SID, "three", now_ms=3_000), "it broke off"
    sayings.mark_heard(SID, ["p1"], left_ms=2_000, now_ms=3_000)
    assert sayings.take_phrases(SID, "four", now_ms=5_000) == (), "it was heard"
    assert parts.record().sayings == ()
    assert len(parts.record().conversation_thread) == 1


def test_a_phrase_that_was_heard_is_said_no_more(parts: Parts) -> None:
    parts.store.open(SID)
    sayings = parts.store.staff
    sayings.say(SID, "{one}", "ana", request="p1")
    sayings.say(SID, '"two"', "bo", request="p2")
    assert [one.text for one in sayings.take_phrases(SID, "t")] == ["{one}", '"two"']
    sayings.mark_heard(SID, ["p1"])
    sayings.mark_heard(SID, ["p1"])
    assert [one.text for one in parts.record().sayings] == ['"two"']
    assert [one.text for one in sayings.take_phrases(SID, "other")] == ['"two"']


def test_a_phrase_is_left_to_the_line_that_was_fetched_for_it(parts: Parts) -> None:
    parts.store.open(SID)
    sayings = parts.store.staff
    assert not sayings.claim_fetch(SID)
    sayings.say(SID, "Help is here.", "ana", request="p1")
    assert sayings.claim_fetch(SID, now_ms=1_000)
    assert not sayings.claim_fetch(SID, now_ms=1_001), "two processes fetch it once"
    assert sayings.take_phrases(SID, "turn", now_ms=1_002) == ()
    assert sayings.take_phrases(SID, "join", fetched=True, now_ms=1_003)
    assert not sayings.claim_fetch(SID, now_ms=90_000), "somebody has it"


def test_a_line_that_never_came_is_not_waited_for(parts: Parts) -> None:
    parts.store.open(SID)
    sayings = parts.store.staff
    sayings.say(SID, "Help is here.", "ana", request="p1")
    assert sayings.claim_fetch(SID, now_ms=1_000)
    assert sayings.take_phrases(SID, "turn", now_ms=1_000 + FETCHED_MS)


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
