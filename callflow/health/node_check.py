"""Checks one worker alone, for the health check of its container: would a restart help it?

Where the store or the broker cannot be reached it would not: workers that are all ended at once by
their health checks are still starting when the server comes back. It runs every few seconds beside
the worker, so this imports no more than it needs.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from callflow.errors import StoreError, StoreFull, StoreReadOnly, StoreUnavailable
from callflow.health.check import Audience, Check, run_checks
from callflow.health.server_checks import why_no_writes
from callflow.health.worker_checks import WORKER_CHECKS, Workforce
from callflow.health.worker_reports import ReportStore
from callflow.redis.client import Client, address, connect, translated
from callflow.redis.scripts import Scripts
from callflow.redis.url import store_url_of_broker

TIMEOUT_S = 0.4
"""To connect, and for an answer: each is tried twice, and a health check has 3 s."""

LOOK_AGAIN_S = 1.2
"""A worker speaks once a second: what is still wrong then was not a moment's."""


def check_node(node: str, store_url: str, broker_url: str, service: str) -> tuple[bool, str]:
    """Whether to let the worker be, and a sentence. Raises SettingsError for what is no address.

    `node`: the name behind its `-n`. `broker_url` as kombu writes it; `service`: what Sentinels
    call the broker's primary.
    """
    store, broker = _client(store_url), _client(store_url_of_broker(broker_url, service))
    try:
        return _judge(node, store, broker)
    except (StoreUnavailable, StoreReadOnly, StoreFull) as error:
        return True, f"{node} cannot be judged, and a restart would not help: {error}"
    except StoreError as error:
        # A check that may not look must not be green for ever.
        return False, f"{node} cannot be judged, since this check may not ask: {error}"


def _judge(node: str, store: Client, broker: Client) -> tuple[bool, str]:
    reports = ReportStore(Scripts(store))
    reported = reports.read(node)
    report = reported.reports[0] if reported.reports else None
    silent_ms = reported.silent_ms(report) if report is not None else 0
    if (report is None or silent_ms) and (reason := why_no_writes(store)):
        return True, (
            f"{node} cannot be judged, and a restart would not help: it cannot say how it is; "
            f"{reason}"
        )
    if report is None:
        return False, (
            f"{node} has said nothing for more than a minute: it is frozen, wedged or gone, or its "
            "name is another one (what stands behind its -n)"
        )
    if silent_ms:
        # A worker that looks for its broker is silent, and would look for it again.
        _waiting(broker, ())
        return False, (
            f"{node} has said nothing for {silent_ms / 1000:.0f} s: its parent process is frozen "
            "or wedged"
        )
    found = _find(reports, node, broker, report.queues)
    if found:
        time.sleep(LOOK_AGAIN_S)
        found = _find(reports, node, broker, report.queues)
    if found:
        return False, "; ".join(one.sentence for one in found)
    return True, (
        f"{node} is well: {report.phase}, {report.busy} of {report.slots} slots busy, "
        f"{report.taken} messages taken from {', '.join(report.queues) or 'no queue'}"
    )


def _find(reports: ReportStore, node: str, broker: Client, queues: Sequence[str]) -> list[Check]:
    # What waits is asked for first: who takes it at this moment says so afterwards.
    waiting = _waiting(broker, queues)
    workforce = Workforce(reports.read(node), {}, queues, waiting)
    return list(run_checks(WORKER_CHECKS, workforce, Audience.NODE))


def _waiting(broker: Client, queues: Sequence[str]) -> dict[str, int]:
    """How many messages are in each queue. Raises StoreError where the broker is gone."""
    with translated(address(broker)), broker.pipeline(transaction=False) as pipe:
        pipe.ping()
        for queue in queues:
            pipe.llen(queue)
        return dict(zip(queues, pipe.execute()[1:], strict=True))


def _client(url: str) -> Client:
    return connect(url, connect_timeout_s=TIMEOUT_S, answer_timeout_s=TIMEOUT_S)
