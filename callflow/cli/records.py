"""`callflow records` finds, shows, exports, verifies and erases the records that last."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from callflow.cli import deployment, terminal
from callflow.errors import CallflowError

if TYPE_CHECKING:
    from callflow.records.keeping import LastTest
    from callflow.records.record_store import RecordStore
    from callflow.records.search import RecordQuery
    from callflow.records.verify import ChainVerdict
    from callflow.sites.directory import Sites

TIMES = ["%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S"]

Since = Annotated[
    datetime | None,
    typer.Option(formats=TIMES, help="Only calls that ended then or later, by this clock."),
]
Until = Annotated[
    datetime | None, typer.Option(formats=TIMES, help="Only calls that ended before.")
]
Site = Annotated[str | None, typer.Option(help="Only calls of this lift.")]
Outcome = Annotated[str | None, typer.Option(help="Only calls that ended so, as in `hung_up`.")]
Text = Annotated[str | None, typer.Option(help="Only calls in which this was said.")]


NAMED = 5
"""Calls that a sentence names; the rest are counted."""

DAY_MS = 86_400_000

LEAST_DIGITS = 7
"""Fewer are no telephone number: they would erase calls of others."""

COMPARED = 9
"""Digits from the end: the rest is how a country is dialled, or its zero at home."""


class NothingAsked(CallflowError):
    """An erasure that names no call: it is never all of them."""

    def __init__(self) -> None:
        super().__init__(
            "nothing was erased: name calls by their CallSids, or give --number or --older-than"
        )


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
        shown = ", ".join(call_sids[:NAMED])
        more = f" and {len(call_sids) - NAMED} more" if len(call_sids) > NAMED else ""
        super().__init__(
            f"the lasting record is erased, and what was said may still be read in the working "
            f"keys of {shown}{more} until {terminal.clock(until_ms)}: {reason}. Once it can be "
            "reached name these calls again; an archiver that reaches it does so itself"
        )


def opened() -> RecordStore:
    """The records of this deployment: those that the settings name, or those of a local stack.

    Raises SettingsError where they have no place.
    """
    from callflow import bootstrap
    from callflow.errors import SettingsError
    from callflow.records.record_store import RecordStore

    settings = bootstrap.settings()
    if settings.keeping is None and (settings.data_dir / deployment.RECORDS).exists():
        deployment.keep_records(settings.data_dir)
    keeping = bootstrap.settings().keeping
    if keeping is None:
        raise SettingsError(
            "CALLFLOW_RECORDS_URL",
            "not set, and no local stack has kept any here: name where records last, such as "
            "sqlite:////var/lib/callflow/records.db or postgresql+psycopg://user:password@host/db",
        )
    return RecordStore.open(keeping.url, keeping.key)


def _kept() -> RecordStore:
    """The same where something was kept: a database that is made by a person who looks, the
    archiver may not be able to open. Raises NothingKept."""
    records = opened()
    records.database.need()
    return records


def ls(
    since: Since = None,
    until: Until = None,
    site: Site = None,
    outcome: Outcome = None,
    text: Text = None,
    limit: Annotated[int, typer.Option(min=1, help="At most so many.")] = 100,
    as_json: terminal.AsJson = False,
) -> None:
    """List records, the newest end first."""
    from dataclasses import asdict

    from callflow.records.search import list_records

    found = list_records(_kept(), _wanted(since, until, site, outcome, text), limit)
    if as_json:
        terminal.print_line(json.dumps([asdict(row) for row in found], ensure_ascii=False))
        return
    table = terminal.table("ended", "call", "site", "urgency", "outcome", "scenario")
    for row in found:
        ended = "" if row.ended_at is None else terminal.clock(row.ended_at)
        known = (row.site or "", row.urgency or "", row.outcome or "", row.scenario or "")
        shown = ("", "", "erased", "") if row.erased else known
        table.add_row(*(terminal.text(cell) for cell in (ended, row.call_sid, *shown)))
    if found:
        terminal.print_page(table)
    terminal.print_note(terminal.counted(len(found), "record"))


def show(
    call_sid: Annotated[str, typer.Argument(metavar="CALLSID", help="Twilio's name of the call.")],
    as_json: terminal.AsJson = False,
) -> None:
    """Show one record whole: what was said and what happened, or who has erased it and why."""
    from callflow.call.history import JournalEntry
    from callflow.call.record import CallRecord
    from callflow.cli.calls_commands import render_call
    from callflow.records.search import read_record

    found = read_record(_kept(), call_sid)
    if as_json:
        terminal.print_line(json.dumps(found.as_dict(), ensure_ascii=False))
    elif found.erasure is not None:
        at = terminal.clock(int(found.erasure["at"]))
        shown = f"{call_sid} was erased {at} by {found.erasure['by']}: {found.erasure['why']}"
        terminal.print_page(terminal.text(shown))
    else:
        record = CallRecord.model_validate(found.as_dict()["record"])
        terminal.print_page(
            *render_call(record, [JournalEntry.model_validate(one) for one in found.journal])
        )


def export(
    since: Since = None,
    until: Until = None,
    site: Site = None,
    outcome: Outcome = None,
    text: Text = None,
    plain: Annotated[
        bool, typer.Option("--plain", help="With names and telephone numbers as they were said.")
    ] = False,
) -> None:
    """Write records to stdout, one JSON object a line, in the order in which they were kept.

    Telephone numbers and names are taken out unless --plain is given.
    """
    from callflow.language.redact import find_private_terms, redact
    from callflow.records.search import read_records

    for found in read_records(_kept(), _wanted(since, until, site, outcome, text)):
        one = found.as_dict()
        shown = one if plain else redact(one, find_private_terms(one["record"]))
        terminal.print_line(json.dumps(shown, ensure_ascii=False))


def verify(
    head: Annotated[
        str | None,
        typer.Option(
            metavar="ROW:HASH",
            help="A head that an earlier `verify` has told and that was kept elsewhere: shows that "
            "nothing was taken from the end since.",
        ),
    ] = None,
    as_json: terminal.AsJson = False,
) -> None:
    """Read the whole chain; exit 1 where it was changed, and name the call and the entry."""
    from callflow.records.verify import verify as walked

    verdict = walked(_kept(), known_head=None if head is None else _head(head))
    if as_json:
        _verdict_as_json(verdict)
    else:
        _print_verdict(verdict)
    if not verdict.holds:
        raise typer.Exit(1)


def _head(text: str) -> tuple[int, str]:
    row, _, hashed = text.partition(":")
    if not row.isdecimal() or not hashed:
        raise typer.BadParameter("is no head: write it as `callflow records verify` tells it")
    return int(row), hashed


def _verdict_as_json(verdict: ChainVerdict) -> None:
    from dataclasses import asdict

    shown = {
        "ok": verdict.holds,
        "faults": [{**asdict(one), "sentence": one.sentence} for one in verdict.faults],
        "rows": verdict.rows,
        "entries": verdict.entries,
        "erased": verdict.erased,
        "sealed": verdict.sealed,
        "unsealed": verdict.unsealed,
        "head": f"{verdict.head.position}:{verdict.head.hash}",
    }
    terminal.print_line(json.dumps(shown))


def _print_verdict(verdict: ChainVerdict) -> None:
    for fault in verdict.faults:
        terminal.print_page(terminal.text(fault.sentence, "bold red"))
    key = "sealed with the key" if verdict.sealed else "without a key: see CALLFLOW_RECORDS_KEY"
    if verdict.keyed and verdict.unsealed:
        key = f"{terminal.counted(verdict.unsealed, 'row')} not sealed"
        if verdict.holds:
            rows = f"row{'s 1–' if verdict.unsealed > 1 else ' '}{verdict.unsealed}"
            key = f"{rows} have no code: not sealed, from before CALLFLOW_RECORDS_KEY was set"
    shown = (
        "the chain holds" if verdict.holds else "the chain was changed",
        terminal.counted(verdict.rows, "row"),
        terminal.counted(verdict.entries, "entry", "entries"),
        f"{verdict.erased} erased" if verdict.erased else "",
        key,
        f"head {verdict.head.position}:{verdict.head.hash}",
    )
    terminal.print_page(terminal.text(terminal.sentence(shown)))


def _filled(text: str) -> str:
    if not text.strip():
        raise typer.BadParameter("is blank, and stands for good where the content was")
    return text.strip()


def erase(
    why: Annotated[str, typer.Option(help="Why, for the record of the erasure.", callback=_filled)],
    by: Annotated[
        str, typer.Option(help="Who asks for it, for the record of the erasure.", callback=_filled)
    ],
    call_sids: Annotated[
        list[str] | None, typer.Argument(metavar="CALLSID...", help="These calls.")
    ] = None,
    number: Annotated[
        str | None, typer.Option(help="Calls in which this telephone number was told or keyed.")
    ] = None,
    older_than: Annotated[
        int | None, typer.Option(metavar="DAYS", min=1, help="Calls that ended before then.")
    ] = None,
    as_json: terminal.AsJson = False,
) -> None:
    """Erase all content of calls; what stays tells that they were kept and who erased them and why.

    What was said goes from the working keys too. Exit 1 where there is nothing to erase, and where
    those keys cannot be reached.
    """
    if not call_sids and number is None and older_than is None:
        raise NothingAsked
    records = _kept()
    chosen = _choose(records, call_sids or (), number, older_than)
    done = records.erase(chosen, by=by, why=why)
    gone, left = _forget_working_keys(records, call_sids or (), done.calls)
    shown = {"erased": list(done.calls), "entries": done.entries, "working_keys_of": gone}
    if as_json:
        terminal.print_line(json.dumps(shown))
    else:
        terminal.print_note(f"{terminal.counted(len(done.calls), 'call')} erased")
    if left is not None:
        raise left
    if not done.calls and not gone:
        raise typer.Exit(1)


def _forget_working_keys(
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
            queue, reason = ArchiveQueue(Scripts(bootstrap.client()), ttl_ms), ""
            for call_sid in wanted:
                found += [call_sid] if queue.forget(call_sid) else []
    except CallflowError as error:
        reason = str(error)
    left = [call_sid for call_sid in recent if call_sid not in found]
    if reason and left:
        return found, StillThere(left, max(recent[call_sid] for call_sid in left), reason)
    return found, None


def _choose(
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
    from callflow.language.redact import find_private_terms
    from callflow.records.search import RecordQuery, read_records

    digits = re.sub(r"\D", "", number)
    if len(digits) < LEAST_DIGITS:
        raise NoNumber(number)
    return [
        one.row.call_sid
        for one in read_records(records, RecordQuery())
        if any(
            _is_same_number(digits, known)
            for known in find_private_terms(one.as_dict()["record"]).numbers
        )
    ]


def _is_same_number(one: str, other: str) -> bool:
    """True for one telephone, with and without the country it is in, and with whatever was keyed
    before and after it."""
    if len(other) < LEAST_DIGITS:
        return False
    length = min(len(one), len(other), COMPARED)
    return one[-length:] == other[-length:] or (length == COMPARED and one[-length:] in other)


def ledger(as_json: terminal.AsJson = False) -> None:
    """When each lift's last good test call was; exit 1 where one has made none for too long."""
    from dataclasses import asdict

    hours, found = last_tests(opened())
    if as_json:
        terminal.print_line(json.dumps({"hours": hours, "lifts": [asdict(one) for one in found]}))
    else:
        table = terminal.table("", "lift", "last good test call")
        for one in found:
            late = terminal.text(
                "overdue" if one.overdue else "ok", "bold red" if one.overdue else ""
            )
            when = "never" if one.at is None else terminal.clock(one.at)
            table.add_row(late, terminal.text(one.site), terminal.text(when))
        if found:
            terminal.print_page(table)
        overdue = sum(one.overdue for one in found)
        terminal.print_note(
            f"{overdue} of {terminal.counted(len(found), 'lift')} without one for {hours} h"
        )
    if any(one.overdue for one in found):
        raise typer.Exit(1)


