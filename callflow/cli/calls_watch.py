"""`callflow calls watch`: shows all calls, live. It reads the records and changes nothing."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from callflow.cli import deployment, terminal
from callflow.errors import StoreError

if TYPE_CHECKING:
    from callflow.board.board_reader import BoardReader
    from callflow.board.rows import BoardRow
    from callflow.store.reader import CallSummary

    Describe = Callable[[CallSummary, BoardRow], str]


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
    from callflow.cli.calls_commands import summarize_call

    also = ("urgency", "lift", "address", "people", "flags", "talks", "alert", "takeovers")
    fields = row.to_dict()
    shown = {**summarize_call(call), **{name: fields[name] for name in also}}
    return json.dumps(shown, ensure_ascii=False)


def _to_line(call: CallSummary, row: BoardRow) -> str:
    from callflow.cli import watch_screen

    return watch_screen.describe(row)
