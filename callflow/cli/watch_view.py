"""What a person at the terminal board is looking at: which call is chosen, which one is open. Pure.

A choice is a call and no place: it stays with its call wherever that moves to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

STEPS = {"down": 1, "j": 1, "up": -1, "k": -1}

KEYS = "↑↓ or j k choose · Enter opens · p pauses · q quits"
KEYS_OF_A_CALL = "↑↓ or j k scroll · Esc back to all calls · p pauses · q quits"


@dataclass(slots=True)
class View:
    """Changed by keys, and by what there is to see."""

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
        match key:
            case "q":
                self.quits = True
            case "p":
                self.paused = not self.paused
            case "escape" | "backspace":
                self.opened = None
            case _ if self.opened is not None:
                self._scroll(key, page)
            case "enter":
                self.opened, self.back = self.chosen, 0
            case _:
                self._choose(key, calls, page)

    def _choose(self, key: str, calls: Sequence[str], page: int) -> None:
        if not calls:
            return
        here = self.place(calls)
        steps = {**STEPS, "page down": page, "page up": -page}
        place = {"home": 0, "g": 0, "end": len(calls) - 1, "G": len(calls) - 1}.get(key)
        if place is None and key in steps:
            # The first key chooses the first call, wherever it leads.
            place = 0 if here is None else here + steps[key]
        if place is not None:
            self.chosen = calls[min(max(place, 0), len(calls) - 1)]

    def _scroll(self, key: str, page: int) -> None:
        steps = {**STEPS, "page down": page, "page up": -page}
        if key in steps:
            self.back = max(0, self.back - steps[key])

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
