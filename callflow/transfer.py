"""Where every failure ends: the next worker while there is hope, then a human.

A turn that kills its workers must neither loop nor be discarded. How many workers it may cost
stands in `call/deadline.py`.
"""

from __future__ import annotations

from enum import StrEnum

from callflow.call.deadline import Rung, rung
from callflow.celery import wake, wake_ring
from callflow.store.calls import CallStore
from callflow.store.outcome import Lease, Pass

POISON = "poison"
"""Why a human is rung: the turn has cost too many workers."""


class PassedTo(StrEnum):
    """Who has a call that its worker lost."""

    WORKER = "worker"
    HUMAN = "human"


def pass_on(store: CallStore, call_sid: str, attempts: int) -> PassedTo:
    """Give a released call to the next worker, or to a human when it has cost too many."""
    if rung(attempts) is Rung.HUMAN:
        to_human(store, call_sid, POISON)
        return PassedTo.HUMAN
    # A lost message is made good after the owed deadline that the release has set.
    wake(call_sid, takeover=True)
    return PassedTo.WORKER


def to_human(store: CallStore, call_sid: str, reason: str, *, lease: Lease | None = None) -> Pass:
    """Pass the call to a human and have one rung. Asked twice, the first reason stands.

    What was owed is not: whoever picks up answers it, with the conversation before them.
    """
    word = store.handovers.transfer(call_sid, reason, lease=lease)
    if word is Pass.PASSED:
        # Lost, the next sweep finds that somebody is to be rung.
        wake_ring(call_sid)
    return word
