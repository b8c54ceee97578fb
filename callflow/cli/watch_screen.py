"""Draws the terminal board and reads its keys: the words, order and shapes of the web board."""

from __future__ import annotations

import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from prompt_toolkit.input.vt100 import Vt100Input
from rich.cells import cell_len
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from callflow import bootstrap
from callflow.board.board_reader import BoardReader
from callflow.board.feed import STALE_MS, BoardClock, BoardSnapshot, BoardVersions
from callflow.board.rows import SILENCE_MS, BoardRow, RowCells, age, row_cells, state_of
from callflow.call.record import CallRecord
from callflow.cli import terminal
from callflow.errors import StoreError
from callflow.i18n import catalogue

REDRAW_S: Final = 0.25
"""So often the screen is drawn anew while no key is pressed: its clocks go on."""

ESCAPE_WITHIN_S: Final = 0.05
"""The rest of an arrow key follows its first byte at once; a lone Escape has none."""

LINES_PER_CALL, HEADER_LINES, FOOTER_LINES = 2, 4, 2

ROOMY: Final = 120
"""Columns from which on the second line stands below the state, and not further to the left."""

WORDS_LEAST: Final = 40
"""Columns that are kept for the last words, before timers that do not press yet."""

SHAPES: Final = {"P1": "⬢", "P2": "▲", "P3": "◆", "P4": "■", "P5": "○", "none": "–"}
"""As the web board draws them: urgency is told by shape and word, too, and not by colour alone."""

URGENCIES: Final = {
    **{"P1": "bold white on red", "P2": "bold black on yellow", "P3": "bold cyan", "P4": "blue"},
    **{"P5": "dim", "none": ""},
}

STATES: Final = {
    **{"listening": "cyan", "queued": "yellow", "answering": "green", "recovering": "bold red"},
    **{"with_a_human": "magenta", "ended": "dim"},
}

BADGES: Final = {"grave": "bold red", "soon": "bold yellow", "over": "bold red", "": ""}
LAMPS: Final = {"ok": "green", "understudy": "bold yellow", "bad": "bold red", "unknown": "dim"}

KEY_NAMES: Final = {"c-m": "enter", "c-j": "enter", "c-h": "backspace", "c-d": "q"}
KEYS: Final = "↑↓ or j k choose · Enter opens · p pauses · q quits"
KEYS_OF_A_CALL: Final = "↑↓ or j k scroll · Esc back to all calls · p pauses · q quits"

_WORDS = catalogue("en")

ReadKeys = Callable[[float], list[str]]
"""The keys that are pressed within so many seconds: letters, and names such as `up`."""


@dataclass(frozen=True, slots=True)
class WatchedBoard:
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


@dataclass(slots=True)
class WatchView:
    """What a person looks at. A choice is a call and no place: it stays with its call wherever
    that moves to."""

    chosen: str | None = None
    top: int = 0
    """the first row that is shown"""
    opened: str | None = None
    back: int = 0
    """lines that an open call is scrolled back from its end"""
    paused: bool = False
    quits: bool = False

    def press(self, key: str, calls: Sequence[str], page: int) -> None:
        """A key was pressed while these calls, in this order, were to be seen, `page` at once."""
        step = {"down": 1, "j": 1, "up": -1, "k": -1, "pagedown": page, "pageup": -page}.get(key)
        match key:
            case "q":
                self.quits = True
            case "p":
                self.paused = not self.paused
            case "escape" | "backspace":
                self.opened = None
            case _ if self.opened is not None:
                self.back = max(0, self.back - (step or 0))
            case "enter":
                self.opened, self.back = self.chosen, 0
            case "home" | "g" if calls:
                self.chosen = calls[0]
            case "end" | "G" if calls:
                self.chosen = calls[-1]
            case _ if calls and step is not None:
                here = self.place(calls)
                # The first key chooses the first call, wherever it leads.
                place = 0 if here is None else here + step
                self.chosen = calls[min(max(place, 0), len(calls) - 1)]

    def place(self, calls: Sequence[str]) -> int | None:
        """Where the chosen call stands; None for none, and for one that has gone."""
        return calls.index(self.chosen) if self.chosen in calls else None

    def window(self, calls: Sequence[str], page: int) -> slice:
        """Which of them are shown: so that the chosen one is, and no row moves without need."""
        here = self.place(calls)
        if here is not None:
            self.top = min(max(self.top, here - page + 1), here)
        self.top = min(max(self.top, 0), max(0, len(calls) - page))
        return slice(self.top, self.top + page)


