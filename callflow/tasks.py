"""The Celery tasks: doors, not rooms."""

from __future__ import annotations

from celery import Task

from callflow import bootstrap
from callflow.celery import RING, RUN_TURN, SWEEP, app
from callflow.turn import FOR_NOTHING


@app.task(name=RUN_TURN, bind=True)  # type: ignore[untyped-decorator]
def run_turn(self: Task, call_sid: str) -> str:
    """One conversational turn of one call; woken for nothing, a look at what else is stale."""
    outcome = bootstrap.turns(self.request.hostname).run(call_sid)
    if outcome in FOR_NOTHING:
        bootstrap.watchdog().discard_stale(self.request.delivery_info["routing_key"])
    return outcome


@app.task(name=RING)  # type: ignore[untyped-decorator]
def ring(call_sid: str) -> str:
    """One step on the ladder of humans of one call."""
    return str(bootstrap.ringing().ring(call_sid))


@app.task(name=SWEEP, bind=True)  # type: ignore[untyped-decorator]
def sweep(self: Task) -> str:
    """One round of the watchdog."""
    return str(bootstrap.watchdog().sweep(by=self.request.hostname))
