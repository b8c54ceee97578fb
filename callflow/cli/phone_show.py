"""Shows calls of `callflow phone`: a conversation for people, JSON lines for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from callflow.cli import terminal

if TYPE_CHECKING:
    from rich.table import Table

    from callflow.lab.carrier.call_report import CallReport, LoadResult
    from callflow.lab.carrier.carrier_call import Call
    from callflow.lab.percentiles import Percentiles

YOU = "you  ▸ "
LIFT = "lift ▸ "

LONG_SILENCE_S = 1.0
"""Shorter ones are not worth a line; from 4 s on it is in red."""

TOO_LONG_S = 4.0

LOOK_S = 0.2

_SOUNDS = {
    "ring": "(it rings)",
    "music": "(music)",
    "human": "a person is on the line",
}


class HumanAnswer(StrEnum):
    """What the humans do when they are rung."""

    NEVER = "never"
    ANSWERS = "answers"
    BUSY = "busy"
    REFUSES = "refuses"
    FAILS = "fails"


class Show(Protocol):
    """Is told what happens in one call."""

    def show_event(self, event: str, facts: Mapping[str, object]) -> None:
        """An event of `callflow.lab.carrier`."""

    def report(self, report: CallReport) -> None:
        """The call is over."""


class ConversationPrinter:
    """For people. Through a pipe what the lift says is on stdout, and all else on stderr.

    `typed`: the caller sees what they type themselves.
    """

    def __init__(self, *, typed: bool) -> None:
        self._typed = typed
        self._console = terminal.console()
        self._in_line = False
        self._prompted = False

    def show_event(self, event: str, facts: Mapping[str, object]) -> None:
        """Show it, if people want to know."""
        text = str(facts.get("text", ""))
        match event:
            case "heard":
                self._print_heard(str(facts["kind"]), text)
            case "token":
                self._write(terminal.plain(text))
            case "cut":
                self._write(" –")
            case "said":
                self._print_said(text)
            case "listens" if self._typed and self._console.is_terminal:
                self._end_line()
                self._console.print(terminal.text(YOU, "bold cyan"), end="")
                self._prompted = True
            case "silence":
                self._print_silence(float(str(facts["length_s"])))
            case "status":
                self._print_note(str(facts["status"]))
            case "failure" | "session_lost":
                self._print_note(str(facts["reason"]), "yellow")
            case "digits_sent":
                self._print_note(f"keys towards the lift: {facts['digits']}")

    def report(self, report: CallReport) -> None:
        """Say how it ended."""
        ended = f"the call is over after {report.duration_s:.0f} s, ended by the {report.ended_by}"
        longest = f"longest silence {report.longest_silence_s:.1f} s"
        again = terminal.counted(report.retries, "retry", "retries") if report.retries else ""
        self._print_note(terminal.sentence((ended, longest, again)))

    def _print_heard(self, kind: str, text: str) -> None:
        self._end_line()
        if kind in _SOUNDS:
            self._print_note(_SOUNDS[kind], "magenta")
            return
        if self._console.is_terminal:
            self._console.print(terminal.text(LIFT, "bold green"), end="")
        self._in_line = True
        self._write(terminal.plain(text))

    def _print_said(self, text: str) -> None:
        self._prompted = False
        self._end_line()
        if not self._typed and self._console.is_terminal:
            words = terminal.text(text or "(silence)")
            self._console.print(terminal.text(YOU, "bold cyan"), words, sep="")

    def _write(self, words: str) -> None:
        sys.stdout.write(words)
        sys.stdout.flush()

    def _end_line(self) -> None:
        if self._in_line or self._prompted:
            self._write("\n")
        self._in_line = self._prompted = False

    def _print_silence(self, length_s: float) -> None:
        if length_s >= LONG_SILENCE_S:
            style = "bold red" if length_s > TOO_LONG_S else "dim"
            self._print_note(f"(silence, {length_s:.1f} s)", style)

    def _print_note(self, words: str, style: str = "dim") -> None:
        self._end_line()
        terminal.console(sys.stderr).print(terminal.text(words, style), soft_wrap=True)


class JsonLines:
    """For programs: one object for each event, the last of which is `report`."""

    def show_event(self, event: str, facts: Mapping[str, object]) -> None:
        """The event as it is."""
        terminal.print_line(json.dumps({"event": event, **facts}, ensure_ascii=False))

    def report(self, report: CallReport) -> None:
        """`report`: everything that was said, heard and not heard."""
        self.show_event("report", report.as_dict())


class Progress:
    """How far a load has come: one line on stderr, on a terminal alone."""

    def __init__(self, calls: int) -> None:
        self._calls = calls
        self._console = terminal.console(sys.stderr)

    async def keep_showing(self, placed: Sequence[Call]) -> None:
        """Draw it anew until cancelled; `placed` grows meanwhile."""
        import asyncio

        while self._console.is_terminal:
            over = [call.report for call in placed if call.line.over]
            lost = sum(len(report.lost) for report in over)
            words = (
                f"{len(placed)} of {self._calls} called · {len(placed) - len(over)} on the line · "
                f"{len(over)} over · {lost} turns lost"
            )
            self._console.print(terminal.text(words), end="\r", soft_wrap=True)
            await asyncio.sleep(LOOK_S)

    def end(self) -> None:
        """Leave the line."""
        if self._console.is_terminal:
            self._console.print()


def table(result: LoadResult) -> Table:
    """The result, for people."""
    from rich.table import Table

    grid = Table.grid(padding=(0, 2))
    bad = "bold red" if not result.good else "bold green"
    rows = {
        "calls, turns": f"{result.calls} calls, {result.turns} turns",
        "silence": _spread(result.silence_s, "s"),
        "words → reply": _spread(result.answer_ms, "ms"),
        "prompt → first token": _spread(result.first_token_ms, "ms"),
        "webhooks, retries": f"{result.requests} webhooks, {result.retries} retries",
        "with a human, gave up": f"{result.with_human}, {result.gave_up}",
        "ended by": ", ".join(f"{who} {count}" for who, count in result.ended_by.items()),
    }
    for name, value in rows.items():
        grid.add_row(terminal.text(name, "dim"), terminal.text(value))
    grid.add_row(
        terminal.text("failed, lost", "dim"), terminal.text(f"{result.failed}, {result.lost}", bad)
    )
    return grid


def _spread(found: Percentiles, unit: str) -> str:
    if found.p50 is None:
        return "—"
    return f"p50 {found.p50} {unit}   p99 {found.p99}   max {found.max}"
