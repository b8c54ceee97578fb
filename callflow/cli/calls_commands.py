"""`callflow calls`: list calls, show one, act in one, watch all; and `callflow sweep`."""

from __future__ import annotations

import getpass
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from callflow.cli import deployment, terminal
from callflow.errors import StoreError

if TYPE_CHECKING:
    from callflow.board.board_reader import BoardReader
    from callflow.board.rows import BoardRow
    from callflow.store.reader import CallSummary

    Describe = Callable[[CallSummary, BoardRow], str]
    from rich.console import RenderableType
    from rich.table import Table
    from rich.text import Text

    from callflow.call.history import JournalEntry
    from callflow.call.record import CallRecord

STATE_STYLES = {
    "listening": "cyan",
    "queued": "yellow",
    "answering": "green",
    "recovering": "bold red",
    "with a human": "magenta",
    "ended": "dim",
}

LATE_MS = 4_000
"""No caller is left in silence for longer: who waits longer is shown in red."""

CROWDED = 115
"""Columns below which some of a table's are left out, for the sake of the last words."""

_COLUMN_WIDTHS = {"state": 12, "waiting": 7}
_FIRST_TO_GO = ("turns", "waiting", "since", "scenario")

_LOSSES = frozenset({"reclaimed", "handed_back", "refused"})
"""Journal lines that say that a worker lost the call, which is what one looks for."""

CallSid = Annotated[str, typer.Argument(metavar="CALLSID", help="Twilio's name of the call.")]
By = Annotated[
    str | None, typer.Option(help="Who does it; the user of this machine where left out.")
]
Request = Annotated[
    str | None,
    typer.Option(help="A name for this request: given again, it is done once. For scripts."),
]
Level = Literal["P1", "P2", "P3", "P4", "P5"]


def list_calls(
    everything: Annotated[
        bool, typer.Option("--all", help="Also those that have ended and can still be read.")
    ] = False,
    limit: Annotated[int, typer.Option(min=1, help="At most so many of each kind.")] = 100,
    as_json: terminal.AsJson = False,
) -> None:
    """List calls: where each stands, and the last words said."""
    from callflow import bootstrap

    deployment.need()
    reader = bootstrap.reader()
    # A call may end between the two looks: it is then listed once, as ended.
    records = {each.call_sid: each for each in reader.active(limit)}
    if everything:
        records |= {each.call_sid: each for each in reader.ended(limit)}
    if as_json:
        terminal.print_line(
            "[" + ",\n".join(each.model_dump_json() for each in records.values()) + "]"
        )
        return
    counts = reader.counts()
    if records:
        width = terminal.console().width
        terminal.print_page(_list_table(list(records.values()), reader.now_ms(), width))
    left_out = "" if counts["active"] <= limit else f"the first {limit} are shown"
    terminal.print_note(
        terminal.sentence(
            (
                f"{terminal.counted(counts['active'], 'call')} under way",
                f"{counts['leased']} in work",
                f"{counts['owed']} waiting for a worker",
                left_out,
            )
        )
    )


def show(
    call_sid: CallSid,
    with_journal: Annotated[
        bool, typer.Option("--journal", help="Also what happened to it: claims, losses, replies.")
    ] = False,
    as_json: terminal.AsJson = False,
) -> None:
    """Show one call: what was said, where it stands, and with --journal who worked on it.

    --json prints the record itself; with --journal {"record": …, "journal": […]}.
    """
    from callflow import bootstrap

    deployment.need()
    record = bootstrap.reader().read(call_sid)
    journal = bootstrap.reader().journal(call_sid) if with_journal else None
    if not as_json:
        terminal.print_page(*render_call(record, journal))
    elif journal is None:
        terminal.print_line(record.model_dump_json())
    else:
        entries = ",".join(entry.model_dump_json(exclude_none=True) for entry in journal)
        terminal.print_line(f'{{"record":{record.model_dump_json()},"journal":[{entries}]}}')


