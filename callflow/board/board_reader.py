"""Reads what the board shows from the store, and builds the rows of calls that have changed.

It blocks, so it runs in a thread of its own; there is one in each web process, however many boards
are open.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from callflow.board.rows import HOUR_MS, BoardRow
from callflow.call.history import CallHistory, JournalEntry, Measure
from callflow.call.state import CallState
from callflow.health.deployment_checks import WorkforceStatus
from callflow.sites.site import Site
from callflow.store.keys import ALL_SHARDS, call_keys
from callflow.store.reader import ENDED_MS, FROM_THE_START, CallsOverview, CallSummary, CallWatcher

BEAT_STEP_MS: Final = 500
"""A row in which nothing but the beat has changed is sent again when that is so much younger: often
enough to be right within a second, and seldom enough for a thousand calls."""

JOURNALS_AT_ONCE: Final = 200
"""So many are asked for in one request: the server answers callers in between."""

BRIDGED_MS: Final = 600_000
"""A pause of the reader up to which what happened meanwhile is read after it; after a longer one
the last hour begins anew."""

ASK_WORKFORCE_EVERY_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class EncodedRow:
    """A row, and as JSON: encoded once for all boards."""

    row: BoardRow
    text: str


@dataclass(slots=True)
class FollowedJournal:
    """What one call's journal has told, and up to where it was read: the id of its last line, and
    its length then."""

    history: CallHistory = field(default_factory=lambda: CallHistory(keep=1))
    last_line: str = FROM_THE_START
    length: int = 0


@dataclass(frozen=True, slots=True)
class CallerSilence:
    """For so long a caller who had spoken heard no word of a reply; `at`: when that ended."""

    call_sid: str
    at: int
    ms: int


@dataclass(slots=True)
class LastHour:
    """The takeovers and silences of the last hour, of all calls that were read."""

    _takeovers: deque[int] = field(default_factory=deque)
    _silences: deque[CallerSilence] = field(default_factory=deque)
    """the longest first, and behind each those that ended later"""

    def add_takeover(self, at: int) -> None:
        """A call was taken over at that time."""
        self._takeovers.append(at)

    def add_silence(self, silence: CallerSilence) -> None:
        """A silence has ended: shorter ones before it will never be the longest again."""
        while self._silences and self._silences[-1].ms <= silence.ms:
            self._silences.pop()
        self._silences.append(silence)

    def count_takeovers(self, now_ms: int) -> int:
        """How many there were."""
        while self._takeovers and self._takeovers[0] < now_ms - HOUR_MS:
            self._takeovers.popleft()
        return len(self._takeovers)

    def longest_silence(
        self, now_ms: int, under_way: Iterable[CallerSilence] = ()
    ) -> CallerSilence | None:
        """The longest, those included that are not over yet; None where there was none."""
        while self._silences and self._silences[0].at < now_ms - HOUR_MS:
            self._silences.popleft()
        return max((*list(self._silences)[:1], *under_way), key=lambda one: one.ms, default=None)


NewLines = tuple[CallSummary, list[JournalEntry]]


@dataclass(frozen=True, slots=True)
class BoardState:
    """What the reader found at one moment."""

    overview: CallsOverview
    rows: Mapping[str, EncodedRow]
    """by CallSid; the very same object where nothing has changed"""
    workforce: WorkforceStatus
    since_ms: int
    """since when this process has read: the last hour is as long as that"""
    takeovers: int
    silence: CallerSilence | None
    lines: Mapping[str, NewLines] = field(default_factory=dict)
    """what was written into the journals since this process has read, each line once"""

    @property
    def trouble(self) -> str:
        """Why some calls could not be read; empty where all were."""
        reasons = [] if self.overview.failure is None else [str(self.overview.failure)]
        if self.overview.unreadable:
            reasons.append(f"these calls cannot be read: {', '.join(self.overview.unreadable)}")
        return "; ".join(reasons)


class BoardReader:
    """One per process, for one thread. `read_workforce` says who works, `find_site` finds
    a lift by its id.

    What it keeps can be read anew at any time; another reader, or this one after a restart, shows
    the same, but for the last hour, which begins with its first reading.
    """

    def __init__(
        self,
        watcher: CallWatcher,
        read_workforce: Callable[[], WorkforceStatus],
        find_site: Callable[[str], Site | None],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._watcher = watcher
        self._read_workforce = read_workforce
        self._find_site = find_site
        self._clock = clock
        self._calls: dict[str, CallSummary] = {}
        self._journals: dict[str, FollowedJournal] = {}
        self._rows: dict[str, EncodedRow] = {}
        self._journal_grew: set[str] = set()
        """calls whose journals had something new this time"""
        self._hour = LastHour()
        self._since_ms = 0
        self._read_at: float | None = None
        self._workforce = WorkforceStatus()
        self._asked_at = float("-inf")

    def read(self) -> BoardState:
        """Read all calls once. Raises StoreError, and goes on where it was the next time."""
        away_ms = self._away_ms()
        overview = self._watcher.look(ended_ms=ENDED_MS + away_ms)
        read_at = self._clock()
        if self._read_at is None or away_ms > BRIDGED_MS:
            self._hour, self._since_ms = LastHour(), overview.now_ms
        calls = {call.call_sid: call for call in (*self._unread(overview), *overview.calls)}
        lines = self._read_journals(calls)
        if read_at - self._asked_at >= ASK_WORKFORCE_EVERY_S:
            self._workforce, self._asked_at = self._read_workforce(), read_at
        self._build_rows(calls, overview)
        # Not before all was read: what a failure has kept from us is asked for again.
        self._read_at = read_at
        return BoardState(
            overview,
            self._rows,
            self._workforce,
            self._since_ms,
            self._hour.count_takeovers(overview.now_ms),
            self._hour.longest_silence(overview.now_ms, self._silences(overview.now_ms)),
            lines,
        )

    def _away_ms(self) -> int:
        if self._read_at is None:
            return 0
        return round(1000 * (self._clock() - self._read_at))

    def _unread(self, overview: CallsOverview) -> list[CallSummary]:
        """The calls of the shards that could not be read, as they were."""
        if not overview.blind:
            return []
        blind = {ALL_SHARDS[number] for number in overview.blind}
        return [one for sid, one in self._calls.items() if call_keys(sid).shard in blind]

    def _read_journals(self, calls: Mapping[str, CallSummary]) -> dict[str, NewLines]:
        """Read on in the journals that have grown. Returns the lines of which nobody knew."""
        for sid in self._journals.keys() - calls.keys():
            del self._journals[sid]
        self._journal_grew = set()
        found: dict[str, NewLines] = {}
        grown = {
            sid: self._journals[sid].last_line if sid in self._journals else FROM_THE_START
            for sid, call in calls.items()
            if sid not in self._journals or self._journals[sid].length != call.journal_length
        }
        sids = list(grown)
        for start in range(0, len(sids), JOURNALS_AT_ONCE):
            after = {sid: grown[sid] for sid in sids[start : start + JOURNALS_AT_ONCE]}
            for sid, lines in self._watcher.journal_lines(after).items():
                journal = self._journals.setdefault(sid, FollowedJournal())
                journal.length = calls[sid].journal_length
                if lines:
                    self._journal_grew.add(sid)
                fresh = [one for line, one in lines if self._add_line(sid, journal, line, one)]
                if fresh:
                    found[sid] = calls[sid], fresh
        return found

    def _add_line(self, sid: str, journal: FollowedJournal, line: str, entry: JournalEntry) -> bool:
        """Add one line of a journal; True for one that was written since this process reads."""
        before = journal.history.takeovers
        ended = journal.history.add(entry)
        journal.last_line = line
        if entry.at < self._since_ms:
            return False
        if journal.history.takeovers > before:
            self._hour.add_takeover(entry.at)
        for one in ended:
            if one.measure is Measure.SILENCE:
                self._hour.add_silence(CallerSilence(sid, entry.at, one.ms))
        return True

    def _silences(self, now_ms: int) -> Iterator[CallerSilence]:
        for sid, journal in self._journals.items():
            if (since := journal.history.silent_since) is not None:
                yield CallerSilence(sid, now_ms, now_ms - since)

    def _build_rows(self, calls: dict[str, CallSummary], overview: CallsOverview) -> None:
        live = {call.call_sid for call in overview.calls}
        rows = {}
        for sid, call in calls.items():
            if (
                call.call_state is CallState.COMPLETE
                and call.updated_at < overview.now_ms - ENDED_MS
            ):
                continue
            rows[sid] = self._build_row(sid, call, stale=sid not in live)
        self._rows, self._calls = rows, calls

    def _build_row(self, sid: str, call: CallSummary, *, stale: bool) -> EncodedRow:
        before = self._rows.get(sid)
        journal = self._journals.get(sid) or FollowedJournal()
        same = self._calls.get(sid) is call and sid not in self._journal_grew
        if before is not None and same and before.row.stale == stale:
            return before
        site = None if call.site is None else self._find_site(call.site)
        row = replace(BoardRow.of(call, journal.history, site), stale=stale)
        if before is not None and _differ_by_a_beat(before.row, row):
            return before
        return EncodedRow(row, row.to_json())


def _differ_by_a_beat(before: BoardRow, row: BoardRow) -> bool:
    """True where nothing but a beat lies between them, and that is not long ago."""
    if before.beat_at is None or row.beat_at is None or row.beat_at - before.beat_at > BEAT_STEP_MS:
        return before == row
    return replace(before, beat_at=row.beat_at) == row
