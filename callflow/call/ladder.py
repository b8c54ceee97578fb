"""The ladder of humans: who is rung next while nobody has picked up. Pure.

A site has a few numbers in order. Each is rung for its time; after the last the first comes again,
round after round, until somebody takes the call or the caller is gone. Meanwhile the caller stays
with the agent: nobody is moved before there is somebody to be moved to.
"""

from __future__ import annotations

from callflow.call.record import HumanAlert

NOT_UNDERSTOOD_TURNS = 2
"""So many turns in a row that could not be understood fetch a person (EN 81-28, the field's habit:
nobody in a lift is asked a third time)."""

TAKEN_OVER = "taken_over"
"""Why a human is rung who has asked for the call."""

CONFIRM_MS = 5_000
"""A ring that the carrier has not confirmed for so long was lost with the process that asked for
it: the same number is rung again."""

GRACE_MS = 3_000
"""How much longer than its ring time a ring is given: the carrier's own word comes first."""

FAILED_PAUSE_MS = 1_000
"""After a ring that the carrier refused; with one number only, the next is the same one."""

ROUND_PAUSE_MS = 5_000
"""After nobody of a round has picked up: people must get a chance to call off another line."""


def fresh(reason: str) -> HumanAlert:
    """A human is wanted, and nobody has been rung yet. Twice for one call, the first stands."""
    return HumanAlert(reason=reason)


def wanted_by(name: str, telephone: str | None) -> HumanAlert:
    """A person wants the call: their telephone is rung first, then the site's numbers."""
    return HumanAlert(reason=TAKEN_OVER, to=telephone, asked_by=name)


def ringing(alert: HumanAlert, attempt_id: str, who: str | None = None) -> HumanAlert:
    """The contact where the ladder stands is being rung, by the name of `who`."""
    return alert.model_copy(
        update={"state": "ringing", "attempt_id": attempt_id, "leg": None, "who": who}
    )


def confirmed(alert: HumanAlert, leg: str) -> HumanAlert:
    """The carrier has called the number on the leg of that CallSid."""
    return alert.model_copy(update={"leg": leg})


def missed(alert: HumanAlert, contacts: int) -> HumanAlert:
    """Nobody took this ring: the next of so many contacts, or the first of the next round."""
    index = alert.contact_index + 1
    wraps = index >= contacts
    return alert.model_copy(
        update={
            "state": "due",
            "contact_index": 0 if wraps else index,
            "round": alert.round + 1 if wraps else alert.round,
            "attempt_id": None,
            "leg": None,
            "who": None,
        }
    )


def again(alert: HumanAlert) -> HumanAlert:
    """The same contact once more: the ring was lost before the carrier confirmed it."""
    return alert.model_copy(update={"state": "due", "attempt_id": None, "leg": None, "who": None})


def accepted(alert: HumanAlert, leg: str) -> HumanAlert:
    """The human on `leg` has pressed the key: the ladder has done its work."""
    return alert.model_copy(update={"state": "accepted", "leg": leg})


def nobody(alert: HumanAlert) -> HumanAlert:
    """There is no number to ring: the site has none, or there is no telephone."""
    return alert.model_copy(update={"state": "nobody", "attempt_id": None, "leg": None})
