"""`callflow calls show`: one call as its record has it, and what happened to it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from callflow.cli import deployment, terminal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType
    from rich.table import Table
    from rich.text import Text

    from callflow.call.history import JournalEntry
    from callflow.call.record import CallRecord

SPEAKERS = {"caller": "bold cyan", "agent": "green", "human": "magenta"}


def show(
    call_sid: Annotated[str, typer.Argument(metavar="CALLSID", help="Twilio's name of the call.")],
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
    record = bootstrap.snapshots().read(call_sid)
    journal = bootstrap.journal().read(call_sid) if with_journal else None
    if as_json:
        terminal.line(_json(record, journal))
        return
    terminal.page(*whole(record, journal))


def whole(record: CallRecord, journal: Sequence[JournalEntry] | None) -> list[RenderableType]:
    """A call for the screen: what was said, where it stands, and what happened to it."""
    parts: list[RenderableType] = [_title(record), "", transcript(record), "", _fields(record)]
    if journal is not None:
        parts += ["", _journal_table(record, journal)]
    return parts


def _json(record: CallRecord, journal: Sequence[JournalEntry] | None) -> str:
    if journal is None:
        return record.model_dump_json()
    entries = ",".join(entry.model_dump_json(exclude_none=True) for entry in journal)
    return f'{{"record":{record.model_dump_json()},"journal":[{entries}]}}'


def _title(record: CallRecord) -> Text:
    from callflow.cli import rows

    return terminal.text(f"{record.call_sid}  ", "bold") + rows.state(record)


def transcript(record: CallRecord) -> Table:
    """All that was said, with the times at which it was stored, and a reply still being spoken."""
    from rich.table import Table

    grid = Table.grid(padding=(0, 2))
    for entry in record.conversation_thread:
        grid.add_row(
            terminal.text(terminal.clock(entry.at), "dim"),
            terminal.text(entry.role, SPEAKERS[entry.role]),
            terminal.text(entry.text) if entry.text else terminal.text("(silence)", "dim"),
        )
    if record.draft is not None and record.draft.turn > record.answered:
        said = terminal.text(record.draft.text)
        said.append(" … being said", "dim")
        grid.add_row(terminal.text("now", "dim"), terminal.text("agent", SPEAKERS["agent"]), said)
    return grid


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


_LOSSES = frozenset({"reclaimed", "handed_back", "refused"})
"""Lines that say that a worker lost the call, which is what one looks for."""
