"""The seed's watchdog (`python -m benchmarks.seed.watchdog`): SCAN, GET, compare, every 5 s."""

from __future__ import annotations

import threading
import time

from benchmarks.seed.document import STALE_S, Documents

EVERY_S = 5.0


def sweep(documents: Documents) -> list[str]:
    """Free the calls whose workers have fallen silent; their CallSids."""
    fallen = []
    for call_sid in documents.client.scan_iter("CA*"):
        try:
            document = documents.read(call_sid)
        except KeyError:
            continue  # it expired between the two commands
        if document["call_state"] != "in_progress":
            continue
        if time.time() - document["last_heartbeat"] > STALE_S:
            document["call_state"] = "incomplete"
            document["assigned_worker"] = None
            documents.write(document)
            fallen.append(call_sid)
    return fallen


def main() -> None:
    """Sweep for ever."""
    from benchmarks.seed.app import documents, handle_turn

    while not threading.Event().wait(EVERY_S):
        for call_sid in sweep(documents):
            handle_turn.delay(call_sid)


if __name__ == "__main__":
    main()
