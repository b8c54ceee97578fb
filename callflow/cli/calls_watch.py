"""`callflow calls watch`: all calls, live. It reads the records and changes nothing."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

import typer

from callflow.cli import screen, server
from callflow.errors import StoreUnavailable

if TYPE_CHECKING:
    from rich.console import Console, Group

    from callflow.call.record import CallRecord

LINGER_S = 10.0
"""How long a call that has ended stays in sight, so that one sees how it ended."""


def watch(
    interval: Annotated[
        float, typer.Option(min=0.05, max=60, help="Seconds between two looks.")
    ] = 0.5,
    as_json: Annotated[
        bool, typer.Option("--json", help="For programs: one JSON line for each change.")
    ] = False,
) -> None:
    """Watch all calls until Ctrl-C: who works on which, who waits, what was said last."""
    server.need()
    if as_json:
        _tell_changes(interval)
    else:
        _show(interval)


@dataclass(frozen=True, slots=True)
class Look:
    """What one look over all calls found."""

    records: tuple[CallRecord, ...]
    now_ms: int
    workers: int
    trouble: str = ""
    """Why this is the last look that succeeded, and no new one."""


class _Watched:
    """The calls under way, and for a while those that were and have ended."""

    def __init__(self) -> None:
        self._left: dict[str, float] = {}
        self._active: set[str] = set()

    def look(self) -> Look:
        """Calls that wait longest first, ended ones last."""
        from callflow import bootstrap

        snapshots = bootstrap.snapshots()
        active = snapshots.active()
        now = time.monotonic()
        names = {record.call_sid for record in active}
        self._left |= dict.fromkeys(self._active - names, now)
        self._left = {
            sid: since
            for sid, since in self._left.items()
            if sid not in names and now - since < LINGER_S
        }
        self._active = names
        left = snapshots.find_all(list(self._left)).values()
        present = bootstrap.leases().present_now()
        return Look((*active, *left), snapshots.now_ms(), len(present))


def _looks(interval_s: float) -> Iterator[Look]:
    """Look again and again. A server that goes away after the first look is waited for."""
    watched = _Watched()
    last = watched.look()
    yield last
    while True:
        began = time.monotonic()
        try:
            last = watched.look()
        except StoreUnavailable as error:
            last = replace(last, trouble=str(error))
        yield last
        time.sleep(max(0.0, began + interval_s - time.monotonic()))


def _tell_changes(interval_s: float) -> None:
    from callflow.cli.rows import Row

    told: dict[str, Row] = {}
    trouble = ""
    for look in _looks(interval_s):
        if look.trouble and look.trouble != trouble:
            screen.note(look.trouble)
        trouble = look.trouble
        rows = {record.call_sid: Row.of(record) for record in look.records}
        for sid, row in rows.items():
            if told.get(sid) != row:
                screen.line(json.dumps(row.as_dict(), ensure_ascii=False))
        told = rows


def _show(interval_s: float) -> None:
    from rich.live import Live

    console = screen.console()
    with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
        for look in _looks(interval_s):
            live.update(_page(look, console), refresh=True)


def _page(look: Look, console: Console) -> Group:
    from rich.console import Group

    from callflow.call.words import word
    from callflow.cli import rows

    words = [word(record) for record in look.records]
    room = max(1, console.height - 6)
    hidden = len(look.records) - room
    summary = screen.sentence(
        (
            screen.counted(look.workers, "worker process", "worker processes"),
            *(f"{words.count(each)} {each}" for each in rows.STYLES if each in words),
            "" if words else "no calls",
            f"{hidden} more than fit here" if hidden > 0 else "",
        )
    )
    return Group(
        rows.live_table(look.records[:room], look.now_ms, console.width),
        screen.text(summary, "dim"),
        screen.text(look.trouble, "bold red"),
    )
