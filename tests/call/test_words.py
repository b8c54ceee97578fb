"""The words that people read are derived from the record, and from nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from callflow.call.record import CallRecord, Draft, ThreadEntry
from callflow.call.state import CallState
from callflow.call.words import Word, last_words, waiting_since, word

CALLER = ThreadEntry(role="caller", turn=1, text="help", at=5)
AGENT = ThreadEntry(role="agent", turn=1, text="I am here", at=9)


def record(state: CallState, **fields: Any) -> CallRecord:
    return CallRecord.model_validate(
        {"call_sid": "CA1", "call_state": state, "created_at": 1, "updated_at": 7, **fields}
    )


@pytest.mark.parametrize(
    ("state", "fields", "expected"),
    [
        (CallState.PENDING, {}, Word.LISTENING),
        (CallState.PENDING, {"heard": 1}, Word.QUEUED),
        (CallState.IN_PROGRESS, {"heard": 1}, Word.ANSWERING),
        (CallState.INCOMPLETE, {"heard": 1}, Word.RECOVERING),
        (CallState.COMPLETE, {}, Word.ENDED),
        (CallState.COMPLETE, {"handling": "human"}, Word.ENDED),
        (CallState.PENDING, {"handling": "human"}, Word.WITH_A_HUMAN),
    ],
)
def test_every_state_has_a_word(state: CallState, fields: dict[str, Any], expected: Word) -> None:
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
