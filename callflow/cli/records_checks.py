"""What the doctor finds about records that last, and about test calls that are missing."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from callflow import bootstrap
from callflow.cli import deployment
from callflow.errors import SettingsError
from callflow.health.check import Check, Grade
from callflow.records.failure import RecordsError
from callflow.redis.scripts import Scripts
from callflow.store.unarchived import Unarchived

if TYPE_CHECKING:
    from callflow.records.ledger import LastTest
    from callflow.records.records import Records
    from callflow.sites.directory import Sites

LATE_MS = 60_000
"""A call is archived within seconds; after so long somebody should know that it is not."""

LONGEST_S = 15.0

TOLD = 5
"""Lifts that are named; the rest are counted."""


def last_tests(records: Records) -> tuple[int, list[LastTest]]:
    """After how many hours a test call is overdue, and each lift of CALLFLOW_SITES, or of a
    local stack, with its last good one. Raises SettingsError where no lifts are named, SitesError
    and RecordsUnavailable."""
    from callflow.records.ledger import ledger

    hours = bootstrap.settings().test_call_hours
    sites = [site.id for site in _lifts()]
    now_ms = time.time_ns() // 1_000_000
    return hours, ledger(sites, records.last_tests(), now_ms, hours)


def _lifts() -> Sites:
    from callflow.lab.carrier.account import read
    from callflow.sites.directory import Sites

    settings = bootstrap.settings()
    if settings.sites is None and deployment.read_url(settings.data_dir) is not None:
        told = read(settings.data_dir).get("sites")
        if isinstance(told, str):
            return Sites.load(Path(told))
    if settings.sites is None:
        raise SettingsError(
            "CALLFLOW_SITES",
            "not set here, and no local stack tells of its own: without its lifts nobody knows "
            "which of them made no test call; name the file as the web process does",
        )
    return bootstrap.sites()


def checks() -> Iterator[Check]:
    """One finding after the other. Raises StoreError when the server of the calls is cut off."""
    settings = bootstrap.settings()
    unarchived = Unarchived(Scripts(bootstrap.client()), settings.timing.completed_ttl_ms)
    waiting = unarchived.look(1)
    if settings.keeping is None:
        yield _nowhere(waiting.count)
        return
    late = waiting.oldest_ms > LATE_MS
    told = f"{waiting.count} complete calls wait to be archived"
    if waiting.count:
        told += f", the first for {waiting.oldest_ms / 1000:.0f} s"
    way_out = "see the log of the watchdog worker: it tells why" if late else ""
    if late and waiting.calls:
        way_out += f"; the first is {waiting.calls[0]}"
    yield Check("archive", Grade.FAILURE if late else Grade.OK, told, way_out)

    from callflow.records.records import Records

    keeping = settings.keeping
    try:
        records = Records.open(keeping.url, keeping.key, longest_s=LONGEST_S)
        place, tests = _place(records), _test_calls(records)
    except RecordsError as error:
        yield Check("records", Grade.FAILURE, str(error))
        return
    yield place
    yield tests


def _place(records: Records) -> Check:
    where = records.database.where
    if not records.database.holds_any():
        return Check("records", Grade.OK, f"nothing is kept yet in {where}: no call has ended")
    return Check("records", Grade.OK, f"they last in {where}")


def _nowhere(waiting: int) -> Check:
    if waiting:
        return Check(
            "records",
            Grade.FAILURE,
            f"{waiting} complete calls wait for a lasting store, and none is configured here",
            "set CALLFLOW_RECORDS_URL for every process, as it was when those calls ended",
        )
    ttl_min = bootstrap.settings().completed_ttl_s / 60
    return Check(
        "records",
        Grade.WARNING,
        f"records of complete calls are gone after {ttl_min:.0f} min: no lasting store is set",
        "set CALLFLOW_RECORDS_URL, such as sqlite:////var/lib/callflow/records.db",
    )


def _test_calls(records: Records) -> Check:
    try:
        hours, found = last_tests(records)
    except SettingsError as error:
        return Check("test calls", Grade.UNKNOWN, str(error))
    overdue = [one.site for one in found if one.overdue]
    if not overdue:
        return Check(
            "test calls", Grade.OK, f"each of {len(found)} lifts made one within {hours} h"
        )
    more = f" and {len(overdue) - TOLD} more" if len(overdue) > TOLD else ""
    return Check(
        "test calls",
        Grade.WARNING,
        f"{len(overdue)} of {len(found)} lifts made no good one for {hours} h: "
        f"{', '.join(overdue[:TOLD])}{more}",
        "have the lift tested, or its line; see `callflow records tests`",
    )
