"""Lifts that have not tried their line for too long, as the lasting records tell."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

from callflow.records.keeping import Keeping
from callflow.records.ledger import ledger

EVERY_S: Final = 60.0
"""How often the records are asked; what they tell changes by the hour."""

LONGEST_S: Final = 10.0


def untested(keeping: Keeping, sites: Sequence[str], hours: int) -> Callable[[], int]:
    """What counts those of `sites` without a good test call in the last `hours`, each time that it
    is called; it asks the database, and raises RecordsUnavailable.

    Raises DriverMissing where the libraries of `callflow[records]` are not installed.
    """
    # Without CALLFLOW_RECORDS_URL a web process needs no library for databases.
    from callflow.records.records import Records

    records = Records.open(keeping.url, keeping.key, longest_s=LONGEST_S)

    def count() -> int:
        last = records.last_tests()
        now_ms = time.time_ns() // 1_000_000
        return sum(one.overdue for one in ledger(sites, last, now_ms, hours))

    return count
