"""A responder that takes its time, so that people can watch a worker die in mid-reply."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Event

from callflow.call.record import CallRecord
from callflow.responder.protocol import Piece, Responder


class PacedResponder:
    """Implements `Responder`: the pieces of `inner`, each one `pause_s` seconds after the last."""

    def __init__(self, inner: Responder, pause_s: float) -> None:
        """Pause before every piece. Raises ValueError for a negative pause."""
        if not pause_s >= 0:
            raise ValueError(f"pause_s is {pause_s}: use zero or more seconds")
        self._inner = inner
        self._pause_s = pause_s

    def respond(self, record: CallRecord, stop: Event) -> Iterator[Piece]:
        """Yield what `inner` yields; end early, and at once, when `stop` is set."""
        for piece in self._inner.respond(record, stop):
            if stop.wait(self._pause_s):
                return
            yield piece
