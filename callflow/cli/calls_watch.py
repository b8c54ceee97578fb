"""`callflow calls watch`: all calls, live. It reads the records and changes nothing."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from callflow.cli import deployment, terminal
from callflow.errors import StoreError

if TYPE_CHECKING:
    from callflow.board.board_reader import BoardState
    from callflow.board.rows import BoardRow
    from callflow.store.reader import CallSummary

    Teller = Callable[[CallSummary, BoardRow], str]

REDRAW_S = 0.25
"""So often the screen is drawn anew while no key is pressed: its clocks go on."""


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
        _tell_changes(interval, _for_programs)
    elif console.is_terminal and not console.is_dumb_terminal:
        _show(interval)
    else:
        _tell_changes(interval, _for_people)


def _show(interval_s: float) -> None:
    from rich.live import Live

    from callflow.cli import watch_page
    from callflow.cli.keys import keys
    from callflow.cli.watch_reader import Looking
    from callflow.cli.watch_view import View

    console, view = terminal.console(), View()
    looking = Looking(interval_s)
    seen = looking.seen()
    with keys() as read, Live(console=console, auto_refresh=False, screen=True) as live:
        while not view.quits:
            now = looking.seen()
            seen = replace(seen, opened=now.opened) if view.paused else now
            live.update(watch_page.page(seen, view, console), refresh=True)
            key = read(REDRAW_S)
            while key:
                view.press(key, seen.calls, watch_page.rows_of(console.size.height))
                key = read(0)
            looking.open(view.opened)
    looking.close()


def _looks(interval_s: float) -> Iterator[tuple[BoardState, str]]:
    """Read again and again; the second is why the last look failed. A server that goes away after
    the first one is waited for."""
    from callflow.cli.watch_reader import reader

    reading = reader()
    seen = reading.read()
    yield seen, seen.trouble
    while True:
        began = time.monotonic()
        try:
            seen = reading.read()
            trouble = seen.trouble
        except StoreError as error:
            trouble = str(error)
        yield seen, trouble
        time.sleep(max(0.0, began + interval_s - time.monotonic()))


def _tell_changes(interval_s: float, tell: Teller) -> None:
    told: dict[str, str] = {}
    known = ""
    for seen, trouble in _looks(interval_s):
        if trouble and trouble != known:
            terminal.note(trouble)
        known = trouble
        lines = {
            sight.call_sid: tell(sight, seen.rows[sight.call_sid].row)
            for sight in seen.look.calls
            if sight.call_sid in seen.rows
        }
        for sid, line in lines.items():
            if told.get(sid) != line:
                stamp = "" if tell is _for_programs else f"{terminal.clock(seen.look.now_ms)}  "
                terminal.line(f"{stamp}{line}")
        told = lines


def _for_programs(sight: CallSummary, row: BoardRow) -> str:
    """Names of fields are a promise; times are on the server's clock, ms."""
    from callflow.cli.calls_commands import summarize_call

    also = ("urgency", "lift", "address", "people", "flags", "talks", "alert", "takeovers")
    shown = row.to_dict()
    return json.dumps(
        {**summarize_call(sight), **{name: shown[name] for name in also}},
        ensure_ascii=False,
    )


def _for_people(sight: CallSummary, row: BoardRow) -> str:
    from callflow.cli import watch_page

    return watch_page.told(row)
