"""The ladder of humans: who is rung next while nobody has picked up. Pure.

A site has a few numbers in order. Each is rung for its time; after the last the first comes again,
round after round, until somebody takes the call or the caller is gone. Meanwhile the caller stays
with the agent: nobody is moved before there is somebody to be moved to.
"""

from __future__ import annotations

from callflow.call.record import Alert

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


def fresh(reason: str) -> Alert:
    """A human is wanted, and nobody has been rung yet. Twice for one call, the first stands."""
    return Alert(reason=reason)


def wanted_by(name: str, telephone: str | None) -> Alert:
    """A person wants the call: their telephone is rung first, then the site's numbers."""
    return Alert(reason=TAKEN_OVER, to=telephone, asked_by=name)


def ringing(alert: Alert, ring: str, who: str | None = None) -> Alert:
    """The rung where the ladder stands is being rung; `ring` names this one attempt, `who` whose
    telephone it is."""
    return alert.model_copy(update={"state": "ringing", "ring": ring, "leg": None, "who": who})


def confirmed(alert: Alert, leg: str) -> Alert:
    """The carrier has called the number on the leg of that CallSid."""
    return alert.model_copy(update={"leg": leg})


def missed(alert: Alert, rungs: int) -> Alert:
    """Nobody took this ring: the next rung of `rungs`, or the first of the next round."""
    rung = alert.rung + 1
    wraps = rung >= rungs
    return alert.model_copy(
        update={
            "state": "due",
            "rung": 0 if wraps else rung,
            "round": alert.round + 1 if wraps else alert.round,
            "ring": None,
            "leg": None,
            "who": None,
        }
    )


def again(alert: Alert) -> Alert:
    """The same rung once more: its ring was lost before the carrier confirmed it."""
    return alert.model_copy(update={"state": "due", "ring": None, "leg": None, "who": None})


def accepted(alert: Alert, leg: str) -> Alert:
    """The human on `leg` has pressed the key: the ladder has done its work."""
    return alert.model_copy(update={"state": "accepted", "leg": leg})


def nobody(alert: Alert) -> Alert:
    """There is no number to ring: the site has none, or there is no telephone."""
    return alert.model_copy(update={"state": "nobody", "ring": None, "leg": None})
