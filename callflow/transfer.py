"""Where every failure ends: the next worker while there is hope, then a human.

A turn that kills its workers must neither loop nor be discarded. How many workers it may cost
stands in `call/deadline.py`.
"""

from __future__ import annotations

from enum import StrEnum

from callflow.call.deadline import Rung, rung
from callflow.celery import wake
from callflow.store.calls import CallStore
from callflow.store.outcome import Finish, Lease

POISON = "the turn has cost too many workers"


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


def to_human(store: CallStore, call_sid: str, reason: str, *, lease: Lease | None = None) -> Finish:
    """Pass the call to a human. Asked twice, the first reason stands."""
    return store.transfer(call_sid, reason, lease=lease)