def record_facts(
    call_sid: CallSid,
    facts: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME=VALUE…", help="Such as dispatch.requested=yes; NAME= takes one back."
        ),
    ],
    by: By = None,
    as_json: terminal.AsJson = False,
) -> None:
    """Record facts about a call, such as a dispatch or an arrival time: from then on the agent may
    say so. All are checked before the first is recorded; who did it stands in the journal."""
    from callflow import bootstrap
    from callflow.call.facts import HUMAN_FACTS, InvalidFact, parsed

    given = {}
    for each in facts:
        name, equals, value = each.partition("=")
        if not equals:
            raise InvalidFact(name, "has no value: write NAME=VALUE, such as eta_minutes=20")
        if not value and name not in HUMAN_FACTS:
            parsed(name, value)
        given[name] = parsed(name, value) if value else None
    deployment.need()
    who = _actor(by)
    record = bootstrap.store().staff.record_fact
    changed = {name: record(call_sid, name, value, who) for name, value in given.items()}
    if as_json:
        terminal.print_line(json.dumps({"call_sid": call_sid, "recorded": changed}))
        return
    for name, new in changed.items():
        shown = "taken back" if given[name] is None else json.dumps(given[name])
        terminal.print_line(f"{name}: {shown}" if new else f"{name}: {shown}, as it stood already")


def add_note(
    call_sid: CallSid,
    text: Annotated[str, typer.Argument(help="What is to be kept; nobody speaks it.")],
    by: By = None,
    request: Request = None,
    as_json: terminal.AsJson = False,
) -> None:
    """Keep a note with the record of a call: for colleagues, and never for the caller."""
    from callflow import bootstrap

    deployment.need()
    done = bootstrap.store().staff.add_note(
        call_sid, text, _actor(by), request=_request_id(request)
    )
    _print_done(call_sid, done, "noted" if done else "noted before", as_json)


def set_urgency(
    call_sid: CallSid,
    level: Annotated[Level, typer.Argument(help="P1, life at risk now, to P5, a test.")],
    reason: Annotated[
        str, typer.Option(help="Why; needed for less urgent than what was heard.")
    ] = "",
    by: By = None,
    request: Request = None,
    as_json: terminal.AsJson = False,
) -> None:
    """Say how urgent a call is: it stands until something graver is heard in it."""
    from callflow import bootstrap
    from callflow.messages import wake

    deployment.need()
    done, owed = bootstrap.store().staff.set_urgency(
        call_sid, level, _actor(by), request=_request_id(request), reason=reason
    )
    if owed:
        # It goes ahead of those that are less urgent now.
        wake(call_sid, urgency=level)
    _print_done(call_sid, done, level if done else f"{level}, as it was set before", as_json)


def end(
    call_sid: CallSid,
    what: Annotated[
        str,
        typer.Argument(
            metavar="DISPOSITION",
            help="released, emergency_service, handed_over, resolved, false_alarm, test, prank or "
            "nobody_there.",
        ),
    ],
    confirm: Annotated[
        bool, typer.Option("--confirm", help="Also where somebody may still be trapped.")
    ] = False,
    by: By = None,
    request: Request = None,
    as_json: terminal.AsJson = False,
) -> None:
    """End a call and close its line. Where somebody may still be trapped it is not ended, unless
    their release was recorded or you confirm."""
    from callflow import bootstrap
    from callflow.call.edits import disposition

    outcome = disposition(what)
    deployment.need()
    done = bootstrap.store().staff.end(
        bootstrap.reader().read,
        call_sid,
        outcome,
        _actor(by),
        request=_request_id(request),
        confirmed=confirm,
    )
    ringing = bootstrap.ringing()
    ringing.call_off(call_sid)
    closed = ringing.hang_up(call_sid)
    if as_json:
        terminal.print_line(json.dumps({"call_sid": call_sid, "done": done, "closed": closed}))
        return
    terminal.print_line(f"ended: {outcome}" if done else f"ended before: {outcome}")
    if not closed:
        terminal.print_line(
            "the carrier could not be asked to close the line: its next request closes it"
        )


def sweep(as_json: terminal.AsJson = False) -> None:
    """Sweep once: give the calls of dead or silent workers to living ones."""
    from callflow import bootstrap

    deployment.need()
    done = bootstrap.watchdog().sweep(by="operator")
    if as_json:
        terminal.print_line(json.dumps(asdict(done)))
        return
    passed = terminal.sentence(
        (
            f"{done.to_worker} to a worker" if done.to_worker else "",
            f"{done.to_human} to a human" if done.to_human else "",
        )
    )
    terminal.print_line(f"taken back   {done.reclaimed}" + (f"  ({passed})" if passed else ""))
    terminal.print_line(f"woken again  {done.woken}")
    terminal.print_line(f"abandoned    {done.abandoned}")


