"""Pacing changes when a piece comes, never what is said."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Event

import pytest

from callflow.call.record import CallRecord
from callflow.call.state import CallState
from callflow.responder import Piece
from callflow.responder.scripted import ScriptedResponder
from callflow.responder.synthetic import PacedResponder

CALL = CallRecord(
    call_sid="CA1", call_state=CallState.IN_PROGRESS, created_at=1, updated_at=1, heard=1
)


class NotedEvent(Event):
    """Notes how long somebody meant to wait, and waits not at all."""

    def __init__(self, set_after: int) -> None:
        super().__init__()
        self.waits: list[float | None] = []
        self.set_after = set_after

    def wait(self, timeout: float | None = None) -> bool:
        self.waits.append(timeout)
        if len(self.waits) > self.set_after:
            self.set()
        return self.is_set()


def test_it_says_the_same_with_a_pause_before_each_piece() -> None:
    plain = list(ScriptedResponder().respond(CALL, Event()))
    stop = NotedEvent(set_after=99)
    assert list(PacedResponder(ScriptedResponder(), 0.7).respond(CALL, stop)) == plain
    assert stop.waits == [0.7] * len(plain)


def test_it_ends_early_when_the_lease_is_lost_in_a_pause() -> None:
    plain = list(ScriptedResponder().respond(CALL, Event()))
    paced = PacedResponder(ScriptedResponder(), 60.0).respond(CALL, NotedEvent(set_after=2))
    assert list(paced) == plain[:2]


def test_a_negative_pause_is_refused() -> None:
    class Mute:
        def respond(self, record: CallRecord, stop: Event) -> Iterator[Piece]:
            yield Piece("", True)

    with pytest.raises(ValueError, match="use zero or more seconds"):
        PacedResponder(Mute(), -1.0)