def last_tests(records: RecordStore) -> tuple[int, list[LastTest]]:
    """After how many hours a test call is overdue, and each lift of CALLFLOW_SITES, or of a local
    stack, with its last good one. Raises SettingsError where no lifts are named, SitesError and
    RecordsUnavailable."""
    from callflow import bootstrap
    from callflow.records.keeping import ledger as judged

    hours = bootstrap.settings().test_call_hours
    lifts = [site.id for site in _lifts()]
    return hours, judged(lifts, records.last_tests(), time.time_ns() // 1_000_000, hours)


def _lifts() -> Sites:
    from callflow import bootstrap
    from callflow.errors import SettingsError
    from callflow.lab.carrier.phone_account import read_phone
    from callflow.sites.directory import Sites

    settings = bootstrap.settings()
    if settings.sites is not None:
        return bootstrap.sites()
    if deployment.read_url(settings.data_dir) is not None:
        shown = read_phone(settings.data_dir).get("sites")
        if isinstance(shown, str):
            return Sites.load(Path(shown))
    raise SettingsError(
        "CALLFLOW_SITES",
        "not set here, and no local stack tells of its own: without its lifts nobody knows which "
        "of them made no test call; name the file as the web process does",
    )


def _wanted(
    since: datetime | None,
    until: datetime | None,
    site: str | None,
    outcome: str | None,
    text: str | None,
) -> RecordQuery:
    from callflow.records.search import RecordQuery

    return RecordQuery(_ms(since), _ms(until), site, outcome, text)


def _ms(moment: datetime | None) -> int | None:
    return None if moment is None else round(moment.timestamp() * 1000)
