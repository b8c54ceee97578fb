"""How long a caller may have to wait after each kind of strike: the bounds of the design, in one
table.

A bound counts from the signal to the next claim. Whatever else was struck at the same time adds
what it costs by itself: a killed worker is noticed later while nobody sweeps. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from callflow.lab.chaos.witness import Conditions, Strike

LONGEST_SILENCE_S: Final = 4.0
"""A promise: so long may a caller hear nothing, and no longer."""

PHRASE_S: Final = 3.5
"""How long the longest holding phrase takes to say, at speed 1."""

HUMAN_S: Final = 15.0
"""For a human to be rung, to hear what it is about and to press the key."""

HOLDING_ROUNDS: Final = 3
"""Two holding phrases, and the one that tells of a human."""


POISON_COSTS: Final = 4
"""So many workers may one turn cost, and then it is a human's."""


class Harm(StrEnum):
    """What a strike does, for which there is a row in the design's table."""

    DEATH = "death"
    """A process that runs turns is gone."""
    FREEZE = "freeze"
    """It stands still, or is cut off."""
    LEAVE = "leave"
    """It is told to end, and hands back what it cannot finish."""
    LINE = "line"
    """What callers talk to is gone or stands still: no turn is."""
    TIMER = "timer"
    """Nobody asks for sweeps for a while."""
    MESSAGE = "message"
    """Celery messages are lost."""
    SERVER = "server"
    """The server that holds the calls, or the way to it."""
    POISON = "poison"
    """A turn that kills every worker."""


SWEEPER_S: Final = 2.0
"""By so much later is anything noticed where the sweep is struck too."""

LOST_MESSAGE_S: Final = 3.0
SERVER_BACK_S: Final = 3.0
"""After the server is back."""

DEATH_S: Final = 1.5
FREEZE_MORE_S: Final = 1.0
"""Above the age at which a silent lease is taken back."""

HARM: Final = {
    "worker-kill": Harm.DEATH,
    "child-kill": Harm.DEATH,
    "worker-freeze": Harm.FREEZE,
    "worker-cut": Harm.FREEZE,
    "clock-step": Harm.DEATH,
    "worker-term": Harm.LEAVE,
    "poison": Harm.POISON,
    "web-kill": Harm.LINE,
    "web-term": Harm.LINE,
    "beat-kill": Harm.TIMER,
    "watchdog-kill": Harm.TIMER,
    "broker-empty": Harm.MESSAGE,
    "broker-kill": Harm.MESSAGE,
    "broker-freeze": Harm.MESSAGE,
    **dict.fromkeys(("server-kill", "server-freeze", "server-restarts"), Harm.SERVER),
    **dict.fromkeys(("failover", "failover-lossy", "demote", "disk-full"), Harm.SERVER),
    **dict.fromkeys(("client-kill", "slow-net", "drop-replies"), Harm.SERVER),
    **dict.fromkeys(("reset-net", "mute-net"), Harm.SERVER),
}
"""By the names of `plan.KINDS`."""


def harm_of(kind: str) -> Harm:
    """What a kind of strike does."""
    return HARM[kind]


def takeover_bound_s(kind: str, conditions: Conditions) -> float:
    """How long from a strike of this kind, and nothing else, until the next worker has the call."""
    match harm_of(kind):
        case Harm.DEATH | Harm.LEAVE | Harm.POISON:
            return DEATH_S
        case Harm.FREEZE:
            return conditions.stale_after_s + FREEZE_MORE_S
        case Harm.LINE:
            return 0.0
        case Harm.TIMER:
            return SWEEPER_S
        case Harm.MESSAGE:
            return LOST_MESSAGE_S
        case Harm.SERVER:
            return SERVER_BACK_S


def added_s(strikes: Iterable[Strike], from_s: float, to_s: float) -> float:
    """What strikes at the sweep, the messages and the server between two moments (s since the run
    began) may add to a bound."""
    timers = messages = 0.0
    away_s = 0.0
    for strike in strikes:
        harm = harm_of(strike.kind)
        lingers_s = _LINGERS_S.get(harm, 0.0)
        if strike.at_s > to_s or strike.until_s + lingers_s < from_s:
            continue
        if harm is Harm.TIMER:
            timers = lingers_s
        elif harm in (Harm.MESSAGE, Harm.SERVER):
            messages = max(messages, lingers_s)
            away_s += max(0.0, strike.until_s - max(strike.at_s, from_s))
    return timers + messages + away_s


_LINGERS_S: Final = {
    Harm.TIMER: SWEEPER_S,
    Harm.MESSAGE: LOST_MESSAGE_S,
    Harm.SERVER: SERVER_BACK_S,
}


def reply_bound_s(conditions: Conditions) -> float:
    """How long until an utterance is answered by somebody: two holding phrases, a third that tells
    of a human, and the human. At each rung below it a worker may still come first."""
    round_s = conditions.reply_wait_s + PHRASE_S / conditions.speed
    return HOLDING_ROUNDS * round_s + HUMAN_S
