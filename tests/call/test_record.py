"""The record: what a newer release adds does no harm, and an error never shows what was said."""

from __future__ import annotations

import json

import pytest
from pydantic import ValidationError

from callflow.call.record import CallRecord

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
