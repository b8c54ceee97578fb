"""What a newcomer sees while it runs: every call, who has it, and what a kill did to it."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from callflow.call.record import CallRecord
from callflow.call.words import Word, last_words, word
from callflow.lab.demo.callers import Caller
from callflow.lab.demo.judge import Percentiles, Verdict
from callflow.lab.demo.plan import Kill
from callflow.lab.demo.striker import Strike

COLOUR = {
    Word.LISTENING: "green",
    Word.QUEUED: "yellow",
    Word.ANSWERING: "cyan",
    Word.RECOVERING: "bold red",
    Word.WITH_A_HUMAN: "magenta",
    Word.ENDED: "dim",
}

VERB = {
    Kill.WORKER: "killed worker",
    Kill.CHILD: "killed pool process",
    Kill.FREEZE: "froze worker",
    Kill.WEB: "killed web process",
}

EVENTS_SHOWN = 6


class Show:
    """Draws the state of a running demo; asks nothing itself."""

    def __init__(self, callers: Sequence[Caller], kill: Kill, turns: int) -> None:
        self._callers = callers
        self._kill = kill
        self._turns = turns
        self._events: deque[Text] = deque(maxlen=EVENTS_SHOWN)
        self._began = time.monotonic()
        self._struck_ms = 0

    def struck(self, strike: Strike) -> str:
        """Remember a strike; the sentence for it."""
        when = "in the middle of calls" if strike.kill is Kill.WEB else "in the middle of a turn"
        sentence = f"{VERB[strike.kill]} {strike.victim} {when}"
        self._note(sentence, "red")
        self._struck_ms = strike.at_ms
        return sentence

    def resumed(self, call_sid: str, worker: str, seconds: float) -> str:
        """Remember a takeover; the sentence for it."""
        sentence = f"{worker} goes on with {call_sid[:8]}… after {seconds:.2f} s"
        self._note(sentence, "green")
        return sentence

    def frame(self, records: Mapping[str, CallRecord], workers: Sequence[str]) -> RenderableType:
        """One picture."""
        return Group(self._head(records, workers), self._table(records), self._log())

    def _note(self, sentence: str, style: str) -> None:
        self._events.append(
            Text.assemble((f"{time.monotonic() - self._began:6.1f} s  ", "dim"), (sentence, style))
        )

    def _head(self, records: Mapping[str, CallRecord], workers: Sequence[str]) -> Text:
        answered = sum(record.answered for record in records.values())
        nodes = sorted({worker.partition("@")[0] for worker in workers})
        return Text.assemble(
            (f"{len(self._callers)} people in lifts", "bold"),
            f" · {answered} of {len(self._callers) * self._turns} turns answered · workers up: ",
            (" ".join(nodes) or "none", "bold"),
            f" · kill: {self._kill}",
        )

    def _table(self, records: Mapping[str, CallRecord]) -> Table:
        table = Table(expand=True, box=None, header_style="dim", padding=(0, 1))
        for name, width in (("call", 10), ("now", 12), ("turn", 6), ("worker", 18), ("fence", 5)):
            table.add_column(name, width=width, no_wrap=True)
        table.add_column("last words", no_wrap=True, overflow="ellipsis", ratio=1)
        for caller in self._callers:
            record = records.get(caller.call_sid)
            if record is not None:
                table.add_row(*self._row(record))
        return table

    def _row(self, record: CallRecord) -> tuple[RenderableType, ...]:
        now = word(record)
        who, text = last_words(record) or ("", "")
        return (
            f"{record.call_sid[:8]}…",
            Text(str(now), COLOUR[now]),
            f"{record.answered}/{record.heard}",
            (record.assigned_worker or "—").replace("@", " ").split("-")[0],
            str(record.fence),
            Text.assemble((f"{who}: ", "dim"), text.replace("\n", " ")),
        )

    def _log(self) -> Panel:
        body = Group(*self._events) if self._events else Text("no kill yet", "dim")
        return Panel(body, title="what happened", title_align="left", height=EVENTS_SHOWN + 2)


def summary(verdict: Verdict, seed: int) -> RenderableType:
    """What it came to, in one table and one sentence."""
    table = Table(box=None, show_header=False, padding=(0, 2))
    table.add_column(style="dim")
    table.add_column()
    table.add_row("calls, turns", f"{verdict.calls} calls, {verdict.turns} turns")
    table.add_row("kills, takeovers", f"{verdict.kills} kills, {verdict.takeovers} takeovers")
    table.add_row("kill → next worker", _times(verdict.takeover_s, "s"))
    table.add_row("caller waited, turns hit", _times(verdict.pause_s, "s"))
    table.add_row("caller waited, other turns", _times(verdict.turn_ms, "ms"))
    table.add_row("silence that callers heard", _times(verdict.silence_s, "s"))
    table.add_row("late writes refused", str(verdict.fenced_writes))
    table.add_row("passed to a human", str(verdict.to_human))
    bad = not verdict.good
    table.add_row(
        "lost, repeated, out of order, leaked",
        Text(
            f"{verdict.lost}, {verdict.repeated}, {verdict.out_of_order}, {verdict.leaked_keys}",
            "bold red" if bad else "bold green",
        ),
    )
    sentence = (
        Text("Something that must not happen has happened:", "bold red")
        if bad
        else Text("Nobody had to say anything twice, or wait in silence.", "bold green")
    )
    return Group(table, sentence, *verdict.faults[:20], Text(f"again: --seed {seed}", "dim"))


def _times(found: Percentiles, unit: str) -> str:
    if found.p50 is None:
        return "—"
    return f"p50 {found.p50} {unit}   p95 {found.p95}   p99 {found.p99}   max {found.max}"
