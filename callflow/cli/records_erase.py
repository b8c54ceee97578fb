"""Which calls an erasure is about."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence

from callflow.errors import CallflowError
from callflow.records.reading import Wanted, each
from callflow.records.records import Records
from callflow.understanding.private import told_in

DAY_MS = 86_400_000

LEAST_DIGITS = 7
"""Fewer are no telephone number: they would erase calls of others."""

COMPARED = 9
"""Digits from the end: the rest is how a country is dialled, or its zero at home."""


class NoNumber(CallflowError):
    """Too few digits to tell one telephone from another. Nothing was erased."""

    def __init__(self, number: str) -> None:
        self.number = number
        super().__init__(
            f"{number!a} has fewer than {LEAST_DIGITS} digits, and would erase calls of others: "
            "write the whole number"
        )


def chosen(
    records: Records, call_sids: Sequence[str], number: str | None, older_than_days: int | None
) -> list[str]:
    """CallSids that were named, those in which a number was told, and those that are too old.

    Raises NoNumber, and RecordsUnavailable.
    """
    found = list(call_sids)
    if number is not None:
        found += _with_number(records, number)
    if older_than_days is not None:
        before = time.time_ns() // 1_000_000 - older_than_days * DAY_MS
        found += records.older_than(before, most=1_000_000)
    return found


def _with_number(records: Records, number: str) -> list[str]:
    digits = re.sub(r"\D", "", number)
    if len(digits) < LEAST_DIGITS:
        raise NoNumber(number)
    return [
        one.row.call_sid
        for one in each(records, Wanted())
        if any(_same(digits, known) for known in told_in(one.as_dict()["record"]).numbers)
    ]


def _same(one: str, other: str) -> bool:
    """True for one telephone, with and without the country it is in, and with whatever was keyed
    before and after it."""
    if len(other) < LEAST_DIGITS:
        return False
    length = min(len(one), len(other), COMPARED)
    return one[-length:] == other[-length:] or (length == COMPARED and one[-length:] in other)
