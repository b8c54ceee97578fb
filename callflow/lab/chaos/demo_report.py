"""Shows a demo: every call and who has it while it runs, and afterwards what it came to."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from callflow.call.history import PASSED_TO_HUMAN, TAKEN_FROM_WORKER
from callflow.call.record import CallRecord, Word, last_words, word
from callflow.lab.chaos.chaos_plan import Kill
from callflow.lab.chaos.judge import Verdict
from callflow.lab.chaos.promises import FaultKind
from callflow.lab.chaos.run_evidence import RunEvidence
from callflow.lab.percentiles import Percentiles

COLOUR: Final = {
    Word.LISTENING: "green",
    Word.QUEUED: "yellow",
    Word.ANSWERING: "cyan",
    Word.RECOVERING: "bold red",
    Word.WITH_A_HUMAN: "magenta",
    Word.ENDED: "dim",
}

EVENTS_SHOWN: Final = 6


class DemoScreen:
    """Draws the state of a running demo; asks nothing itself."""

    def __init__(self, call_sids: Sequence[str], kill: Kill, turns: int) -> None:
        self._call_sids = call_sids
        self._kill = kill
        self._turns = turns
        self._events: deque[Text] = deque(maxlen=EVENTS_SHOWN)
        self._began = time.monotonic()

    def add_event(self, sentence: str, style: str) -> None:
        """A strike or a takeover, to be shown among the last ones."""
        self._events.append(
            Text.assemble((f"{time.monotonic() - self._began:6.1f} s  ", "dim"), (sentence, style))
        )

    def frame(self, records: Mapping[str, CallRecord], workers: Sequence[str]) -> RenderableType:
        body = Group(*self._events) if self._events else Text("no kill yet", "dim")
        log = Panel(body, title="what happened", title_align="left", height=EVENTS_SHOWN + 2)
        return Group(self._head(records, workers), self._table(records), log)

    def _head(self, records: Mapping[str, CallRecord], workers: Sequence[str]) -> Text:
        answered = sum(record.answered for record in records.values())
        nodes = sorted({worker.partition("@")[0] for worker in workers})
        calls = len(self._call_sids)
        return Text.assemble(
            (f"{calls} people in lifts", "bold"),
            f" · {answered} of {calls * self._turns} turns answered · workers up: ",
            (" ".join(nodes) or "none", "bold"),
            f" · kill: {self._kill}",
        )

    def _table(self, records: Mapping[str, CallRecord]) -> Table:
        table = Table(expand=True, box=None, header_style="dim", padding=(0, 1))
        for name, width in (("call", 10), ("now", 12), ("turn", 6), ("worker", 18), ("fence", 5)):
            table.add_column(name, width=width, no_wrap=True)
        table.add_column("last words", no_wrap=True, overflow="ellipsis", ratio=1)
        for call_sid in self._call_sids:
            if (record := records.get(call_sid)) is not None:
                table.add_row(*_row(record))
        return table


def _row(record: CallRecord) -> tuple[RenderableType, ...]:
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


FAULT_WORDS: Final = {
    "lost": (FaultKind.LOST, FaultKind.LEFT_OUT, FaultKind.DROPPED),
    "repeated": (FaultKind.REPEATED, FaultKind.SAID_AGAIN, FaultKind.DOUBLED),
    "out of order": (FaultKind.OUT_OF_ORDER, FaultKind.MISPLACED),
    "silent": (FaultKind.SILENCE,),
    "leaked": (FaultKind.LEAK,),
}
"""What a demo calls the faults of a call, in the order in which it lists them."""


@dataclass(frozen=True, slots=True)
class DemoResult:
    """What one demo showed, field by field as programs get it with `--json`."""

    calls: int
    turns: int
    kills: int
    takeovers: int
    takeover_s: Percentiles
    pause_s: Percentiles
    turn_ms: Percentiles
    silence_s: Percentiles
    """What callers had to bear between their own words, or ours, and the next thing they heard."""
    too_silent: int
    lost: int
    repeated: int
    out_of_order: int
    fenced_writes: int
    leaked_keys: int
    to_human: int
    faults: list[str] = field(default_factory=list)
    """A sentence for everything that must not happen."""

    @classmethod
    def of(cls, evidence: RunEvidence, verdict: Verdict) -> DemoResult:
        """What is shown of a verdict, and of the times between the callers' words and replies."""
        entries = [(sid, entry) for sid, journal in evidence.journals.items() for entry in journal]
        hit = {(sid, entry.turn) for sid, entry in entries if entry.event in TAKEN_FROM_WORKER}
        reports = [caller.report for caller in evidence.callers]

        def replies(of_hit_turns: bool) -> Iterable[float]:
            for report in reports:
                for turn in report.turns:
                    if ((report.call_sid, turn.number) in hit) is of_hit_turns:
                        yield from [] if turn.reply_s is None else [turn.reply_s]

        counts = {name: verdict.count(*kinds) for name, kinds in FAULT_WORDS.items()}
        return cls(
            calls=verdict.calls,
            turns=verdict.turns,
            kills=verdict.strikes,
            takeovers=sum(entry.event == "reclaimed" for _, entry in entries),
            takeover_s=verdict.takeover_s,
            pause_s=Percentiles.of(replies(True)),
            turn_ms=Percentiles.of((time_s * 1000 for time_s in replies(False)), 1),
            silence_s=verdict.silence_s,
            too_silent=counts["silent"],
            lost=counts["lost"],
            repeated=counts["repeated"],
            out_of_order=counts["out of order"],
            fenced_writes=sum(
                entry.event == "refused" and entry.reason == "fenced" for _, entry in entries
            ),
            leaked_keys=counts["leaked"],
            to_human=sum(entry.event in PASSED_TO_HUMAN for _, entry in entries),
            faults=[
                f"{name}: " + (f"call {fault.call_sid}: " if fault.call_sid else "") + fault.detail
                for name, kinds in FAULT_WORDS.items()
                for fault in verdict.faults
                if fault.kind in kinds
            ],
        )

    @property
    def good(self) -> bool:
        """True when nothing was lost, repeated, out of order or leaked, and nobody heard nothing
        for too long."""
        return not self.faults

    def as_dict(self) -> dict[str, Any]:
        times = {
            name: getattr(self, name).pick("p50", "p95", "p99", "max")
            for name in ("takeover_s", "pause_s", "turn_ms", "silence_s")
        }
        return asdict(self) | times


