"""Draws pictures of calls, and one of the whole run, as SVG. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import Final

from callflow.lab.chaos.faults import Fault
from callflow.lab.chaos.timeline import LANES, Bar, Picture
from callflow.lab.chaos.witness import Testimony

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


def svg(shown: Picture) -> str:
    """One call: a lane each for what was said, heard, silent and worked on."""
    length_s = max(1.0, shown.to_s - shown.from_s)
    scale = min(MOST_PX_PER_S, max(LEAST_PX_PER_S, (WIDTH - LEFT - RIGHT) / length_s))
    canvas = _Canvas(shown.from_s, shown.to_s, scale)
    height = TOP + LANE * len(LANES) + AXIS
    body = [
        *canvas.axis(TOP, TOP + LANE * len(LANES)),
        *(
            f'<text x="4" y="{TOP + LANE * row + 19}" class="lane">{lane}</text>'
            for row, lane in enumerate(LANES)
        ),
        *canvas.strikes(shown.strikes, TOP + LANE * len(LANES)),
        *(canvas.bar(bar, TOP + LANE * LANES.index(bar.lane) + 5) for bar in shown.bars),
        *(canvas.fault(fault, TOP, TOP + LANE * len(LANES)) for fault in shown.faults),
    ]
    return _framed(canvas.width, height, f"timeline of call {shown.call_sid}", body)


def overview(testimony: Testimony, faults: Sequence[Fault]) -> str:
    """The whole run: a thin row for each call, strikes over all of them, faults where they are."""
    callers = testimony.callers
    ends = [testimony.offset_s(one.report) + one.report.duration_s for one in callers]
    to_s = max([testimony.conditions.seconds, *ends])
    scale = (WIDTH - LEFT - RIGHT) / to_s
    canvas = _Canvas(0.0, to_s, max(scale, 2.0))
    bottom = TOP + OVERVIEW_ROW * len(callers)
    strikes = [
        Bar("strike", one.at_s, one.until_s, "strike", one.kind, one.name)
        for one in testimony.strikes
    ]
    rows = {caller.call_sid: row for row, caller in enumerate(callers)}
    body = [*canvas.axis(TOP, bottom), *canvas.strikes(strikes, bottom)]
    for caller in callers:
        begin = testimony.offset_s(caller.report)
        y = TOP + OVERVIEW_ROW * rows[caller.call_sid]
        tip = f"{caller.call_sid}, {caller.line}, {len(caller.report.turns)} turns"
        end = begin + caller.report.duration_s
        body.append(canvas.rect(begin, end, y, OVERVIEW_ROW - 2, f"call {caller.line}", tip))
        for one in caller.report.silences:
            if one.length_s >= 1:
                at_s = begin + one.at_s
                tip = f"{one.length_s:.1f} s of silence"
                body.append(
                    canvas.rect(*(at_s, at_s + one.length_s, y, OVERVIEW_ROW - 2, "silence", tip))
                )
    for fault in faults:
        y = TOP + OVERVIEW_ROW * rows.get(fault.call_sid or "", len(callers)) + 2
        body.append(
            f'<circle cx="{canvas.x(fault.at_s):.1f}" cy="{y}" r="4" class="fault">'
            f"<title>{escape(str(fault))}</title></circle>"
        )
    return _framed(canvas.width, bottom + AXIS, "the whole run", body)


class _Canvas:
    """Seconds to pixels."""

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

    def bar(self, bar: Bar, y: float) -> str:
        """The bar, and its label where there is room for it."""
        tip = f"{bar.tip}: {bar.from_s:.2f} s to {bar.to_s:.2f} s"
        drawn = self.rect(bar.from_s, bar.to_s, y, BAR, bar.look, tip)
        room = self.x(bar.to_s) - self.x(bar.from_s)
        if not bar.label or room < len(bar.label) * LETTER + 2:
            return drawn
        middle = (self.x(bar.to_s) + self.x(bar.from_s)) / 2
        return f'{drawn}<text x="{middle:.1f}" y="{y + 14}" class="label">{bar.label}</text>'

    def strikes(self, strikes: Sequence[Bar], bottom: int) -> Iterator[str]:
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


def _framed(width: float, height: float, name: str, body: Sequence[str]) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height}" '
        f'viewBox="0 0 {width:.0f} {height}" role="img" aria-label="{escape(name)}">'
        + "".join(body)
        + "</svg>"
    )
