"""The Celery tasks: doors, not rooms."""

from __future__ import annotations

from celery import Task

from callflow import bootstrap
from callflow.celery import RUN_TURN, SWEEP, app


@app.task(name=RUN_TURN, bind=True)  # type: ignore[untyped-decorator]
def run_turn(self: Task, call_sid: str) -> str:
    """One conversational turn of one call."""
    return bootstrap.turns(self.request.hostname).run(call_sid)


@app.task(name=SWEEP, bind=True)  # type: ignore[untyped-decorator]
def sweep(self: Task) -> str:
    """One round of the watchdog."""
    return str(bootstrap.watchdog().sweep(by=self.request.hostname))