def demo_summary(result: DemoResult, seed: int) -> RenderableType:
    """What it came to, in one table and one sentence."""
    table = Table(box=None, show_header=False, padding=(0, 2))
    table.add_column(style="dim")
    table.add_column()
    table.add_row("calls, turns", f"{result.calls} calls, {result.turns} turns")
    table.add_row("kills, takeovers", f"{result.kills} kills, {result.takeovers} takeovers")
    table.add_row("kill → next worker", _times(result.takeover_s, "s"))
    table.add_row("caller waited, turns hit", _times(result.pause_s, "s"))
    table.add_row("caller waited, other turns", _times(result.turn_ms, "ms"))
    table.add_row("silence that callers heard", _times(result.silence_s, "s"))
    table.add_row("late writes refused", str(result.fenced_writes))
    table.add_row("passed to a human", str(result.to_human))
    table.add_row(
        "lost, repeated, out of order, leaked",
        Text(
            f"{result.lost}, {result.repeated}, {result.out_of_order}, {result.leaked_keys}",
            "bold green" if result.good else "bold red",
        ),
    )
    sentence = (
        Text("Nobody had to say anything twice, or wait in silence.", "bold green")
        if result.good
        else Text("Something that must not happen has happened:", "bold red")
    )
    return Group(table, sentence, *result.faults[:20], Text(f"again: --seed {seed}", "dim"))


def _times(found: Percentiles, unit: str) -> str:
    if found.p50 is None:
        return "—"
    return f"p50 {found.p50} {unit}   p95 {found.p95}   p99 {found.p99}   max {found.max}"
