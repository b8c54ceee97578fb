"""The Celery app of the bare round trip (`celery -A benchmarks.bare_app`): one empty task."""

from __future__ import annotations

import sys

from celery import Celery

from benchmarks.contestants.bare import publish

app = Celery("bare")
app.config_from_object("callflow.celery:configuration")
# callflow's own tasks and worker steps stay out: only its settings are compared with.
app.conf.imports = ()
if "threads" in sys.argv:
    # As `callflow/worker.py` does for its own workers: with threads it costs throughput.
    app.conf.worker_disable_prefetch = False


@app.task(name="bare.nothing")  # type: ignore[untyped-decorator]
def nothing(ticket: str) -> None:
    """Say that it has run."""
    publish(ticket)
