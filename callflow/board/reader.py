"""Reads what the board shows: one round over all calls, and rows only of those that have changed.

It blocks, so it runs in a thread of its own; and there is one in each web process, however many
boards are open.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

from callflow.board.last_hour import LastHour, Silence
from callflow.board.sight import Row
from callflow.call.history import CallHistory, JournalEntry, Measure
from callflow.call.state import CallState
from callflow.health.staffed import Staffed
from callflow.sites.site import Site
from callflow.store.keys import ALL_SHARDS, call_keys
from callflow.store.reader import ENDED_MS, FROM_THE_START, CallsOverview, CallSummary, CallWatcher

T = TypeVar("T")

BEAT_STEP_MS: Final = 500
"""A row in which nothing but the beat has changed is sent again when that is so much younger: often
enough to be right within a second, and seldom enough for a thousand calls."""

JOURNALS_AT_ONCE: Final = 200
"""So many are asked for in one request: the server answers callers in between."""

BRIDGED_MS: Final = 600_000
"""A pause of the reader up to which what happened meanwhile is read after it; after a longer one
the last hour begins anew."""

ASK_STAFF_EVERY_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Shown:
    """A row, and as JSON: encoded once for all boards."""

    row: Row
    text: str


@dataclass(slots=True)
class FollowedJournal:
    """What one call's journal has told, and up to where it was read: the id of its last line, and
    its length then."""

    history: CallHistory = field(default_factory=lambda: CallHistory(keep=1))
    last_line: str = FROM_THE_START
    length: int = 0


Lines = tuple[CallSummary, list[JournalEntry]]


@dataclass(frozen=True, slots=True)
class Seen:
    """What one round found."""

    look: CallsOverview
    shown: Mapping[str, Shown]
    """by CallSid; the very same object where nothing has changed"""
    staffed: Staffed
    since_ms: int
    """since when this process has looked: the last hour is as long as that"""
    takeovers: int
    silence: Silence | None
    lines: Mapping[str, Lines] = field(default_factory=dict)
    """what was written into the journals since this process has looked, each line once"""

    @property
    def trouble(self) -> str:
        """Why some calls could not be looked at; empty where all were."""
        told = [] if self.look.failure is None else [str(self.look.failure)]
        if self.look.unreadable:
            told.append(f"these calls cannot be read: {', '.join(self.look.unreadable)}")
        return "; ".join(told)


class Reader:
    """One per process, for one thread. `staff` asks who works, `site` finds a lift by its id.

    What it keeps can be read anew at any time; another reader, or this one after a restart, shows
    the same, but for the last hour, which begins with its first look.
    """

    def __init__(
        self,
        watching: CallWatcher,
        staff: Callable[[], Staffed],
        site: Callable[[str], Site | None],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._watching = watching
        self._staff = staff
        self._site = site
        self._clock = clock
        self._sights: dict[str, CallSummary] = {}
        self._journals: dict[str, FollowedJournal] = {}
        self._shown: dict[str, Shown] = {}
        self._told: set[str] = set()
        """whose journals had something new in this round"""
        self._hour = LastHour()
        self._since_ms = 0
        self._looked_at: float | None = None
        self._staffed = Staffed()
        self._asked_at = float("-inf")

    def round(self) -> Seen:
        """Look once. Raises StoreError, and goes on where it was the next time."""
        away_ms = self._away_ms()
        look = self._watching.look(ended_ms=ENDED_MS + away_ms)
        looked_at = self._clock()
        if self._looked_at is None or away_ms > BRIDGED_MS:
            self._hour, self._since_ms = LastHour(), look.now_ms
        sights = {sight.call_sid: sight for sight in (*self._unseen(look), *look.calls)}
        lines = self._read(sights)
        if looked_at - self._asked_at >= ASK_STAFF_EVERY_S:
            self._staffed, self._asked_at = self._staff(), looked_at
        self._show(sights, look)
        # Not before all was read: what a failure has kept from us is asked for again.
        self._looked_at = looked_at
        return Seen(
            look,
            self._shown,
            self._staffed,
            self._since_ms,
            self._hour.takeovers(look.now_ms),
            self._hour.longest(look.now_ms, self._silences(look.now_ms)),
            lines,
        )

    def _away_ms(self) -> int:
        if self._looked_at is None:
            return 0
        return round(1000 * (self._clock() - self._looked_at))

    def _unseen(self, look: CallsOverview) -> list[CallSummary]:
        """The calls of the shards that could not be looked at, as they were."""
        if not look.blind:
            return []
        blind = {ALL_SHARDS[number] for number in look.blind}
        return [one for sid, one in self._sights.items() if call_keys(sid).shard in blind]

    def _read(self, sights: Mapping[str, CallSummary]) -> dict[str, Lines]:
        """Read on in the journals that have grown. Returns the lines of which nobody knew."""
        for sid in self._journals.keys() - sights.keys():
            del self._journals[sid]
        self._told = set()
        found: dict[str, Lines] = {}
        grown = {
            sid: self._journals[sid].last_line if sid in self._journals else FROM_THE_START
            for sid, sight in sights.items()
            if sid not in self._journals or self._journals[sid].length != sight.journal_length
        }
        for some in _chunks(grown.items(), JOURNALS_AT_ONCE):
            for sid, lines in self._watching.journal_lines(dict(some)).items():
                journal = self._journals.setdefault(sid, FollowedJournal())
                journal.length = sights[sid].journal_length
                if lines:
                    self._told.add(sid)
                fresh = [one for line, one in lines if self._take(sid, journal, line, one)]
                if fresh:
                    found[sid] = sights[sid], fresh
        return found

    def _take(self, sid: str, journal: FollowedJournal, line: str, entry: JournalEntry) -> bool:
        """Add one line of a journal; True for one that was written since this process looks."""
        before = journal.history.takeovers
        ended = journal.history.add(entry)
        journal.last_line = line
        if entry.at < self._since_ms:
            return False
        if journal.history.takeovers > before:
            self._hour.took_over(entry.at)
        for one in ended:
            if one.measure is Measure.SILENCE:
                self._hour.was_silent(Silence(sid, entry.at, one.ms))
        return True

    def _silences(self, now_ms: int) -> Iterator[Silence]:
        for sid, journal in self._journals.items():
            if (since := journal.history.silent_since) is not None:
                yield Silence(sid, now_ms, now_ms - since)

    def _show(self, sights: dict[str, CallSummary], look: CallsOverview) -> None:
        seen = {sight.call_sid for sight in look.calls}
        shown = {}
        for sid, sight in sights.items():
            if sight.call_state is CallState.COMPLETE and sight.updated_at < look.now_ms - ENDED_MS:
                continue
            shown[sid] = self._row(sid, sight, stale=sid not in seen)
        self._shown, self._sights = shown, sights

    def _row(self, sid: str, sight: CallSummary, *, stale: bool) -> Shown:
        before = self._shown.get(sid)
        journal = self._journals.get(sid) or FollowedJournal()
        same = self._sights.get(sid) is sight and sid not in self._told
        if before is not None and same and before.row.stale == stale:
            return before
        site = None if sight.site is None else self._site(sight.site)
        row = replace(Row.of(sight, journal.history, site), stale=stale)
        if before is not None and _same(before.row, row):
            return before
        return Shown(row, row.as_json())


def _same(before: Row, row: Row) -> bool:
    """True where nothing but a beat lies between them, and that is not long ago."""
    if before.beat_at is None or row.beat_at is None or row.beat_at - before.beat_at > BEAT_STEP_MS:
        return before == row
    return replace(before, beat_at=row.beat_at) == row


def _chunks(items: Iterable[T], size: int) -> Iterator[list[T]]:
    every = list(items)
    for start in range(0, len(every), size):
        yield every[start : start + size]
