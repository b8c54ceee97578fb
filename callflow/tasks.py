"""The Celery tasks: doors, not rooms."""

from __future__ import annotations

from celery import Task

from callflow import bootstrap, logs, tracing
from callflow.celery import ARCHIVE, FETCH, RING, RUN_TURN, SWEEP, app
from callflow.handover import recover_line
from callflow.turn import FOR_NOTHING


@app.task(name=RUN_TURN, bind=True)  # type: ignore[untyped-decorator]
def run_turn(self: Task, call_sid: str) -> str:
    """One conversational turn of one call; woken for nothing, a look at what else is stale."""
    with tracing.extract(self.request):
        outcome = bootstrap.turns(self.request.hostname).run(call_sid)
    if outcome in FOR_NOTHING:
        bootstrap.watchdog().discard_stale(self.request.delivery_info["routing_key"])
    return outcome


@app.task(name=RING, bind=True)  # type: ignore[untyped-decorator]
def ring(self: Task, call_sid: str) -> str:
    """One step on the ladder of humans of one call."""
    with (
        logs.bound(call_sid=call_sid, worker=self.request.hostname),
        tracing.extract(self.request),
        tracing.span("ring", call_sid=call_sid),
    ):
        return str(bootstrap.ringing().ring(call_sid))


@app.task(name=FETCH, bind=True)  # type: ignore[untyped-decorator]
def fetch(self: Task, call_sid: str) -> str:
    """Bring one caller, whom no web process listens to any more, to another one."""
    with (
        logs.bound(call_sid=call_sid, worker=self.request.hostname),
        tracing.extract(self.request),
        tracing.span("fetch", call_sid=call_sid),
    ):
        return str(recover_line(bootstrap.store(), bootstrap.ringing(), call_sid))


@app.task(name=SWEEP, bind=True)  # type: ignore[untyped-decorator]
def sweep(self: Task) -> str:
    """One round of the watchdog."""
    with logs.bound(worker=self.request.hostname):
        return str(bootstrap.watchdog().sweep(by=self.request.hostname))


@app.task(name=ARCHIVE, bind=True)  # type: ignore[untyped-decorator]
def archive(self: Task) -> bool:
    """Begin to bring complete calls into the store that lasts; the next sweep waits for none of
    it. False where that is under way, or records do not last."""
    archivist = bootstrap.archivist()
    return archivist is not None and archivist.start_round(by=self.request.hostname)
