"""Which calls an erasure is about, and what is left of them where they were worked on."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence

from callflow.cli import deployment, terminal
from callflow.errors import CallflowError
from callflow.language.private import told_in
from callflow.records.record_store import RecordStore
from callflow.records.search import RecordQuery, each

TOLD = 5
"""Calls that a sentence names; the rest are counted."""

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


class StillThere(CallflowError):
    """The lasting record is erased, and what was said can still be read in the working keys."""

    def __init__(self, call_sids: Sequence[str], until_ms: int, reason: str) -> None:
        self.call_sids = tuple(call_sids)
        self.until_ms = until_ms
        told = ", ".join(call_sids[:TOLD])
        more = f" and {len(call_sids) - TOLD} more" if len(call_sids) > TOLD else ""
        super().__init__(
            f"the lasting record is erased, and what was said may still be read in the working "
            f"keys of {told}{more} until {terminal.clock(until_ms)}: {reason}. Once it can be "
            "reached name these calls again; an archiver that reaches it does so itself"
        )


def forgotten(
    records: RecordStore, named: Sequence[str], done: Sequence[str]
) -> tuple[list[str], StillThere | None]:
    """Take away the working keys of calls that are erased: those that were named, though they were
    erased before, and those that are `done` and recent. Says of which there were some, and what is
    left where the server that holds them cannot be reached.
    """
    from callflow import bootstrap
    from callflow.redis.scripts import Scripts
    from callflow.store.archive_queue import LOOKS, ArchiveQueue

    ttl_ms = bootstrap.settings().timing.completed_ttl_ms
    stays_ms, now_ms = ttl_ms + ttl_ms // LOOKS, time.time_ns() // 1_000_000
    kept = records.erased(list(dict.fromkeys((*named, *done))))
    recent = {call_sid: at + stays_ms for call_sid, at in kept.items() if at + stays_ms > now_ms}
    wanted = [call_sid for call_sid in kept if call_sid in recent or call_sid in named]
    found: list[str] = []
    try:
        if not wanted or deployment.find() is None:
            reason = "no server is named here (CALLFLOW_REDIS_URL), and no local stack runs"
        else:
            unarchived, reason = ArchiveQueue(Scripts(bootstrap.client()), ttl_ms), ""
            for call_sid in wanted:
                found += [call_sid] if unarchived.forget(call_sid) else []
    except CallflowError as error:
        reason = str(error)
    left = [call_sid for call_sid in recent if call_sid not in found]
    if reason and left:
        return found, StillThere(left, max(recent[call_sid] for call_sid in left), reason)
    return found, None


def chosen(
    records: RecordStore, call_sids: Sequence[str], number: str | None, older_than_days: int | None
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


def _with_number(records: RecordStore, number: str) -> list[str]:
    digits = re.sub(r"\D", "", number)
    if len(digits) < LEAST_DIGITS:
        raise NoNumber(number)
    return [
        one.row.call_sid
        for one in each(records, RecordQuery())
        if any(_same(digits, known) for known in told_in(one.as_dict()["record"]).numbers)
    ]


def _same(one: str, other: str) -> bool:
    """True for one telephone, with and without the country it is in, and with whatever was keyed
    before and after it."""
    if len(other) < LEAST_DIGITS:
        return False
    length = min(len(one), len(other), COMPARED)
    return one[-length:] == other[-length:] or (length == COMPARED and one[-length:] in other)
