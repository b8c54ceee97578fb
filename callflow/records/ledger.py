"""The ledger of test calls: which lifts have not tried their line for too long.

EN 81-28 wants an automatic test call of each lift at least every 72 hours over the path of a real
alarm; a missing one is an alarm itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class LastTest:
    """When a lift's last good test call ended, ms; None: none is known. `overdue`: that is too
    long ago."""

    site: str
    at: int | None
    overdue: bool


def ledger(
    sites: Iterable[str], last: Mapping[str, int], now_ms: int, hours: int
) -> list[LastTest]:
    """Each of `sites` with its last good test call, the longest silent first; `last` is what
    `Records.last_tests` says. One that has never made any is overdue at once."""
    limit = now_ms - hours * HOUR_MS
    found = [LastTest(site, last.get(site), last.get(site, -1) < limit) for site in sites]
    return sorted(found, key=lambda one: (one.at or 0, one.site))
