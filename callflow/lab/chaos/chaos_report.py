"""Reports a run of chaos to people: a screen for the terminal, and a page with pictures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from importlib import resources
from string import Template
from typing import Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from callflow.lab.chaos import call_timeline
from callflow.lab.chaos.chaos_plan import KINDS
from callflow.lab.chaos.judge import StrikeStatistics, Verdict
from callflow.lab.chaos.promises import PROMISES, Fault
from callflow.lab.chaos.run_evidence import CallEvidence, RunEvidence, escape_controls
from callflow.lab.percentiles import Percentiles

MOST_CALLS_DRAWN: Final = 40
MOST_FAULTS_LISTED: Final = 20
HARDEST_HIT: Final = 3
"""So many calls are drawn of a run in which none was harmed: those that had to bear most."""


def summary(verdict: Verdict) -> RenderableType:
    """For the terminal: the promises, the kinds of strikes, and what must not have happened."""
    facts = (
        f"{verdict.calls} calls, {verdict.turns} turns, {verdict.strikes} strikes "
        f"in {verdict.seconds:g} s"
    )
    ending: list[RenderableType] = []
    if verdict.replay:
        ending.append(Text(f"again: {verdict.replay}", "dim"))
    if verdict.unmade:
        ending.insert(0, Text(_list_unmade(verdict), "yellow"))
    if verdict.detected:
        ending.insert(0, Text(f"taken by failovers, and asked again: {verdict.detected}"))
    return Group(
        Text(facts, "bold"),
        _promises_table(verdict),
        _kinds_table(verdict),
        Text(_headline(verdict), "bold green" if _is_good(verdict) else "bold red"),
        *(escape_controls(str(fault)) for fault in verdict.faults[:MOST_FAULTS_LISTED]),
        *ending,
    )


def harmed(evidence: RunEvidence, verdict: Verdict) -> str:
    """For the terminal: everything that happened to the calls which were harmed."""
    callers = {caller.call_sid: caller for caller in evidence.callers}
    told = "\n\n".join(
        call_timeline.lines(call_timeline.gather(evidence, callers[call_sid], verdict.faults))
        for call_sid in verdict.harmed
    )
    return "\n".join(map(escape_controls, told.split("\n")))


def page(evidence: RunEvidence, verdict: Verdict) -> str:
    """The report as one HTML document that needs nothing else."""
    shown = _calls_to_draw(evidence, verdict)
    title = "Harmed calls" if verdict.harmed else "The calls that had to bear most"
    facts = (
        f"{verdict.calls} calls, {verdict.turns} turns, {verdict.strikes} strikes in "
        f"{verdict.seconds:g} s, seed {verdict.seed}. Replies: {_times(verdict.reply_s)}. "
        f"Silences: {_times(verdict.silence_s)}. Takeovers: {_times(verdict.takeover_s)}."
    )
    template = resources.files("callflow.lab.chaos").joinpath("report.html")
    return Template(template.read_text(encoding="utf-8")).substitute(
        title=escape(_headline(verdict)),
        seed=str(verdict.seed),
        mood="good" if _is_good(verdict) else "bad",
        facts=escape(f"{facts} {_list_unmade(verdict)}." if verdict.unmade else facts),
        replay=escape(verdict.replay or "(what was kept names no command of ours)"),
        promises=_html_table(
            ("", "promise", "tried", "broken"), (_promise_row(verdict, n) for n in PROMISES)
        ),
        kinds=_html_table(
            _KIND_HEADS, (_kind_row(kind, row) for kind, row in verdict.per_kind.items())
        ),
        overview=call_timeline.draw_overview(evidence, verdict.faults),
        calls_title=title,
        calls="\n".join(_call(evidence, caller, verdict.faults) for caller in shown),
    )


def _calls_to_draw(evidence: RunEvidence, verdict: Verdict) -> list[CallEvidence]:
    harmed_sids = set(verdict.harmed)
    found = [caller for caller in evidence.callers if caller.call_sid in harmed_sids]
    if not found:
        by_silence = sorted(evidence.callers, key=lambda one: -one.report.longest_silence_s)
        found = by_silence[:HARDEST_HIT]
    return found[:MOST_CALLS_DRAWN]


def _call(evidence: RunEvidence, caller: CallEvidence, faults: Sequence[Fault]) -> str:
    picture = call_timeline.gather(evidence, caller, faults)
    complaints = "".join(f"<li>{escape(str(fault))}</li>" for fault in picture.faults)
    return (
        f'<h3 id="{escape(caller.call_sid)}">{escape(picture.title)}</h3>'
        + (f'<ul class="bad">{complaints}</ul>' if complaints else "")
        + f'<div class="picture">{call_timeline.draw(picture)}</div>'
    )


def _is_good(verdict: Verdict) -> bool:
    return verdict.good and not verdict.unstruck


def _list_unmade(verdict: Verdict) -> str:
    return f"asked for, and not made: {', '.join(verdict.unmade)} (a longer run makes them)"


def _headline(verdict: Verdict) -> str:
    if _is_good(verdict):
        return "every promise was kept"
    if verdict.untried:
        return "nothing was tried: nobody said a word"
    if verdict.unstruck:
        return "nothing was tried: nothing was struck"
    numbers = ", ".join(str(number) for number in verdict.broken)
    few = len(verdict.broken) == 1
    return f"promise{'' if few else 's'} {numbers} {'was' if few else 'were'} broken"


_KIND_HEADS: Final = (
    *("strike", "times", "takeovers", "p50 s", "p95 s", "p99 s", "max s", "bound s"),
    *("silences", "p99 s", "max s"),
)


def _kind_row(kind: str, row: StrikeStatistics) -> tuple[str, ...]:
    takeover, silence = row.takeover_s, row.silence_s
    return (
        *(kind, str(row.strikes), str(takeover.count)),
        *map(_number, (takeover.p50, takeover.p95, takeover.p99, takeover.max, row.bound_s)),
        *(str(silence.count), _number(silence.p99), _number(silence.max)),
    )


def _promise_row(verdict: Verdict, number: int) -> tuple[str, ...]:
    tried = verdict.promises[number]
    return (str(number), PROMISES[number], str(tried.tried), str(tried.failed))


def _promises_table(verdict: Verdict) -> Table:
    table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0))
    for head in ("", "promise"):
        table.add_column(head)
    for head in ("tried", "broken"):
        table.add_column(head, justify="right")
    for number in PROMISES:
        broken = verdict.promises[number].failed > 0
        table.add_row(*_promise_row(verdict, number), style="bold red" if broken else "")
    return table


def _kinds_table(verdict: Verdict) -> Table:
    table = Table(box=None, header_style="dim", padding=(0, 1, 0, 0))
    for index, head in enumerate(_KIND_HEADS):
        table.add_column(head, justify="left" if index == 0 else "right")
    for kind, row in verdict.per_kind.items():
        table.add_row(*_kind_row(kind, row))
    return table


def _html_table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(one)}</th>" for one in heads)
    body = "".join(f"<tr>{''.join(_cell(one) for one in row)}</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"


def _cell(text: str) -> str:
    tip = f' title="{escape(KINDS[text].sentence)}"' if text in KINDS else ""
    look = ' class="number"' if text.replace(".", "").isdigit() else tip
    return f"<td{look}>{escape(text)}</td>"


def _number(value: float | None) -> str:
    return "—" if value is None else f"{value:.2f}"


def _times(found: Percentiles) -> str:
    if found.p50 is None:
        return "none"
    return f"p50 {found.p50:.2f} s, p99 {found.p99:.2f} s, max {found.max:.2f} s of {found.count}"
