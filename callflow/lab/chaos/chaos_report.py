"""Reports a run of chaos to people: a screen for the terminal, and a page with pictures.

A picture shows one call over time, or the whole run, as lanes of what was said, heard, silent and
worked on: `gather` collects one call, `draw` makes SVG of it, `lines` text for a terminal. No word
that anybody said stands in it: turns and sentences have numbers. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from importlib import resources
from string import Template
from typing import Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from callflow.call.history import CallHistory, JournalEntry
from callflow.lab.carrier.call_report import SpokenTurn
from callflow.lab.chaos.audio_checks import HeardEvent, Sound, listen
from callflow.lab.chaos.chaos_plan import KINDS
from callflow.lab.chaos.judge import StrikeStatistics, Verdict
from callflow.lab.chaos.promises import LONGEST_SILENCE_S, PROMISES, Fault
from callflow.lab.chaos.run_evidence import CallEvidence, RunEvidence, Strike, escape_controls
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
        lines(gather(evidence, callers[call_sid], verdict.faults)) for call_sid in verdict.harmed
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
        overview=draw_overview(evidence, verdict.faults),
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
    picture = gather(evidence, caller, faults)
    complaints = "".join(f"<li>{escape(str(fault))}</li>" for fault in picture.faults)
    return (
        f'<h3 id="{escape(caller.call_sid)}">{escape(picture.title)}</h3>'
        + (f'<ul class="bad">{complaints}</ul>' if complaints else "")
        + f'<div class="picture">{draw(picture)}</div>'
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


LANES: Final = ("said", "heard", "silence", "worker")

_PLAIN_TO_SEE: Final = {"claimed", "heard", "drafted", "understood", "committed"}
"""Of the journal, what other bars show."""

_SHORTEST_S: Final = 0.05

LEFT: Final = 70
LANE: Final = 30
BAR: Final = 20
TOP: Final = 34
"""For the names of strikes, above the lanes."""
AXIS: Final = 22
RIGHT: Final = 20
LETTER: Final = 6.4
"""The width of one, about."""

MOST_PX_PER_S: Final = 45.0
LEAST_PX_PER_S: Final = 14.0
WIDTH: Final = 1100.0
"""A picture is as wide as a screen where it can be; beyond that it can be moved."""

OVERVIEW_ROW: Final = 9


@dataclass(frozen=True, slots=True)
class TimelineBar:
    """Something that lasted. Times count from the beginning of the run, s; `look` is how it is
    drawn, `label` stands in it and `tip` beside the pointer."""

    lane: str
    from_s: float
    to_s: float
    look: str
    label: str
    tip: str


@dataclass(frozen=True, slots=True)
class CallPicture:
    call_sid: str
    title: str
    from_s: float
    to_s: float
    bars: list[TimelineBar] = field(default_factory=list)
    strikes: list[TimelineBar] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)


def gather(evidence: RunEvidence, caller: CallEvidence, faults: Sequence[Fault]) -> CallPicture:
    """Gather one call. `faults`: of the whole run."""
    report = caller.report
    began_s = evidence.offset_s(report)
    ended_s = began_s + report.duration_s
    own = [fault for fault in faults if fault.call_sid == caller.call_sid]
    bars = [*_turn_bars(report.turns, began_s), *_sound_bars(listen(report), began_s, ended_s)]
    for one in report.silences:
        begin, length_s = began_s + one.at_s, one.length_s
        look = "too-long" if one.own_s > LONGEST_SILENCE_S else "silence"
        label = f"{length_s:.1f}" if length_s >= 1 else ""
        tip = f"{length_s:.2f} s of silence before {one.cause}"
        bars.append(TimelineBar("silence", begin, begin + length_s, look, label, tip))
    journal = evidence.journals.get(caller.call_sid, ())
    bars += _claim_bars(journal, evidence.began_at, ended_s)
    strikes = [
        _strike_bar(one, f"{one.name}: {', '.join(one.victims)}")
        for one in evidence.strikes
        if one.at_s <= ended_s and one.until_s >= began_s
    ]
    title = f"{caller.call_sid} · {caller.line}" + (" · poison" if caller.poison else "")
    return CallPicture(caller.call_sid, title, began_s, ended_s, bars, strikes, own)


def _strike_bar(strike: Strike, tip: str) -> TimelineBar:
    return TimelineBar("strike", strike.at_s, strike.until_s, "strike", strike.kind, tip)


def _turn_bars(turns: Sequence[SpokenTurn], began_s: float) -> Iterator[TimelineBar]:
    for turn in turns:
        taken = "taken" if turn.accepted else "not taken"
        how = " · interrupts" if turn.interrupted else " · once more" if turn.repeated else ""
        look, tip = "said" if turn.accepted else "untaken", f"turn {turn.number}, {taken}{how}"
        times_s = began_s + turn.began_s, began_s + max(turn.ended_s, turn.began_s)
        yield TimelineBar("said", *times_s, look, str(turn.number), tip)


_LOOKS: Final = {
    Sound.PART: "part",
    Sound.BEGUN: "begun",
    Sound.HUMAN: "human",
    Sound.PLAIN: "plain",
    Sound.ASKED_AGAIN: "asked",
    Sound.STOCK: "stock",
}


def _sound_bars(
    events: Sequence[HeardEvent], began_s: float, ended_s: float
) -> Iterator[TimelineBar]:
    for event in events:
        label, tip = "", event.sound.replace("_", " ")
        if event.turn:
            label = f"{event.turn}.{event.part}"
            tip = f"reply {event.turn}, part {event.part}"
            tip += " (broke off)" if event.sound is Sound.BEGUN else ""
            if event.said is not None:
                tip += f", by somebody who knew of {event.said.seen} turns"
        at_s = began_s + event.at_s
        to_s = ended_s if event.until_s is None else began_s + event.until_s
        yield TimelineBar(
            "heard", at_s, max(to_s, at_s), _LOOKS.get(event.sound, "phrase"), label, tip
        )


def _claim_bars(
    journal: Sequence[JournalEntry], began_at: float, ended_s: float
) -> Iterator[TimelineBar]:
    """Who had the call, by the journal: from each claim to what ended it."""
    for claim in CallHistory.of(journal).claims:
        at_s = claim.at / 1000 - began_at
        to_s = ended_s if claim.ended_at is None else claim.ended_at / 1000 - began_at
        how = (claim.ended_by or "never let go").replace("_", " ")
        why = f" ({claim.reason})" if claim.reason else ""
        name = (claim.worker or "?").partition("@")[0]
        look = "claim" if claim.ended_by == "committed" else "lost-claim"
        tip = f"turn {claim.turn} by {claim.worker}, fence {claim.fence}: {how}{why}"
        yield TimelineBar("worker", at_s, to_s, look, name, tip)
    for entry in journal:
        if entry.event not in _PLAIN_TO_SEE:
            at_s = entry.at / 1000 - began_at
            reason = f", {entry.reason}" if entry.reason else ""
            yield TimelineBar("worker", at_s, at_s, "note", "", f"{entry.event}{reason}")


def lines(shown: CallPicture) -> str:
    """The same as lines in the order of time, for a terminal."""
    lines: list[tuple[float, str]] = []
    for bar in (*shown.bars, *shown.strikes):
        length_s = bar.to_s - bar.from_s
        lasts = f" ({length_s:.2f} s)" if length_s >= _SHORTEST_S else ""
        lane = "STRIKE" if bar.lane == "strike" else bar.lane
        what = f"{bar.label}: {bar.tip}" if bar.lane == "strike" else bar.tip
        lines.append((bar.from_s, f"{bar.from_s:8.2f} s  {lane:<8} {what}{lasts}"))
    for fault in shown.faults:
        lines.append((fault.at_s, f"{fault.at_s:8.2f} s  FAULT    {fault.kind}: {fault.detail}"))
    return "\n".join([shown.title, *(line for _, line in sorted(lines, key=lambda one: one[0]))])


def draw(shown: CallPicture) -> str:
    """One call: a lane each for what was said, heard, silent and worked on."""
    length_s = max(1.0, shown.to_s - shown.from_s)
    scale = min(MOST_PX_PER_S, max(LEAST_PX_PER_S, (WIDTH - LEFT - RIGHT) / length_s))
    canvas = _TimeCanvas(shown.from_s, shown.to_s, scale)
    tops = {lane: TOP + LANE * row for row, lane in enumerate(LANES)}
    bottom = TOP + LANE * len(LANES)
    body = [
        *canvas.axis(TOP, bottom),
        *(f'<text x="4" y="{y + 19}" class="lane">{lane}</text>' for lane, y in tops.items()),
        *canvas.strikes(shown.strikes, bottom),
        *(canvas.bar(bar, tops[bar.lane] + 5) for bar in shown.bars),
        *(canvas.fault(fault, TOP, bottom) for fault in shown.faults),
    ]
    return _frame(canvas.width, bottom + AXIS, f"timeline of call {shown.call_sid}", body)


def draw_overview(evidence: RunEvidence, faults: Sequence[Fault]) -> str:
    """The whole run: a thin row for each call, strikes over all of them, faults where they are."""
    callers = evidence.callers
    ends = [evidence.offset_s(one.report) + one.report.duration_s for one in callers]
    to_s = max([evidence.conditions.seconds, *ends])
    scale = (WIDTH - LEFT - RIGHT) / to_s
    canvas = _TimeCanvas(0.0, to_s, max(scale, 2.0))
    bottom = TOP + OVERVIEW_ROW * len(callers)
    strikes = [_strike_bar(one, one.name) for one in evidence.strikes]
    rows = {caller.call_sid: row for row, caller in enumerate(callers)}
    body = [*canvas.axis(TOP, bottom), *canvas.strikes(strikes, bottom)]
    for caller, ended_s in zip(callers, ends, strict=True):
        began_s, height = evidence.offset_s(caller.report), OVERVIEW_ROW - 2
        y = TOP + OVERVIEW_ROW * rows[caller.call_sid]
        tip = f"{caller.call_sid}, {caller.line}, {len(caller.report.turns)} turns"
        body.append(canvas.rect(began_s, ended_s, y, height, f"call {caller.line}", tip))
        for one in caller.report.silences:
            if one.length_s >= 1:
                at_s, tip = began_s + one.at_s, f"{one.length_s:.1f} s of silence"
                body.append(canvas.rect(at_s, at_s + one.length_s, y, height, "silence", tip))
    for fault in faults:
        y = TOP + OVERVIEW_ROW * rows.get(fault.call_sid or "", len(callers)) + 2
        body.append(
            f'<circle cx="{canvas.x(fault.at_s):.1f}" cy="{y}" r="4" class="fault">'
            f"<title>{escape(str(fault))}</title></circle>"
        )
    return _frame(canvas.width, bottom + AXIS, "the whole run", body)


class _TimeCanvas:
    def __init__(self, from_s: float, to_s: float, scale: float) -> None:
        self._from_s = from_s
        self._to_s = max(to_s, from_s + 1)
        self._scale = scale
        self.width = LEFT + (self._to_s - from_s) * scale + RIGHT

    def x(self, at_s: float) -> float:
        """Where a moment is; what lies outside stands at the border."""
        return LEFT + (min(max(at_s, self._from_s), self._to_s) - self._from_s) * self._scale

    def axis(self, top: int, bottom: int) -> Iterator[str]:
        """A line and a number every so many seconds."""
        step = next(one for one in (1, 2, 5, 10, 30, 60, 300) if one * self._scale >= 40)
        at_s = -(-int(self._from_s) // step) * step
        while at_s <= self._to_s:
            if at_s >= self._from_s:
                x = f"{self.x(at_s):.1f}"
                yield f'<line x1="{x}" x2="{x}" y1="{top}" y2="{bottom}" class="grid"/>'
                yield f'<text x="{x}" y="{bottom + 15}" class="tick">{at_s} s</text>'
            at_s += step

    def rect(self, from_s: float, to_s: float, y: float, height: float, look: str, tip: str) -> str:
        """A bar that says more beside the pointer."""
        begin, width = self.x(from_s), max(2.0, self.x(to_s) - self.x(from_s))
        return (
            f'<rect x="{begin:.1f}" y="{y}" width="{width:.1f}" height="{height}" rx="2" '
            f'class="{look}"><title>{escape(tip)}</title></rect>'
        )

    def bar(self, bar: TimelineBar, y: float) -> str:
        """The bar, and its label where there is room for it."""
        tip = f"{bar.tip}: {bar.from_s:.2f} s to {bar.to_s:.2f} s"
        drawn = self.rect(bar.from_s, bar.to_s, y, BAR, bar.look, tip)
        room = self.x(bar.to_s) - self.x(bar.from_s)
        if not bar.label or room < len(bar.label) * LETTER + 2:
            return drawn
        middle = (self.x(bar.to_s) + self.x(bar.from_s)) / 2
        return f'{drawn}<text x="{middle:.1f}" y="{y + 14}" class="label">{bar.label}</text>'

    def strikes(self, strikes: Sequence[TimelineBar], bottom: int) -> Iterator[str]:
        """Bands from top to bottom; names that would stand on one another go one line down."""
        rows_end = [0.0, 0.0]
        for strike in strikes:
            tip = f"{strike.tip}, {strike.from_s:.2f} s to {strike.to_s:.2f} s"
            yield self.rect(strike.from_s, strike.to_s, TOP - 4, bottom - TOP + 4, "strike", tip)
            x = self.x(strike.from_s)
            yield f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP - 4}" y2="{bottom}" class="struck"/>'
            row = next((row for row, end in enumerate(rows_end) if end <= x), None)
            if strike.label and row is not None:
                rows_end[row] = x + len(strike.label) * LETTER + 8
                yield f'<text x="{x:.1f}" y="{12 + 13 * row}" class="name">{strike.label}</text>'

    def fault(self, fault: Fault, top: int, bottom: int) -> str:
        """A line from top to bottom with a head."""
        x = f"{self.x(fault.at_s):.1f}"
        return (
            f'<g class="fault"><title>{escape(str(fault))}</title>'
            f'<line x1="{x}" x2="{x}" y1="{top}" y2="{bottom}"/>'
            f'<circle cx="{x}" cy="{top}" r="5"/></g>'
        )


def _frame(width: float, height: float, name: str, body: Sequence[str]) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height}" '
        f'viewBox="0 0 {width:.0f} {height}" role="img" aria-label="{escape(name)}">'
        + "".join(body)
        + "</svg>"
    )