def summarize_call(record: CallRecord) -> dict[str, Any]:
    """One call as `calls watch --json` prints it; names of fields are a promise, times are on the
    server's clock, ms. Equal for two records between which nothing worth telling happened."""
    from callflow.call.record import last_words, waiting_since, word

    speaker, words = last_words(record) or (None, None)
    return {
        "call_sid": record.call_sid,
        "state": str(word(record)),
        "call_state": str(record.call_state),
        "worker": record.assigned_worker,
        "fence": record.fence,
        "attempts": record.attempts,
        "heard": record.heard,
        "answered": record.answered,
        "waiting_since": waiting_since(record),
        "scenario": record.scenario_type,
        "site": record.site,
        "needs_human": record.needs_human,
        "last_speaker": speaker,
        "last_words": words,
    }


def render_call(record: CallRecord, journal: Sequence[JournalEntry] | None) -> list[RenderableType]:
    """A call for the screen: what was said, where it stands, and what happened to it."""
    title = terminal.text(f"{record.call_sid}  ", "bold") + _state(record)
    parts: list[RenderableType] = [
        title,
        "",
        terminal.render_transcript(record),
        "",
        _fields(record),
    ]
    if journal is not None:
        parts += ["", _journal_table(record, journal)]
    return parts


def _actor(by: str | None) -> str:
    return by or getpass.getuser()


def _request_id(request: str | None) -> str:
    from callflow.store.staff_actions import new_request

    return request or new_request()


def _print_done(call_sid: str, done: bool, said: str, as_json: bool) -> None:
    terminal.print_line(json.dumps({"call_sid": call_sid, "done": done}) if as_json else said)


def _list_table(records: Sequence[CallRecord], now_ms: int, width: int) -> Table:
    """Where each call stands, with the whole CallSid to be copied."""
    cells: dict[str, Callable[[CallRecord], Text]] = {
        "call": lambda each: terminal.text(each.call_sid),
        "state": _state,
        "turns": lambda each: terminal.text(f"{each.answered}/{each.heard}"),
        "waiting": lambda each: _waiting(each, now_ms),
        "since": lambda each: terminal.text(terminal.clock(each.created_at)),
        "scenario": lambda each: terminal.text(each.scenario_type or ""),
        "last words": _last_words,
    }
    if width < CROWDED:
        cells = {name: cell for name, cell in cells.items() if name not in _FIRST_TO_GO}
    table = terminal.table(*cells, numbers=("waiting", "turns"))
    for column in table.columns:
        column.min_width = _COLUMN_WIDTHS.get(str(column.header), column.min_width)
    for record in records:
        table.add_row(*(cell(record) for cell in cells.values()))
    return table


def _state(record: CallRecord) -> Text:
    from callflow.call.record import word

    state = str(word(record))
    return terminal.text(state, STATE_STYLES[state])


def _waiting(record: CallRecord, now_ms: int) -> Text:
    from callflow.call.record import waiting_since

    since = waiting_since(record)
    if since is None:
        return terminal.text("")
    late = now_ms - since > LATE_MS
    return terminal.text(terminal.span(now_ms - since), "bold red" if late else "")


def _last_words(record: CallRecord) -> Text:
    from callflow.call.record import last_words

    last = last_words(record)
    return terminal.text("" if last is None else f"{last[0]}: {last[1] or '(silence)'}")


def _fields(record: CallRecord) -> Table:
    from rich.table import Table

    from callflow.call import facts

    sections = ", ".join(f"{chunk.sop}/{chunk.section}" for chunk in record.retrieved_sop_chunks)
    known = facts.known(record).items()
    told = ", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in known)
    others = ", ".join(record.open_scenarios[1:])
    takeovers = terminal.counted(record.attempts, "takeover")
    grid = Table.grid(padding=(0, 2))
    for name, value in (
        ("state", f"{record.call_state}, outcome {record.outcome or 'open'}"),
        ("worker", f"{record.assigned_worker or 'none'}, fence {record.fence}"),
        ("turns", f"{record.heard} heard, {record.answered} answered, {takeovers}"),
        ("handled by", f"{record.handling}, needs a human: {record.needs_human or 'no'}"),
        ("site", f"{record.site or 'unknown'}, language {record.language}"),
        ("urgency", record.urgency or "unknown"),
        ("scenario", f"{record.scenario_type or 'unknown'}, step {record.sop_step}"),
        ("also", others or "nothing else"),
        ("procedure", sections or "none retrieved"),
        ("facts", told or "none"),
        ("notes", "; ".join(f"{one.by}: {one.text}" for one in record.notes) or "none"),
        ("received", terminal.clock(record.created_at)),
        ("changed", terminal.clock(record.updated_at)),
    ):
        grid.add_row(terminal.text(name, "dim"), terminal.text(value))
    return grid


