"""`callflow doctor` says whether a server is fit to hold calls and who is there to answer them."""

from __future__ import annotations

import json
from collections.abc import Iterator
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
        _examine_node(node, as_json)
        return
    deployment.need()
    found: list[Check] = []
    for check in _examine():
        found.append(check)
        if not as_json:
            _print(check)
    severities = [str(check.severity) for check in found]
    fit = "failure" not in severities
    if as_json:
        terminal.print_line(json.dumps({"ok": fit, "checks": [check.as_dict() for check in found]}))
    else:
        _print_verdict(severities)
    if not fit:
        raise typer.Exit(1)


def _examine_node(node: str, as_json: bool) -> None:
    """One worker only. As `callflow.__main__` does it, for a server that has to be found first."""
    from callflow import bootstrap
    from callflow.health.node_check import check_node

    url = deployment.need()
    settings = bootstrap.settings()
    well, sentence = check_node(node, url, settings.broker_url or url, settings.broker_service)
    terminal.print_line(
        json.dumps({"ok": well, "node": node, "told": sentence}) if as_json else sentence
    )
    if not well:
        raise typer.Exit(1)


def _examine() -> Iterator[Check]:
    from callflow import bootstrap
    from callflow.cli.records import last_tests
    from callflow.health.check import Check, Severity
    from callflow.health.deployment_checks import Broker, DeploymentChecks, RecordKeeping
    from callflow.redis.scripts import Scripts

    settings = bootstrap.settings()
    # And not `queue_url`, which is for kombu: that writes some addresses in its own way.
    variable = "CALLFLOW_BROKER_URL" if settings.broker_url else "CALLFLOW_REDIS_URL"
    url = settings.broker_url or settings.redis_url or ""
    broker = Broker(url, settings.broker_service, variable)
    scripts = Scripts(bootstrap.client())
    try:
        checks = DeploymentChecks(scripts, settings.timing, broker.count_waiting)
        ttl_ms = settings.timing.completed_ttl_ms
        kept = RecordKeeping(scripts, ttl_ms, settings.keeping, last_tests)
        yield from checks.run(kept, settings.min_replicas)
    except StoreError as error:
        yield Check("server", Severity.FAILURE, str(error))
        if url == settings.redis_url:
            return
    yield from broker.check()


def _print(check: Check) -> None:
    from rich.table import Table

    severity = str(check.severity)
    grid = Table.grid(padding=(0, 2))
    grid.add_column(width=7)
    grid.add_column(width=11)
    cells = (severity, STYLES[severity]), (check.name, ""), (check.sentence, "")
    grid.add_row(*(terminal.text(words, style) for words, style in cells))
    if check.way_out:
        grid.add_row("", "", terminal.text(f"→ {check.way_out}", "dim"))
    terminal.print_page(grid)


def _print_verdict(severities: list[str]) -> None:
    bad = [
        terminal.counted(severities.count(severity), severity, plural)
        for severity, plural in (
            ("failure", "failures"),
            ("warning", "warnings"),
            ("unknown", "unknown"),
        )
        if severity in severities
    ]
    terminal.console().print()
    terminal.console().print(terminal.text(terminal.sentence(bad) or "all is well", "bold"))
