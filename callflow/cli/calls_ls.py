"""`callflow calls ls`: which calls there are, the one that waits longest first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from callflow.cli import deployment, terminal

if TYPE_CHECKING:
    from callflow.call.record import CallRecord


def ls(
    everything: Annotated[
        bool, typer.Option("--all", help="Also those that have ended and can still be read.")
    ] = False,
    limit: Annotated[int, typer.Option(min=1, help="At most so many of each kind.")] = 100,
    as_json: terminal.AsJson = False,
) -> None:
    """List calls: where each stands, and the last words said."""
    from callflow import bootstrap

    deployment.need()
    snapshots = bootstrap.snapshots()
    # A call may end between the two looks: it is then listed once, as ended.
    records = {each.call_sid: each for each in snapshots.active(limit)}
    if everything:
        records |= {each.call_sid: each for each in snapshots.ended(limit)}
    if as_json:
        terminal.line("[" + ",\n".join(each.model_dump_json() for each in records.values()) + "]")
        return
    counts = snapshots.counts()
    if records:
        _print(list(records.values()), snapshots.now_ms())
    left_out = "" if counts["active"] <= limit else f"the first {limit} are shown"
    terminal.note(
        terminal.sentence(
            (
                f"{terminal.counted(counts['active'], 'call')} under way",
                f"{counts['leased']} in work",
                f"{counts['owed']} waiting for a worker",
                left_out,
            )
        )
    )


def _print(records: list[CallRecord], now_ms: int) -> None:
    from callflow.cli import rows

    terminal.page(rows.list_table(records, now_ms, terminal.console().width))