def show(reader: BoardReader, interval_s: float) -> None:
    """Show the board until a key or a signal ends it. Raises StoreError where the first reading
    fails."""
    console, view = terminal.console(), WatchView()
    poller = BoardPoller(reader, interval_s)
    board = poller.latest()
    with read_keys() as read, Live(console=console, auto_refresh=False, screen=True) as live:
        while not view.quits:
            now = poller.latest()
            board = replace(board, opened=now.opened) if view.paused else now
            live.update(draw(board, view, console), refresh=True)
            for key in read(REDRAW_S):
                view.press(key, board.calls, calls_per_page(console.size.height))
            poller.open(view.opened)


class BoardPoller:
    """Reads the board again and again in a thread of its own: keys are heard meanwhile.

    The first reading is the caller's own: raises StoreError. A server that goes away later is
    waited for, and what was read last is shown with its age.
    """

    def __init__(self, reader: BoardReader, interval_s: float) -> None:
        self._reader = reader
        self._interval_s = interval_s
        self._versions = BoardVersions()
        self._opened: str | None = None
        self._record: CallRecord | None = None
        self._trouble = ""
        self._failure: Exception | None = None
        self._wanted = threading.Event()
        self._read()
        threading.Thread(target=self._run, name="board poller", daemon=True).start()

    def latest(self) -> WatchedBoard:
        """What there is to be shown now. Raises what kept the thread from going on."""
        if self._failure is not None:
            raise self._failure
        board, read_at, swept_ms = self._latest
        age_ms = round(1000 * (time.monotonic() - read_at))
        now = replace(board, now_ms=board.now_ms + age_ms)
        return WatchedBoard(now, age_ms, swept_ms, self._trouble, self._record)

    def open(self, call_sid: str | None) -> None:
        """Read this call as well from now on, at once; None: no call."""
        if call_sid != self._opened:
            self._opened = call_sid
            self._wanted.set()

    def _run(self) -> None:
        while self._failure is None:
            self._wanted.wait(self._interval_s)
            self._wanted.clear()
            try:
                self._read()
            except StoreError as error:
                self._trouble = str(error)
            except Exception as error:
                # Whoever looks at the screen is told, and the terminal is restored before that.
                self._failure = error

    def _read(self) -> None:
        began, opened = time.monotonic(), self._opened
        self._record = None if opened is None else bootstrap.reader().find(opened)
        state = self._reader.read()
        self._versions.update(state)
        clock = BoardClock(state.overview.now_ms, state.overview.now_ms, state.trouble)
        # In one step, for the thread that draws.
        self._latest = self._versions.snapshot(clock), began, state.workforce.swept_ms
        self._trouble = state.trouble


@contextmanager
def read_keys() -> Iterator[ReadKeys]:
    """Read single keys while the block runs, where stdin is a terminal; else only wait.

    SIGTERM and SIGHUP leave the block as SystemExit, Ctrl-C as KeyboardInterrupt; the terminal is
    as it was afterwards. Ctrl-Z does nothing: a shell cannot know what it would have to restore.
    """

    def leave(number: int, _: Any) -> None:
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, leave) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        if sys.stdin.isatty():
            keyboard = Vt100Input(sys.stdin)
            with keyboard.raw_mode():
                yield partial(_read_keyboard, keyboard)
        else:
            yield _wait
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _wait(seconds: float) -> list[str]:
    time.sleep(seconds)
    return []


def _read_keyboard(keyboard: Vt100Input, seconds: float) -> list[str]:
    def readable(within_s: float) -> bool:
        return bool(select.select([keyboard], [], [], within_s)[0])

    pressed = []
    if readable(seconds):
        pressed = keyboard.read_keys()
        if keyboard.closed:  # The terminal has gone.
            raise SystemExit(128 + signal.SIGHUP)
    if not pressed and not readable(ESCAPE_WITHIN_S):
        pressed = keyboard.flush_keys()
    names = [str(getattr(press.key, "value", press.key)) for press in pressed]
    if "c-c" in names:
        raise KeyboardInterrupt
    return [KEY_NAMES.get(name, name) for name in names]


