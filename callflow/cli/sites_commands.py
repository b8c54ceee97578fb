"""`callflow sites check`: say what is wrong in a file of sites before it meets a caller."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from callflow.cli import terminal

if TYPE_CHECKING:
    from callflow.sites.directory import Sites

ACKNOWLEDGED_WITHIN_S = 45
"""ASME A17.1 (2019): a call that nobody has acknowledged by then is passed on."""


def check(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="YAML or CSV.")],
    as_json: terminal.AsJson = False,
) -> None:
    """Check a file of sites; each problem on its own line, as path:line: reason."""
    from callflow.sites.directory import Sites, SitesError, check

    sites, problems = None, []
    try:
        sites = Sites.load(file)
    except SitesError:
        problems = check(file)  # All of them: `load` tells the first.
    warnings = [] if sites is None else list(_warnings(sites))
    if as_json:
        told = [{"path": str(p.path), "line": p.line, "reason": p.reason} for p in problems]
        terminal.print_line(
            json.dumps({"ok": not problems, "problems": told, "warnings": warnings})
        )
    elif sites is None:
        for each in problems:
            terminal.print_line(terminal.plain(str(each)))
        terminal.print_note(
            f"{terminal.counted(len(problems), 'problem')}: no process would start with it"
        )
    else:
        for warning in warnings:
            terminal.print_note(warning)
        terminal.print_line(f"{file}: all right, {_summary(sites)}")
    if problems:
        raise typer.Exit(1)


def _summary(sites: Sites) -> str:
    parts = [terminal.counted(len(sites), "site")]
    for name in ("mode", "language"):
        counts = Counter(getattr(site, name) for site in sites)
        parts.append(", ".join(f"{count} × {value}" for value, count in sorted(counts.items())))
    numbers = {human.number for site in sites for human in site.humans}
    return " · ".join((*parts, f"{terminal.counted(len(numbers), 'number')} on the ladders"))


def _warnings(sites: Sites) -> Iterator[str]:
    for site in sites:
        if len(site.humans) == 1:
            yield f"site {site.id}: one human only; nobody comes after them"
        if site.humans[0].ring_s > ACKNOWLEDGED_WITHIN_S:
            yield (
                f"site {site.id}: the first human is rung for {site.humans[0].ring_s} s; ASME "
                f"A17.1 wants a call acknowledged or passed on within {ACKNOWLEDGED_WITHIN_S} s"
            )
        if site.emergency_number is None:
            yield f"site {site.id}: no emergency_number to tell to the human"