def _journal_table(record: CallRecord, journal: Sequence[JournalEntry]) -> Table:
    table = terminal.table(
        "after", "event", "turn", "fence", "worker", "why", numbers=("after", "turn", "fence")
    )
    for entry in journal:
        attempts = f"takeover {entry.attempts}" if entry.attempts else ""
        refused = f"write {entry.write}" if entry.write else ""
        by = f"by {entry.by}" if entry.by else ""
        recorded = f"{entry.fact} {by}" if entry.fact else by
        table.add_row(
            terminal.text(f"{(entry.at - record.created_at) / 1000:.3f} s", "dim"),
            terminal.text(entry.event, "bold red" if entry.event in _LOSSES else ""),
            terminal.text("" if entry.turn is None else str(entry.turn)),
            terminal.text("" if entry.fence is None else str(entry.fence)),
            terminal.text(entry.worker or ""),
            terminal.text(terminal.sentence((entry.reason or "", attempts, refused, recorded))),
        )
    return table


def watch(
    interval: Annotated[
        float, typer.Option(min=0.05, max=60, help="Seconds between two looks.")
    ] = 0.5,
    as_json: Annotated[
        bool, typer.Option("--json", help="For programs: one JSON line for each change.")
    ] = False,
) -> None:
    """Watch all calls as the board shows them: the gravest first, who talks, who waits.

    A terminal shows them until q or Ctrl-C; its keys stand at the bottom. Elsewhere each change is
    one line.
    """
    deployment.need()
    console = terminal.console()
    if as_json:
        _print_changes(interval, _to_json)
    elif console.is_terminal and not console.is_dumb_terminal:
        from callflow.cli import watch_screen

        watch_screen.show(make_reader(), interval)
    else:
        _print_changes(interval, _to_line)


def make_reader() -> BoardReader:
    """Reads the board from the server of this process. Raises SitesError."""
    from callflow import bootstrap
    from callflow.board.board_reader import BoardReader
    from callflow.health.deployment_checks import WorkforceStatus
    from callflow.health.worker_reports import ReportStore
    from callflow.redis.scripts import Scripts
    from callflow.store.reader import CallWatcher

    client = bootstrap.client()
    staff = partial(WorkforceStatus.read, ReportStore(Scripts(client)), bootstrap.leases())
    return BoardReader(CallWatcher(client), staff, bootstrap.sites().get)


def _print_changes(interval_s: float, describe: Describe) -> None:
    """Print a line for each call that has changed, for ever. A server that goes away after the
    first reading is waited for."""
    reader = make_reader()
    state, printed, known_trouble = reader.read(), dict[str, str](), ""
    trouble, began = state.trouble, time.monotonic()
    while True:
        if trouble and trouble != known_trouble:
            terminal.print_note(trouble)
        known_trouble = trouble
        lines = {
            call.call_sid: describe(call, state.rows[call.call_sid].row)
            for call in state.overview.calls
            if call.call_sid in state.rows
        }
        stamp = "" if describe is _to_json else f"{terminal.clock(state.overview.now_ms)}  "
        for sid, line in lines.items():
            if printed.get(sid) != line:
                terminal.print_line(f"{stamp}{line}")
        printed = lines
        time.sleep(max(0.0, began + interval_s - time.monotonic()))
        began = time.monotonic()
        try:
            state = reader.read()
            trouble = state.trouble
        except StoreError as error:
            trouble = str(error)


def _to_json(call: CallSummary, row: BoardRow) -> str:
    """Names of fields are a promise; times are on the server's clock, ms."""
    also = ("urgency", "lift", "address", "people", "flags", "talks", "alert", "takeovers")
    fields = row.to_dict()
    shown = {**summarize_call(call), **{name: fields[name] for name in also}}
    return json.dumps(shown, ensure_ascii=False)


def _to_line(call: CallSummary, row: BoardRow) -> str:
    from callflow.cli import watch_screen

    return watch_screen.describe(row)
