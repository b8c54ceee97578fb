"""Checks whether complete calls reach the records that last, and which lifts made no test call."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from callflow.errors import SettingsError
from callflow.health.check import Check, HealthCheck, Severity
from callflow.records.record_errors import RecordsError
from callflow.redis.scripts import Scripts
from callflow.store.archive_queue import ArchiveQueue

if TYPE_CHECKING:
    from callflow.records.keeping import Keeping, LastTest
    from callflow.records.record_store import RecordStore

LATE_MS: Final = 60_000
"""A call is archived within seconds; after so long somebody should know that it is not."""

LONGEST_S: Final = 15.0
"""What the database may take."""

MOST_NAMED: Final = 5
"""Lifts that are named; the rest are counted."""


class RecordKeeping(NamedTuple):
    """How records are kept here (None: not at all). `last_tests` tells after how many hours a test
    call is overdue, and each lift with its last good one; it raises SettingsError where no lifts
    are named."""

    scripts: Scripts
    completed_ttl_ms: int
    keeping: Keeping | None
    last_tests: Callable[[RecordStore], tuple[int, list[LastTest]]]


def _check_archive(kept: RecordKeeping) -> Iterator[Check]:
    waiting = ArchiveQueue(kept.scripts, kept.completed_ttl_ms).look(1)
    if kept.keeping is not None:
        late = waiting.oldest_ms > LATE_MS
        sentence = f"{waiting.count} complete calls wait to be archived"
        if waiting.count:
            sentence += f", the first for {waiting.oldest_ms / 1000:.0f} s"
        way_out = "see the log of the watchdog worker: it tells why" if late else ""
        if late and waiting.calls:
            way_out += f"; the first is {waiting.calls[0]}"
        yield Check("archive", Severity.FAILURE if late else Severity.OK, sentence, way_out)
    elif waiting.count:
        yield Check(
            "records",
            Severity.FAILURE,
            f"{waiting.count} complete calls wait for a lasting store, and none is configured here",
            "set CALLFLOW_RECORDS_URL for every process, as it was when those calls ended",
        )
    else:
        ttl_min = kept.completed_ttl_ms / 60_000
        yield Check(
            "records",
            Severity.WARNING,
            f"records of complete calls are gone after {ttl_min:.0f} min: no lasting store is set",
            "set CALLFLOW_RECORDS_URL, such as sqlite:////var/lib/callflow/records.db",
        )


def _check_records(kept: RecordKeeping) -> Iterator[Check]:
    if kept.keeping is None:
        return
    from callflow.records.record_store import RecordStore

    try:
        records = RecordStore.open(kept.keeping.url, kept.keeping.key, longest_s=LONGEST_S)
        where, any_kept = records.database.where, records.database.holds_any()
        sentence = f"they last in {where}"
        if not any_kept:
            sentence = f"nothing is kept yet in {where}: no call has ended"
        found = [Check("records", Severity.OK, sentence), _check_tests(kept, records)]
    except RecordsError as error:
        found = [Check("records", Severity.FAILURE, str(error))]
    yield from found


def _check_tests(kept: RecordKeeping, records: RecordStore) -> Check:
    try:
        hours, lifts = kept.last_tests(records)
    except SettingsError as error:
        return Check("test calls", Severity.UNKNOWN, str(error))
    overdue = [one.site for one in lifts if one.overdue]
    if not overdue:
        sentence = f"each of {len(lifts)} lifts made one within {hours} h"
        return Check("test calls", Severity.OK, sentence)
    more = f" and {len(overdue) - MOST_NAMED} more" if len(overdue) > MOST_NAMED else ""
    return Check(
        "test calls",
        Severity.WARNING,
        f"{len(overdue)} of {len(lifts)} lifts made no good one for {hours} h: "
        f"{', '.join(overdue[:MOST_NAMED])}{more}",
        "have the lift tested, or its line; see `callflow records tests`",
    )


RECORD_CHECKS: Final = (
    HealthCheck("archive", _check_archive),
    HealthCheck("records", _check_records),
)
