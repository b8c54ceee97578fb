"""How a person may end a call, and the signs that somebody may still be in the lift."""

from __future__ import annotations

from typing import Any

import pytest

from callflow.call.edits import BadDisposition, Disposition, disposition, may_be_trapped
from callflow.call.record import CallRecord, ThreadEntry
from callflow.call.state import CallState
from callflow.call.urgency import MEANINGS

CALL = CallRecord(call_sid="CA1", call_state=CallState.PENDING, created_at=1, updated_at=1)
SAID = ThreadEntry(role="caller", turn=1, text="hello", at=1)
SILENCE = SAID.model_copy(update={"text": ""})


def sign(**fields: Any) -> str | None:
    return may_be_trapped(CALL.model_copy(update=fields))


def test_a_disposition_is_one_of_the_list() -> None:
    assert disposition(" Released ") is Disposition.RELEASED
    for word in ("", "hung_up", "release"):
        with pytest.raises(BadDisposition, match="emergency_service"):
            disposition(word)


def test_a_call_in_which_nothing_was_said_holds_nobody() -> None:
    assert sign() is None
    assert sign(heard=1, conversation_thread=(SILENCE,)) is None


def test_what_a_caller_says_of_themselves_counts() -> None:
    assert sign(facts={"trapped": True})
    assert sign(facts={"inside": True})
    assert sign(facts={"trapped": False}) is None


def test_so_does_what_was_heard_and_what_people_said() -> None:
    for urgency in MEANINGS:
        grave = urgency in ("P1", "P2", "P3")
        assert bool(sign(urgency=urgency)) is grave
        assert bool(sign(urgency="P5", urgency_heard=urgency)) is grave
        assert bool(sign(urgency=urgency, urgency_heard="P5")) is grave


def test_words_that_nobody_has_understood_yet_may_be_of_somebody_in_the_lift() -> None:
    assert sign(heard=1, conversation_thread=(SAID,))
    assert sign(heard=1, understood=1, conversation_thread=(SAID,)) is None


def test_a_release_that_was_recorded_ends_all_doubt() -> None:
    assert sign(urgency="P1", recorded={"release.confirmed": True}) is None
    assert sign(urgency="P1", recorded={"release.confirmed": False})
