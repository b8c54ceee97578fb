"""What the journals tell of the past: of one call, and of the last hour of all."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from callflow.store.journal import JournalEntry
from callflow.store.watching import FROM_THE_START

HOUR_MS: Final = 3_600_000

TAKEN_OVER: Final = frozenset({"reclaimed", "handed_back"})
"""A worker loses a call to the next one: it died or was silent, or gave it up itself."""

_LETS_GO: Final = frozenset({"transferred", "accepted"})
_SPEAKS: Final = _LETS_GO | {"drafted", "committed", "lost", "ended"}
"""The caller hears somebody again, or nobody can know any more what they waited for."""


@dataclass(frozen=True, slots=True)
class Silence:
    """For so long a caller who had spoken heard no word of a reply; `at`: when that ended."""

    call_sid: str
    at: int
    ms: int


@dataclass(slots=True)
class Past:
    """What the journal of one call has told so far."""

    line: str = FROM_THE_START
    """the last line that was read, by its id"""
    length: int = 0
    """how long the journal was when it was read"""
    takeovers: int = 0
    alerted_at: int | None = None
    """since when a human is wanted: the caller has waited for one, whoever was rung since"""
    left_at: int | None = None
    """when the agent got the call back from humans"""
    silent_since: int | None = None
    """when the caller spoke, while nobody has said a word since"""
    humans: bool = False
    """the agent has let go of it: what a human says stands in no journal"""

    def take(self, entry: JournalEntry) -> int | None:
        """One more line. Returns the silence that ends with it, ms."""
        if entry.event in TAKEN_OVER:
            self.takeovers += 1
        elif entry.event == "alerted" or (entry.event == "taken_over" and not self.alerted_at):
            self.alerted_at = entry.at
        elif entry.event == "heard" and self.silent_since is None and not self.humans:
            self.silent_since = entry.at
        if entry.event == "accepted":
            self.alerted_at = None
        if entry.event in _LETS_GO:
            self.humans = True
        elif entry.event == "resumed":
            self.humans, self.left_at = False, entry.at
        if entry.event in _SPEAKS and self.silent_since is not None:
            since, self.silent_since = self.silent_since, None
            return entry.at - since
        return None


@dataclass(slots=True)
class Hour:
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
