"""What somebody who waits for a reply is told: the reply so far, and where the call stands."""

from __future__ import annotations

from dataclasses import dataclass

from callflow.call.record import Alert, CallRecord, Draft, Frozen, Handling, Saying
from callflow.call.state import CallState


class Standing(Frozen):
    """Where a call stands while somebody waits for its reply: a few fields of its record."""

    call_state: CallState
    assigned_worker: str | None
    handling: Handling
    needs_human: str | None
    outcome: str | None
    draft: Draft | None
    alert: Alert | None
    language: str
    heard: int
    answered: int
    sayings: tuple[Saying, ...] = ()

    @classmethod
    def of(cls, record: CallRecord) -> Standing:
        """Where the call of a whole record stands."""
        return cls.model_validate_json(record.model_dump_json())

    @property
    def unserved(self) -> bool:
        """True when a reply is owed and no worker has had time for it."""
        return self.heard > self.answered and self.assigned_worker is None

    @property
    def with_human(self) -> bool:
        """True when a human is on the line (and not only being rung)."""
        accepted = self.alert is not None and self.alert.state == "accepted"
        return accepted and self.handling == "human"


@dataclass(frozen=True, slots=True)
class Reply:
    """What can be said to the caller of one turn by now.

    `text` grows while the reply is being worded and is final when `done`. `over`: the call is
    complete or a human's, and no more text will come from us. `standing` is None where the reply
    came with its notification and nothing had to be read. `lang` is its language, None where it is
    not known.
    """

    text: str
    done: bool
    standing: Standing | None = None
    lang: str | None = None

    @property
    def over(self) -> bool:
        """True when the call is known to be complete or to be a human's."""
        standing = self.standing
        if standing is None:
            return False
        return standing.outcome is not None or standing.handling == "human"
