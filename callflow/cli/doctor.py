"""`callflow doctor`: is the server fit to hold calls, and is anybody there to answer them?"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from callflow.cli import deployment, terminal
from callflow.errors import StoreError

if TYPE_CHECKING:
    from callflow.health.check import Check

STYLES = {"ok": "green", "warning": "yellow", "failure": "bold red", "unknown": "blue"}


def doctor(
    node: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Examine one worker only, by the name behind its -n: for the health check of its "
            "container. Exit 1 when a restart would help.",
        ),
    ] = None,
    as_json: terminal.AsJson = False,
) -> None:
    """Examine the server, the workers and the watchdog; exit 1 when calls are in danger."""
    if node is not None:
        if not node.strip():
            # A health check with a variable that is not set would be green for ever.
            raise typer.BadParameter("is empty: write what stands behind the worker's -n")
        _examine(node, as_json)
        return
    deployment.need()
    found: list[Check] = []
    for check in _checks():
        found.append(check)
        if not as_json:
            _print(check)
    grades = [str(check.grade) for check in found]
    fit = "failure" not in grades
    if as_json:
        terminal.line(json.dumps({"ok": fit, "checks": [asdict(check) for check in found]}))
    else:
        _print_verdict(grades)
    if not fit:
        raise typer.Exit(1)


def _examine(node: str, as_json: bool) -> None:
    """One worker only. As `callflow.__main__` does it, for a server that has to be found first."""
    from callflow import bootstrap
    from callflow.health.node import told_of

    url = deployment.need()
    settings = bootstrap.settings()
    well, told = told_of(node, url, settings.broker_url or url, settings.broker_service)
    terminal.line(json.dumps({"ok": well, "node": node, "told": told}) if as_json else told)
    if not well:
        raise typer.Exit(1)


def _checks() -> Iterator[Check]:
    from callflow import bootstrap
    from callflow.celery import CALLS, WATCHDOG
    from callflow.cli import broker, records_checks
    from callflow.health.check import Check, Grade
    from callflow.health.rounds import Rounds
    from callflow.health.server import Doctor
    from callflow.redis.scripts import Scripts

    settings = bootstrap.settings()
    # And not `queue_url`, which is for kombu: that writes some addresses in its own way.
    url = settings.broker_url or settings.redis_url or ""
    rounds = Rounds(
        Scripts(bootstrap.client()),
        settings.timing,
        calls=CALLS,
        sweeps=WATCHDOG,
        waiting=lambda: broker.waiting(url),
    )
    try:
        writable = True
        for check in Doctor(bootstrap.client(), settings.min_replicas).checks():
            writable &= check.name != "writes" or check.grade is not Grade.FAILURE
            yield check
        if writable:
            yield from rounds.checks()
        else:
            told = "not judged: workers cannot say how they are while the server takes no writes"
            yield Check("workers", Grade.UNKNOWN, told, "see to the server first")
        yield from records_checks.checks()
    except StoreError as error:
        yield Check("server", Grade.FAILURE, str(error))
        if url == settings.redis_url:
            return
    yield from broker.checks(url)


def _print(check: Check) -> None:
    from rich.table import Table

    grade = str(check.grade)
    grid = Table.grid(padding=(0, 2))
    grid.add_column(width=7)
    grid.add_column(width=11)
    grid.add_row(
        terminal.text(grade, STYLES[grade]),
        terminal.text(check.name),
        terminal.text(check.sentence),
    )
    if check.way_out:
        grid.add_row("", "", terminal.text(f"→ {check.way_out}", "dim"))
    terminal.page(grid)


def _print_verdict(grades: list[str]) -> None:
    bad = [
        terminal.counted(grades.count(grade), grade, plural)
        for grade, plural in (
            ("failure", "failures"),
            ("warning", "warnings"),
            ("unknown", "unknown"),
        )
        if grade in grades
    ]
    terminal.console().print()
    terminal.console().print(terminal.text(terminal.sentence(bad) or "all is well", "bold"))