def calls_per_page(height: int) -> int:
    """How many calls fit."""
    return max(1, (height - HEADER_LINES - FOOTER_LINES) // LINES_PER_CALL)


def draw(seen: WatchedBoard, view: WatchView, console: Console) -> Group:
    """The whole screen."""
    height, width = console.size.height, console.size.width
    room = height - HEADER_LINES - FOOTER_LINES
    page, total = calls_per_page(height), len(seen.calls)
    window, place, keys = view.window(seen.calls, page), "", KEYS
    if view.opened is not None:
        lines, keys = _conversation(seen, view, console, room), KEYS_OF_A_CALL
    elif not total:
        lines = [terminal.text(_WORDS("board.empty"), "dim")]
    else:
        rows, now_ms = seen.board.rows[window], seen.board.now_ms
        lines = [line for row in rows for line in _call(row, now_ms, width, view.chosen)]
        if total > page:
            place = f"{window.start + 1} to {min(window.stop, total)} of {total}"
    blank = [Text() for _ in range(room - len(lines))]
    footer = [terminal.text(seen.trouble, "bold red"), _join((place, ""), (keys, "dim"))]
    lines = [*_header(seen, view, width), *lines[:room], *blank, *footer]
    for line in lines:
        line.no_wrap = True
        line.truncate(width, overflow="ellipsis")
    return Group(*lines)


def _header(seen: WatchedBoard, view: WatchView, width: int) -> list[Text]:
    """Clock and age of the data, calls per state, who is at work, the last hour."""
    head = seen.board.header
    first = Text("callflow  ", "bold") + terminal.text(terminal.clock(seen.board.now_ms))
    if view.paused:
        first.append("  PAUSED: p goes on", "bold black on yellow")
    elif seen.age_ms > STALE_MS:
        first.append(f"  {_WORDS('board.stale', age=age(seen.age_ms))}", "bold white on red")
    else:
        first.append(f"  data {age(seen.age_ms)} old", "dim")
    states = [(f"{count} {word}", STATES[state_of(word)]) for word, count in head["calls"].items()]
    hidden = f"{head['hidden']} {_WORDS('head.hidden')}" if head["hidden"] else ""
    calls = (terminal.counted(head["active"], "call"), "bold")

    workers = _WORDS(
        "head.of_workers", **{name: head[name] for name in ("workers", "busy", "slots")}
    )
    staff = [(workers, "" if head["workers"] else "bold red")]
    for name in ("watchdog", "beat"):
        lamp = head[name]
        staff.append((f"{_WORDS(f'head.{name}')} {_WORDS(f'lamp.{lamp}')}", LAMPS[lamp]))
    ago = "over 1 s ago" if seen.swept_ms is None else f"{age(seen.swept_ms)} ago"
    sweep = (f"last sweep {ago}", "bold red" if seen.swept_ms is None else "")
    takeovers = (f"{_WORDS('head.takeovers')}: {head['takeovers']}", "")
    silence = "–" if head["silence_ms"] is None else age(head["silence_ms"])
    # All on one line where it fits, else the last hour on the one that is empty else.
    work = [_join(*staff, sweep, takeovers, (f"{_WORDS('head.silence')}: {silence}", "")), Text()]
    if work[0].cell_len > width:
        hour = _join(takeovers, (f"longest silence: {silence}", ""), sweep)
        work = [_join(*staff), hour]
    return [first, _join(calls, *states, (hidden, "bold red")), *work]


def _call(row: BoardRow, now_ms: int, width: int, chosen: str | None) -> list[Text]:
    """One call on two lines: how urgent, where, who; and what is due, who talks, what was said."""
    cells = row_cells(row.to_dict(), _WORDS, now_ms)
    part, cursor = cells.parts, "▌" if row.call_sid == chosen else " "
    urgency = f" {SHAPES[cells.urgency]} {part['urgency']} {part['urgency_word']}".ljust(20)
    first = Text(cursor, "bold")
    first.append_text(
        terminal.text(urgency, URGENCIES[cells.urgency] if not row.outcome else "dim")
    )
    first.append_text(terminal.text(f" {part['state']:<13}", STATES[cells.state]))
    late = row.waiting_since is not None and now_ms - row.waiting_since >= SILENCE_MS
    first.append_text(terminal.text(f"{part['waiting']:>7}  ", "bold red" if late else ""))
    place = terminal.sentence((part["lift"], part["address"]))
    flags = [(flag.text, BADGES[flag.look]) for flag in cells.flags]
    about = [(part[name], "") for name in ("scenario", "outcome")]
    first.append_text(_join((place, "bold"), (part["people"], ""), *flags, *about))
    worker = terminal.sentence((part["worker"], part["beat"], part["takeovers"]))
    _align_right(first, terminal.text(worker, "bold red" if row.takeovers else "dim"), width)

    second = Text(cursor, "bold").append(" " * (21 if width >= ROOMY else 3))
    needed = f"☎ {part['needed']}" if part["needed"] else ""
    ladder = (part["ladder"], "bold magenta" if row.alert == "accepted" else "bold")
    old, talks = (part["old"], "bold red"), (part["talks"], "dim")
    second.append_text(_join((needed, "bold white on magenta"), ladder, old, talks))
    due = _timers(cells, width - second.cell_len - WORDS_LEAST)
    if part["who"]:
        now = f" … {part['now']}" if part["now"] else ""
        words = terminal.text(f"  {part['who']}: ", "bold")
        words.append_text(terminal.text(part["words"], "not bold"))
        room = width - second.cell_len - due.cell_len - 4 - cell_len(now)
        words.truncate(max(0, room), overflow="ellipsis")
        second.append_text(words.append(now, "dim"))
    _align_right(second, due, width)
    return [first, second]


def _timers(cells: RowCells, room: int) -> Text:
    """All of them, or where there is no room those that press."""
    timers = [
        (f"{SHAPES[one.shape]} {one.text}" if one.look else one.text, BADGES[one.look])
        for one in cells.timers
    ]
    every = _join(*timers)
    return every if every.cell_len <= room else _join(*(one for one in timers if one[1]))


def _conversation(seen: WatchedBoard, view: WatchView, console: Console, room: int) -> list[Text]:
    """The conversation of the call that is open: its end, or as far back as one has scrolled."""
    if seen.opened is None or seen.opened.call_sid != view.opened:
        return [terminal.text(f"{view.opened} has not been read yet, or has gone.", "dim")]
    title = [terminal.text(f" {view.opened}", "bold"), Text()]
    every = console.render_lines(terminal.render_transcript(seen.opened), pad=False)
    room -= len(title)
    view.back = min(view.back, max(0, len(every) - room))
    end = len(every) - view.back
    return title + [
        Text.assemble(*((one.text, one.style or "") for one in line))
        for line in every[max(0, end - room) : end]
    ]


def _align_right(line: Text, right: Text, width: int) -> None:
    """Put `right` at the right edge; it goes where there is no room for it."""
    room = width - line.cell_len - right.cell_len - 1
    if room > 0:
        line.append(" " * room).append_text(right)


def _join(*parts: tuple[str, str]) -> Text:
    """Those parts that say something, each in its style, with dots between them."""
    texts = [terminal.text(words, style) for words, style in parts if words]
    return terminal.text(" · ", "dim").join(texts)


def describe(row: BoardRow) -> str:
    """One call on one line without what passes by itself, for a file or a pipe."""
    part = row_cells(row.to_dict(), _WORDS, 0).parts
    names = (
        *("state", "needed", "ladder", "lift", "people", "scenario", "talks", "worker"),
        *("takeovers", "outcome"),
    )
    last = f"{part['who']}: {part['words']}" if part["who"] else ""
    urgency = f"{part['urgency']} {part['urgency_word']}"
    shown = (row.call_sid, urgency, *(part[name] for name in names), last)
    return terminal.plain(terminal.sentence(shown))
