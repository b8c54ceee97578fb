"""`callflow doctor`: is the server fit to hold calls, and is anybody there to answer them?"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from callflow.cli import screen, server
from callflow.errors import StoreError

if TYPE_CHECKING:
    from callflow.store.doctor import Check

STYLES = {"ok": "green", "warning": "yellow", "failure": "bold red", "unknown": "blue"}


def doctor(as_json: screen.AsJson = False) -> None:
    """Examine the server, the workers and the watchdog; exit 1 when calls are in danger."""
    server.need()
    found: list[Check] = []
    for check in _checks():
        found.append(check)
        if not as_json:
            _print(check)
    grades = [str(check.grade) for check in found]
    fit = "failure" not in grades
    if as_json:
        screen.line(json.dumps({"ok": fit, "checks": [asdict(check) for check in found]}))
    else:
        _print_verdict(grades)
    if not fit:
        raise typer.Exit(1)


def _checks() -> Iterator[Check]:
    from callflow import bootstrap
    from callflow.store.doctor import Check, Doctor, Grade

    settings = bootstrap.settings()
    try:
        yield from Doctor(bootstrap.client(), bootstrap.leases(), bootstrap.snapshots()).checks()
    except StoreError as error:
        yield Check("server", Grade.FAILURE, str(error))
        if settings.queue_url == settings.redis_url:
            return
    yield from _broker_checks(settings.queue_url or "")


def _broker_checks(url: str) -> Iterator[Check]:
    from callflow.celery import TAKEOVER, TURNS, WATCHDOG
    from callflow.store.doctor import Check, Grade, broker_checks
    from callflow.store.script import connect

    if not url.startswith(("redis://", "rediss://", "unix://")):
        yield Check("broker", Grade.UNKNOWN, "it is no Redis server: look at it with its own tools")
        return
    try:
        yield from broker_checks(connect(url), (TAKEOVER, TURNS, WATCHDOG))
    except StoreError as error:
        yield Check(
            "broker",
            Grade.FAILURE,
            str(error),
            "no worker is woken until it is back; nothing is lost, the records say what is owed",
        )


def _print(check: Check) -> None:
    from rich.table import Table

    grade = str(check.grade)
    grid = Table.grid(padding=(0, 2))
    grid.add_column(width=7)
    grid.add_column(width=11)
    grid.add_row(
        screen.text(grade, STYLES[grade]), screen.text(check.name), screen.text(check.sentence)
    )
    if check.way_out:
        grid.add_row("", "", screen.text(f"→ {check.way_out}", "dim"))
    screen.page(grid)


def _print_verdict(grades: list[str]) -> None:
    bad = [
        screen.counted(grades.count(grade), grade, plural)
        for grade, plural in (
            ("failure", "failures"),
            ("warning", "warnings"),
            ("unknown", "unknown"),
        )
        if grade in grades
    ]
    screen.console().print()
    screen.console().print(screen.text(screen.sentence(bad) or "all is well", "bold"))
