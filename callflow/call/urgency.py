"""Grades the urgency of calls: from P1, life at risk now, to P5, a test or a mistake.

The scale is the one that alarm centres work with. A graver word always wins within one breath;
what lowers the urgency of a call is an explicit all-clear alone (`procedures/triage.py`).
"""

from __future__ import annotations

from typing import Final, Literal

Urgency = Literal["P1", "P2", "P3", "P4", "P5"]

MEANINGS: Final[dict[Urgency, str]] = {
    "P1": "life at risk now",
    "P2": "trapped, and vulnerable, in distress or in rising danger",
    "P3": "trapped, stable",
    "P4": "nobody trapped, something to do",
    "P5": "a test, a mistake or a prank",
}

AHEAD: Final[frozenset[Urgency]] = frozenset(("P1", "P2"))
"""Served before other new work when there is more than workers can do."""

LAST: Final[frozenset[Urgency]] = frozenset(("P5",))
"""Served when nobody else waits: the tests that devices make of themselves among them, of which
EN 81-28 wants one every three days."""


def graver(one: Urgency, other: Urgency | None) -> bool:
    """True when `one` is more urgent than `other`; anything is graver than nothing."""
    return other is None or one < other


def gravest(*urgencies: Urgency | None) -> Urgency | None:
    """The most urgent of them; None when none is given."""
    return min((each for each in urgencies if each is not None), default=None)
