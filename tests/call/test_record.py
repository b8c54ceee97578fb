"""The record: what a newer release adds does no harm, an error never shows what was said, and the
words that people read are derived from it alone."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError

from callflow.call.record import (
    CallRecord,
    Draft,
    ThreadEntry,
    Word,
    last_words,
    waiting_since,
    word,
)
from callflow.call.state import CallState

WHOLE = {
    "call_sid": "CA1",
    "call_state": "pending",
    "created_at": 1,
    "updated_at": 2,
    "heard": 2,
    "answered": 1,
    "conversation_thread": [
        {"role": "caller", "turn": 1, "text": "private words", "at": 1},
        {"role": "agent", "turn": 1, "text": "Hello.", "at": 2},
        {"role": "caller", "turn": 2, "text": "more private words", "at": 2},
    ],
}


def test_a_reply_is_owed_while_more_was_heard_than_answered() -> None:
    record = CallRecord.model_validate_json(json.dumps(WHOLE))
    assert record.owed
    assert record.said(2, "caller") == "more private words"
    assert record.said(2, "agent") is None


def test_fields_of_a_newer_release_are_kept_out() -> None:
    record = CallRecord.model_validate_json(json.dumps({**WHOLE, "mood": "calm"}))
    assert "mood" not in record.model_dump()


def test_an_error_about_a_record_never_shows_what_was_said() -> None:
    thread = [{"role": "caller", "turn": "private words", "text": "private words", "at": 1}]
    with pytest.raises(ValidationError) as refused:
        CallRecord.model_validate_json(json.dumps({**WHOLE, "conversation_thread": thread}))
    assert "private" not in str(refused.value)


CALLER = ThreadEntry(role="caller", turn=1, text="help", at=5)
AGENT = ThreadEntry(role="agent", turn=1, text="I am here", at=9)


def record(state: CallState, **fields: Any) -> CallRecord:
    return CallRecord.model_validate(
        {"call_sid": "CA1", "call_state": state, "created_at": 1, "updated_at": 7, **fields}
    )


def test_every_state_has_a_word() -> None:
    words: tuple[tuple[CallState, dict[str, Any], Word], ...] = (
        (CallState.PENDING, {}, Word.LISTENING),
        (CallState.PENDING, {"heard": 1}, Word.QUEUED),
        (CallState.IN_PROGRESS, {"heard": 1}, Word.ANSWERING),
        (CallState.INCOMPLETE, {"heard": 1}, Word.RECOVERING),
        (CallState.COMPLETE, {}, Word.ENDED),
        (CallState.COMPLETE, {"handling": "human"}, Word.ENDED),
        (CallState.PENDING, {"handling": "human"}, Word.WITH_A_HUMAN),
    )
    for state, fields, expected in words:
        assert word(record(state, **fields)) is expected


def test_a_caller_waits_from_the_first_unanswered_word_on() -> None:
    later = ThreadEntry(role="caller", turn=2, text="hello?", at=30)
    asked = {"heard": 2, "conversation_thread": (CALLER, later)}
    assert waiting_since(record(CallState.INCOMPLETE, **asked)) == CALLER.at
    assert waiting_since(record(CallState.PENDING, **asked, answered=1)) == later.at


def test_nobody_waits_when_all_is_answered_or_the_call_is_over() -> None:
    thread = {"conversation_thread": (CALLER,), "heard": 1}
    assert waiting_since(record(CallState.PENDING, **thread, answered=1)) is None
    assert waiting_since(record(CallState.COMPLETE, **thread)) is None


def test_the_last_words_may_still_be_being_said() -> None:
    assert last_words(record(CallState.PENDING)) is None
    said = {"conversation_thread": (CALLER, AGENT), "heard": 1, "answered": 1}
    assert last_words(record(CallState.PENDING, **said)) == ("agent", "I am here")
    draft = Draft(turn=2, text="Stay")
    assert last_words(record(CallState.IN_PROGRESS, **said, draft=draft)) == ("agent", "Stay")


def test_a_draft_of_an_answered_turn_is_not_the_last_word() -> None:
    said = {"conversation_thread": (CALLER, AGENT), "heard": 1, "answered": 1}
    draft = Draft(turn=1, text="I am")
    assert last_words(record(CallState.PENDING, **said, draft=draft)) == ("agent", "I am here")
