"""Calls as rows: what the list shows of each, and what programs get."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from callflow.call.record import CallRecord
from callflow.call.words import Word, last_words, waiting_since, word
from callflow.cli import terminal

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

STYLES = {
    Word.LISTENING: "cyan",
    Word.QUEUED: "yellow",
    Word.ANSWERING: "green",
    Word.RECOVERING: "bold red",
    Word.WITH_A_HUMAN: "magenta",
    Word.ENDED: "dim",
}

LATE_MS = 4_000
"""No caller is left in silence for longer: who waits longer is shown in red."""

CROWDED = 115
"""Columns below which some of a table's are left out, for the sake of the last words."""

_ROOM = {"state": 12, "waiting": 7}
"""What changes all the time must not move what stands beside it."""


@dataclass(frozen=True, slots=True)
class Row:
    """What people look at in one call; times are on the server's clock, ms."""

    call_sid: str
    state: str
    call_state: str
    worker: str | None
    fence: int
    attempts: int
    heard: int
    answered: int
    waiting_since: int | None
    scenario: str | None
    site: str | None
    needs_human: str | None
    last_speaker: str | None
    last_words: str | None

    @classmethod
    def of(cls, record: CallRecord) -> Row:
        """The row of a call: equal for two records between which nothing worth telling happened."""
        speaker, words = last_words(record) or (None, None)
        return cls(
            call_sid=record.call_sid,
            state=str(word(record)),
            call_state=str(record.call_state),
            worker=record.assigned_worker,
            fence=record.fence,
            attempts=record.attempts,
            heard=record.heard,
            answered=record.answered,
            waiting_since=waiting_since(record),
            scenario=record.scenario_type,
            site=record.site,
            needs_human=record.needs_human,
            last_speaker=speaker,
            last_words=words,
        )

    def as_dict(self) -> dict[str, Any]:
        """For programs. Field names are a promise."""
        return asdict(self)


def list_table(records: Sequence[CallRecord], now_ms: int, width: int) -> Table:
    """Where each call stands, with the whole CallSid to be copied."""
    cells: dict[str, Callable[[CallRecord], Text]] = {
        "call": lambda each: terminal.text(each.call_sid),
        "state": state,
        "turns": lambda each: terminal.text(f"{each.answered}/{each.heard}"),
        "waiting": lambda each: waiting(each, now_ms),
        "since": lambda each: terminal.text(terminal.clock(each.created_at)),
        "scenario": scenario,
        "last words": said,
    }
    return _table(records, cells, width, first_to_go=("turns", "waiting", "since", "scenario"))


def _table(
    records: Sequence[CallRecord],
    cells: Mapping[str, Callable[[CallRecord], Text]],
    width: int,
    *,
    first_to_go: Collection[str],
) -> Table:
    shown = {
        name: cell for name, cell in cells.items() if width >= CROWDED or name not in first_to_go
    }
    table = terminal.table(*shown, numbers=("waiting", "turns"))
    for column in table.columns:
        column.min_width = _ROOM.get(str(column.header), column.min_width)
    for record in records:
        table.add_row(*(cell(record) for cell in shown.values()))
    return table


def state(record: CallRecord) -> Text:
    """The word for where the call stands, in its colour."""
    here = word(record)
    return terminal.text(str(here), STYLES[here])


def waiting(record: CallRecord, now_ms: int) -> Text:
    """For how long the caller has waited; in red when that is too long."""
    since = waiting_since(record)
    late = since is not None and now_ms - since > LATE_MS
    return terminal.text(_age(since, now_ms), "bold red" if late else "")


def said(record: CallRecord) -> Text:
    """Who spoke last, and what."""
    last = last_words(record)
    if last is None:
        return terminal.text("")
    speaker, words = last
    return terminal.text(f"{speaker}: {words or '(silence)'}")


def scenario(record: CallRecord) -> Text:
    """What kind of call it is, once that is known."""
    return terminal.text(record.scenario_type or "")


def _age(since: int | None, now_ms: int) -> str:
    return "" if since is None else terminal.span(now_ms - since)
