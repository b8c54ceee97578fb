"""Says where a deployment keeps records for good, and which of its lifts missed their test call.

EN 81-28 wants an automatic test call of each lift at least every 72 hours over the path of a real
alarm; a missing one is an alarm itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

ERASED_TOGETHER: Final = 25
"""Calls that one transaction erases: others wait for the end of the chain meanwhile, and a server
that is far away has to answer six times for each."""


@dataclass(frozen=True, slots=True)
class Keeping:
    """Where records last, what seals them, and for how many days they are kept (None: for ever)."""

    url: str = field(repr=False)
    key: bytes | None = field(default=None, repr=False)
    keep_days: int | None = None


HOUR_MS: Final = 3_600_000


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
    `RecordStore.last_tests` says. One that has never made any is overdue at once."""
    limit = now_ms - hours * HOUR_MS
    found = [LastTest(site, last.get(site), last.get(site, -1) < limit) for site in sites]
    return sorted(found, key=lambda one: (one.at or 0, one.site))
