"""Code that words the reply. A responder is never police, fire or medics: those are people.

The turn asks it for pieces of speech, the last of which says where the call stands. It reads the
record and nothing else, so that a second one on another machine words the same reply from the same
place. What the caller has already been sent of an unfinished reply is in `record.draft`: a
responder goes on after it and never says it again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from threading import Event
from typing import Any, Protocol

from callflow.call.record import CallRecord


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of the reply, spoken as soon as it is there.

    `sop_step` (on the last piece) is how far along the procedure the call is once this reply has
    been heard. `needs_human` is the reason to fetch a person, or None. `facts` (on the last piece)
    is what was learned from the caller's words. `remarks` go into the journal: what a guard caught
    (`guard:eta`), how a model failed (`model:slow`); never anybody's words.
    """

    text: str
    last: bool = False
    sop_step: int | None = None
    needs_human: str | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()


class Responder(Protocol):
    """Words the reply to turn `record.answered + 1`."""

    def respond(self, record: CallRecord, stop: Event) -> Iterator[Piece]:
        """Yield the reply in pieces; the last one has `last=True`.

        Waits for nothing longer than `stop`: when it is set, the lease is no longer ours and the
        iterator may end early. Called again for the same record it yields the same reply.
        """
        ...
