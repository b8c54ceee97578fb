"""The takeovers and silences of the last hour, of all calls that the board looks at."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

HOUR_MS: Final = 3_600_000


@dataclass(frozen=True, slots=True)
class Silence:
    """For so long a caller who had spoken heard no word of a reply; `at`: when that ended."""

    call_sid: str
    at: int
    ms: int


@dataclass(slots=True)
class LastHour:
    """The takeovers and silences of the last hour, of all calls that were looked at."""

    _takeovers: deque[int] = field(default_factory=deque)
    _silences: deque[Silence] = field(default_factory=deque)
    """the longest first, and behind each those that ended later"""

    def took_over(self, at: int) -> None:
        """A call was taken over at that time."""
        self._takeovers.append(at)

    def was_silent(self, silence: Silence) -> None:
        """A silence has ended: shorter ones before it will never be the longest again."""
        while self._silences and self._silences[-1].ms <= silence.ms:
            self._silences.pop()
        self._silences.append(silence)

    def takeovers(self, now_ms: int) -> int:
        """How many there were."""
        while self._takeovers and self._takeovers[0] < now_ms - HOUR_MS:
            self._takeovers.popleft()
        return len(self._takeovers)

    def longest(self, now_ms: int, under_way: Iterable[Silence] = ()) -> Silence | None:
        """The longest silence, those included that are not over yet; None where there was none."""
        while self._silences and self._silences[0].at < now_ms - HOUR_MS:
            self._silences.popleft()
        return max((*list(self._silences)[:1], *under_way), key=lambda one: one.ms, default=None)
