"""Says back what it heard: for measuring callflow itself, with nothing worded in between."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Event

from callflow.call.record import CallRecord
from callflow.responder.protocol import Piece


class EchoResponder:
    """The reply is the utterance, once more and once again: 120 characters for 60."""

    def respond(self, record: CallRecord, stop: Event) -> Iterator[Piece]:
        """One last piece."""
        said = record.said(record.answered + 1, "caller") or ""
        yield Piece(said + said, last=True)
