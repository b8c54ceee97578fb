"""Where everything in the picture of a call stands: milliseconds to pixels. Pure.

The template draws; here is only arithmetic. The picture is as wide as the call is long, within
bounds, and scrolls in its own frame.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from callflow.board.timeline import Link, Timeline

LEFT: Final = 16
"""Before the beginning of the call, px; the names of the lanes stand beside the picture."""
RIGHT: Final = 24
TOP: Final = 8
LANE: Final = 34
BAR: Final = 18
AXIS: Final = 26
PX_PER_S: Final = 14.0
LEAST_WIDTH: Final = 560.0
MOST_WIDTH: Final = 6_000.0
LABEL: Final = 30.0
"""Room that a fence's number needs in its bar, px."""
LEAST_BAR: Final = 3.0
TICK_PX: Final = 70.0


@dataclass(frozen=True, slots=True)
class Drawing:
    """Positions in one picture, px."""

    line: Timeline

    @property
    def inner(self) -> float:
        """Width of that part which shows time."""
        wanted = (self.line.to_ms - self.line.from_ms) / 1000 * PX_PER_S
        return min(MOST_WIDTH, max(LEAST_WIDTH, wanted))

    @property
    def width(self) -> int:
        """Of the whole picture."""
        return round(LEFT + self.inner + RIGHT)

    @property
    def bottom(self) -> int:
        """Where the lanes end and the axis begins."""
        return TOP + LANE * len(self.line.lanes)

    @property
    def height(self) -> int:
        """Of the whole picture."""
        return self.bottom + AXIS

    def x(self, at_ms: int) -> float:
        """Where a moment is; what lies outside stands at the border."""
        length = max(1, self.line.to_ms - self.line.from_ms)
        share = (at_ms - self.line.from_ms) / length
        return round(LEFT + min(1.0, max(0.0, share)) * self.inner, 1)

    def wide(self, from_ms: int, to_ms: int) -> float:
        """How wide a bar is: never too thin to be seen."""
        return round(max(LEAST_BAR, self.x(to_ms) - self.x(from_ms)), 1)

    def roomy(self, from_ms: int, to_ms: int) -> bool:
        """True where a label fits into the bar."""
        return self.wide(from_ms, to_ms) >= LABEL

    def y(self, lane: int) -> int:
        """The top of a lane's bars."""
        return TOP + LANE * lane + (LANE - BAR) // 2

    def middle(self, lane: int) -> int:
        """The middle of a lane."""
        return TOP + LANE * lane + LANE // 2

    def path(self, link: Link) -> str:
        """The way of the call from one lane to another."""
        begin, end = self.x(link.from_ms), self.x(link.to_ms)
        return f"M{begin} {self.middle(link.from_lane)} L{end} {self.middle(link.to_lane)}"

    def ticks(self) -> Iterator[tuple[float, str]]:
        """Places on the axis, and how long after the call's beginning each is."""
        length_s = max(0.001, (self.line.to_ms - self.line.from_ms) / 1000)
        px_per_s = self.inner / length_s
        steps = (1, 2, 5, 10, 30, 60, 300, 600, 1800, 3600, 21_600)
        step = next((one for one in steps if one * px_per_s >= TICK_PX), 86_400)
        for at_s in range(0, int(length_s) + 1, step):
            minutes, seconds = divmod(at_s, 60)
            yield self.x(self.line.from_ms + at_s * 1000), f"{minutes}:{seconds:02d}"
