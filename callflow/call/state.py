"""The four states of a call and every move between them: one table, and nothing else decides.

`pending` means that nobody works on the call: it waits for the caller, or a reply is owed, or a
human has it (the line is open, and only its end completes the call).
`in_progress` means that one worker holds it. `incomplete` means that a worker gave it up or fell
silent: what it had done is in the record, and the next one goes on from there. `complete` is the
end; nothing leaves it.

A move is looked up by the state that the record has. The table goes into every script as data, so
the scripts compare and store, and never name a state themselves.
"""

from __future__ import annotations

from enum import StrEnum
from functools import cache


class CallState(StrEnum):
    """Where a call stands. The values are the customer's words and are stored as they are."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    INCOMPLETE = "incomplete"
    COMPLETE = "complete"


class Event(StrEnum):
    """What can happen to a call once it is open."""

    HEAR = "hear"
    HEAR_AFTER_LOSS = "hear_after_loss"
    """A turn is heard, and those before it were lost in a failover."""
    CLAIM = "claim"
    BEAT = "beat"
    DRAFT = "draft"
    COMMIT = "commit"
    HAND_BACK = "hand_back"
    RECLAIM = "reclaim"
    RECORD = "record"
    """A person records a fact."""
    REMARK = "remark"
    """A person writes a note."""
    URGE = "urge"
    """A person says how urgent it is."""
    SAY = "say"
    """A person has something said to the caller."""
    INTERRUPT = "interrupt"
    ALERT = "alert"
    TRANSFER = "transfer"
    RESUME = "resume"
    END = "end"


class Refusal(StrEnum):
    """Why an event does not move a call; the word is what the store answers."""

    HELD = "held"
    """Another worker holds the call."""
    FENCED = "fenced"
    """The lease was taken back: whoever asks is no longer the holder."""
    ENDED = "ended"
    """The call is complete."""


OPENED = CallState.PENDING

_P, _I, _N, _C = (
    CallState.PENDING,
    CallState.IN_PROGRESS,
    CallState.INCOMPLETE,
    CallState.COMPLETE,
)
_HELD, _FENCED, _ENDED = Refusal.HELD, Refusal.FENCED, Refusal.ENDED

MOVES: dict[Event, dict[CallState, CallState | Refusal]] = {
    #                 pending        in_progress  incomplete     complete
    Event.HEAR:      {_P: _P,        _I: _I,      _N: _N,        _C: _ENDED},
    Event.HEAR_AFTER_LOSS:
                     {_P: _P,        _I: _P,      _N: _P,        _C: _ENDED},
    Event.CLAIM:     {_P: _I,        _I: _HELD,   _N: _I,        _C: _ENDED},
    Event.BEAT:      {_P: _FENCED,   _I: _I,      _N: _FENCED,   _C: _ENDED},
    Event.DRAFT:     {_P: _FENCED,   _I: _I,      _N: _FENCED,   _C: _ENDED},
    Event.COMMIT:    {_P: _FENCED,   _I: _P,      _N: _FENCED,   _C: _ENDED},
    Event.HAND_BACK: {_P: _FENCED,   _I: _N,      _N: _FENCED,   _C: _ENDED},
    Event.RECLAIM:   {_P: _FENCED,   _I: _N,      _N: _FENCED,   _C: _ENDED},
    Event.RECORD:    {_P: _P,        _I: _I,      _N: _N,        _C: _ENDED},
    Event.REMARK:    {_P: _P,        _I: _I,      _N: _N,        _C: _ENDED},
    Event.URGE:      {_P: _P,        _I: _I,      _N: _N,        _C: _ENDED},
    Event.SAY:       {_P: _P,        _I: _I,      _N: _N,        _C: _ENDED},
    Event.INTERRUPT: {_P: _P,        _I: _I,      _N: _N,        _C: _ENDED},
    Event.ALERT:     {_P: _P,        _I: _I,      _N: _N,        _C: _ENDED},
    Event.TRANSFER:  {_P: _P,        _I: _P,      _N: _P,        _C: _ENDED},
    Event.RESUME:    {_P: _P,        _I: _I,      _N: _N,        _C: _ENDED},
    Event.END:       {_P: _C,        _I: _C,      _N: _C,        _C: _ENDED},
}  # fmt: skip
"""Event → state now → state then, or the word that refuses it."""

LEASED = frozenset({CallState.IN_PROGRESS})
"""The states in which exactly one worker is assigned and must beat."""


def after(event: Event, state: CallState) -> CallState | Refusal:
    """What `event` makes of a call in `state`: its next state, or the word of refusal."""
    return MOVES[event][state]


@cache
def moves_row(event: Event) -> str:
    """The row of `event` as the scripts read it, one word for each state: `"pending">in_progress`
    for a move, `"complete"!ended` for a refusal. The quotes are those of the stored JSON string.
    """
    return " ".join(
        f'"{state}"{"!" if isinstance(then, Refusal) else ">"}{then}'
        for state, then in MOVES[event].items()
    )
