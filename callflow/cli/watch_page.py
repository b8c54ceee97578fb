"""The terminal board on the screen: the words and the order of the web board, and its shapes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.console import Console, Group
from rich.text import Text

from callflow.board import cells as said
from callflow.board.feed import STALE_MS, BoardSnapshot
from callflow.board.rows import SILENCE_MS, BoardRow
from callflow.cli import calls_commands, terminal
from callflow.cli.watch_view import KEYS, KEYS_OF_A_CALL, View
from callflow.i18n import catalogue

if TYPE_CHECKING:
    from callflow.call.record import CallRecord

LINES_A_CALL = 2
HEADER_LINES = 4
FOOTER_LINES = 2

ROOMY = 120
"""Columns from which on the second line stands below the state, and not further to the left."""

WORDS_LEAST = 40
"""Columns that are kept for the last words, before timers that do not press yet."""

SHAPES = {"P1": "⬢", "P2": "▲", "P3": "◆", "P4": "■", "P5": "○", "none": "–"}
"""As the web board draws them: urgency is told by shape and word, too, and not by colour alone."""

URGENCIES = {
    "P1": "bold white on red",
    "P2": "bold black on yellow",
    "P3": "bold cyan",
    "P4": "blue",
    "P5": "dim",
    "none": "",
}

STATES = {
    "listening": "cyan",
    "queued": "yellow",
    "answering": "green",
    "recovering": "bold red",
    "with_a_human": "magenta",
    "ended": "dim",
}

_DUE = {"P1": f"{SHAPES['P1']} ", "P2": f"{SHAPES['P2']} ", "none": "", "": ""}

LOOKS = {"grave": "bold red", "soon": "bold yellow", "over": "bold red", "": ""}
LAMPS = {"ok": "green", "understudy": "bold yellow", "bad": "bold red", "unknown": "dim"}

_WORDS = catalogue("en")


@dataclass(frozen=True, slots=True)
class Seen:
    """What there is to be shown at one moment."""

    board: BoardSnapshot
    age_ms: int
    """of the data"""
    swept_ms: int | None
    """how long ago somebody swept; None: longer than a second"""
    trouble: str = ""
    """why there is nothing newer"""
    opened: CallRecord | None = None
    """the call that is open, as it is now"""

    @property
    def calls(self) -> list[str]:
        """Their CallSids, in order."""
        return [row.call_sid for row in self.board.rows]


def rows_of(height: int) -> int:
    """How many calls fit."""
    return max(1, (height - HEADER_LINES - FOOTER_LINES) // LINES_A_CALL)


def page(seen: Seen, view: View, console: Console) -> Group:
    """The whole screen."""
    height, width = console.size.height, console.size.width
    head = header(seen, view, width)
    room = height - len(head) - FOOTER_LINES
    if view.opened is None:
        lines, keys = _calls(seen, view, rows_of(height), width), KEYS
    else:
        lines, keys = _call(seen, view, console, room), KEYS_OF_A_CALL
    lines = [*lines[:room], *(Text() for _ in range(room - len(lines)))]
    trouble = terminal.text(seen.trouble, "bold red")
    lines = [*head, *lines, trouble, _row([(_place(seen, view, height), ""), (keys, "dim")])]
    for line in lines:
        line.no_wrap = True
        line.truncate(width, overflow="ellipsis")
    return Group(*lines)


def _place(seen: Seen, view: View, height: int) -> str:
    """Which of the calls are to be seen, where not all of them are."""
    shown, total = view.window(seen.calls, rows_of(height)), len(seen.calls)
    if view.opened is not None or total <= rows_of(height):
        return ""
    return f"{shown.start + 1} to {min(shown.stop, total)} of {total}"


def header(seen: Seen, view: View, width: int) -> list[Text]:
    """Clock and age of the data, calls per state, who is at work, the last hour."""
    head = seen.board.header
    first = Text("callflow  ", "bold") + terminal.text(terminal.clock(seen.board.now_ms))
    if view.paused:
        first.append("  PAUSED: p goes on", "bold black on yellow")
    elif seen.age_ms > STALE_MS:
        told = _WORDS("board.stale", age=said.age(seen.age_ms))
        first.append(f"  {told}", "bold white on red")
    else:
        first.append(f"  data {said.age(seen.age_ms)} old", "dim")
    states = [
        (f"{count} {word}", STATES[said.state_of(word)]) for word, count in head["calls"].items()
    ]
    total = terminal.counted(head["active"], "call")
    hidden = f"{head['hidden']} {_WORDS('head.hidden')}" if head["hidden"] else ""
    return [
        first,
        _row([(total, "bold"), *states, (hidden, "bold red")]),
        *_at_work(seen, width),
    ]


def _at_work(seen: Seen, width: int) -> list[Text]:
    """Two lines: all on one where it fits, else the last hour on the one that is empty else."""
    head, silence_ms = seen.board.header, seen.board.header["silence_ms"]
    silence = "–" if silence_ms is None else said.age(silence_ms)
    takeovers = (f"{_WORDS('head.takeovers')}: {head['takeovers']}", "")
    *staffed, swept = _staffed(seen)
    whole = _row([*staffed, swept, takeovers, (f"{_WORDS('head.silence')}: {silence}", "")])
    if whole.cell_len <= width:
        return [whole, Text()]
    return [_row(staffed), _row([takeovers, (f"longest silence: {silence}", ""), swept])]


def _staffed(seen: Seen) -> list[tuple[str, str]]:
    head = seen.board.header
    working = {name: head[name] for name in ("workers", "busy", "slots")}
    at_work = "" if head["workers"] else "bold red"
    ago = "over 1 s ago" if seen.swept_ms is None else f"{said.age(seen.swept_ms)} ago"
    return [
        (_WORDS("head.of_workers", **working), at_work),
        *(
            (f"{_WORDS(f'head.{name}')} {_WORDS(f'lamp.{head[name]}')}", LAMPS[head[name]])
            for name in ("watchdog", "beat")
        ),
        (f"last sweep {ago}", "bold red" if seen.swept_ms is None else ""),
    ]


def _calls(seen: Seen, view: View, most: int, width: int) -> list[Text]:
    if not seen.calls:
        return [terminal.text(_WORDS("board.empty"), "dim")]
    return [
        line
        for row in seen.board.rows[view.window(seen.calls, most)]
        for line in call(row, seen.board.now_ms, width, chosen=row.call_sid == view.chosen)
    ]


def call(row: BoardRow, now_ms: int, width: int, *, chosen: bool) -> list[Text]:
    """One call on two lines: how urgent, where, who; and what is due, who talks, what was said."""
    told = said.row_cells(row.to_dict(), _WORDS, now_ms)
    part = told.parts
    over = row.outcome is not None
    urgency = f" {SHAPES[told.urgency]} {part['urgency']} {part['urgency_word']}".ljust(20)
    who = terminal.sentence((part["worker"], part["beat"], part["takeovers"]))
    first = Text("▌" if chosen else " ", "bold")
    first.append_text(terminal.text(urgency, "dim" if over else URGENCIES[told.urgency]))
    first.append_text(terminal.text(f" {part['state']:<13}", STATES[told.state]))
    late = row.waiting_since is not None and now_ms - row.waiting_since >= SILENCE_MS
    first.append_text(terminal.text(f"{part['waiting']:>7}  ", "bold red" if late else ""))
    place = terminal.sentence((part["lift"], part["address"]))
    about = [
        (part["people"], ""),
        *((flag.text, LOOKS[flag.look]) for flag in told.flags),
        (part["scenario"], ""),
        (part["outcome"], ""),
    ]
    first.append_text(_row([(place, "bold"), *about]))
    taken = terminal.text(who, "bold red" if row.takeovers else "dim")
    _beside(first, taken, width)
    return [first, _second(row, told, width, chosen=chosen)]


def _second(row: BoardRow, told: said.RowCells, width: int, *, chosen: bool) -> Text:
    part = told.parts
    ladder = "bold magenta" if row.alert == "accepted" else "bold"
    line = Text("▌" if chosen else " ", "bold").append(" " * (21 if width >= ROOMY else 3))
    line.append_text(
        _row(
            [
                (f"☎ {part['needed']}" if part["needed"] else "", "bold white on magenta"),
                (part["ladder"], ladder),
                (part["old"], "bold red"),
                (part["talks"], "dim"),
            ]
        )
    )
    due = _due(told, width - line.cell_len - WORDS_LEAST)
    room = width - line.cell_len - due.cell_len - 4
    if part["who"]:
        now = f" … {part['now']}" if part["now"] else ""
        words = terminal.text(f"  {part['who']}: ", "bold")
        words.append_text(terminal.text(part["words"], "not bold"))
        words.truncate(max(0, room - cell_len(now)), overflow="ellipsis")
        line.append_text(words.append(now, "dim"))
    _beside(line, due, width)
    return line


def _due(told: said.RowCells, room: int) -> Text:
    """The timers: all of them, or where there is no room those that press."""
    every = [(f"{_DUE[one.shape]}{one.text}", LOOKS[one.look]) for one in told.timers]
    due = _row(every)
    return due if due.cell_len <= room else _row([one for one in every if one[1]])


def _call(seen: Seen, view: View, console: Console, room: int) -> list[Text]:
    """The conversation of the call that is open: its end, or as far back as one has scrolled."""
    if seen.opened is None or seen.opened.call_sid != view.opened:
        return [terminal.text(f"{view.opened} has not been read yet, or has gone.", "dim")]
    room -= len(title := [terminal.text(f" {view.opened}", "bold"), Text()])
    every = console.render_lines(calls_commands.render_transcript(seen.opened), pad=False)
    view.back = min(view.back, max(0, len(every) - room))
    end = len(every) - view.back
    said_lines = [
        Text.assemble(*((one.text, one.style or "") for one in line))
        for line in every[max(0, end - room) : end]
    ]
    return [*title, *said_lines]


def _beside(line: Text, right: Text, width: int) -> None:
    """Put `right` at the right edge; it goes where there is no room for it."""
    room = width - line.cell_len - right.cell_len - 1
    if room > 0:
        line.append(" " * room).append_text(right)


def _row(parts: Sequence[tuple[str, str]]) -> Text:
    """Those parts that say something, each in its style, with dots between them."""
    texts = [terminal.text(words, style) for words, style in parts if words]
    return terminal.text(" · ", "dim").join(texts)


def told(row: BoardRow) -> str:
    """One call on one line without what passes by itself, for a file or a pipe."""
    part = said.row_cells(row.to_dict(), _WORDS, 0).parts
    return terminal.plain(
        terminal.sentence(
            (
                row.call_sid,
                f"{part['urgency']} {part['urgency_word']}",
                part["state"],
                part["needed"],
                part["ladder"],
                part["lift"],
                part["people"],
                part["scenario"],
                part["talks"],
                part["worker"],
                part["takeovers"],
                part["outcome"],
                f"{part['who']}: {part['words']}" if part["who"] else "",
            )
        )
    )
