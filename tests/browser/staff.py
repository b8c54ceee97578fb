"""Workers that give signs of life and do nothing: what a board needs to see in a picture."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from callflow.celery import CALLS, WATCHDOG
from callflow.errors import StoreError
from callflow.health.worker_reports import ReportStore, WorkerReport
from callflow.redis.client import connect
from callflow.redis.scripts import Scripts
from callflow.store.leases import Leases
from tests.parts import TIMING

NODES = {"worker1": CALLS, "worker2": CALLS, "worker3": CALLS, "watchdog": (WATCHDOG,)}


@contextmanager
def staffed(redis_url: str) -> Iterator[None]:
    """Three workers and a watchdog give signs of life for as long as the block runs."""
    ended = threading.Event()

    def live() -> None:
        with connect(redis_url) as client:
            scripts = Scripts(client)
            vitals, leases = ReportStore(scripts), Leases(scripts, TIMING)
            while not ended.wait(0.2):
                with suppress(StoreError):
                    leases.mark_sweep("watchdog@host")
                    for name, queues in NODES.items():
                        vitals.save(
                            WorkerReport(
                                f"{name}@host", slots=4, children=4, busy=1, queues=tuple(queues)
                            )
                        )

    thread = threading.Thread(target=live, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(5)
