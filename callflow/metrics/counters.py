"""Counts what happens to calls, by their journals: since the process began, and minute by minute.

The scripts that change the records write the journals, on the server's clock, so all web processes
count the same. A line that is older than this process is read and not counted: it tells where a
call stands, and was counted by those who were here. Prometheus is told all since the process began,
CloudWatch what happened within each minute.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics

from callflow.call.history import CallHistory, JournalEntry, Measure, Measured
from callflow.call.ladder import TAKEN_OVER
from callflow.call.state import CallState
from callflow.metrics.catalogue import (
    BY_NAME,
    CAUSES,
    METRICS,
    MISTAKES,
    MOST_VALUES,
    OTHER,
    RINGS,
    Kind,
    label_value,
)
from callflow.store.reader import CallsOverview, CallSummary

MINUTE_MS: Final = 60_000

GRACE_MS: Final = 5_000
"""A minute is told so long after its end: what was journaled at its end has been read by then."""

KEPT_MINUTES: Final = 15
"""While nobody can say whether a minute was told it is kept; CloudWatch is told no older ones."""

# The series that say when each counter began double their number, and nothing here asks for them.
disable_created_metrics()  # type: ignore[no-untyped-call]

Key = tuple[str, str]
"""A metric's name and the value of its label, '' where it has none."""


@dataclass(slots=True)
class Minute:
    """What happened within one minute of the store's clock. `number`: since 1970."""

    number: int
    counts: dict[Key, float] = field(default_factory=lambda: defaultdict(float))
    times_s: dict[Key, list[float]] = field(default_factory=lambda: defaultdict(list))


class Counters:
    """Counters and histograms in `registry`; with `by_minute`, the same for each minute as well.

    A minute is one of the store's clock and what happened carries its stamp, so every web process
    has the same in it. Not for several threads at once.
    """

    def __init__(self, registry: CollectorRegistry, *, by_minute: bool = False) -> None:
        self._counters: dict[str, Counter] = {}
        self._histograms: dict[str, Histogram] = {}
        self._values: dict[str, set[str]] = {}
        self._by_minute = by_minute
        self._minutes: dict[int, Minute] = {}
        self._closed = 0
        """The last minute that was given out, or is not whole; 0 before it has begun."""
        self._first = 0
        for one in METRICS:
            labels = () if one.label is None else (one.label,)
            if one.kind is Kind.COUNTER:
                self._counters[one.name] = Counter(
                    one.exported, one.help, labels, registry=registry
                )
            elif one.kind is Kind.TIMES:
                self._histograms[one.name] = Histogram(
                    one.exported, one.help, labels, registry=registry, buckets=one.buckets_s
                )
            self._values[one.name] = set(one.known)
            built = self._counters.get(one.name) or self._histograms.get(one.name)
            if built is not None:
                for value in one.known:
                    built.labels(value)

    def begin(self, now_ms: int) -> None:
        """From now on this process knows all that happens; the minute that now runs is not whole.
        Twice, the first stands."""
        if not self._first:
            self._closed = now_ms // MINUTE_MS
            self._first = self._closed + 1

    def count(self, name: str, at_ms: int, label: str | None = None, by: float = 1) -> None:
        """Something has happened at `at_ms` of the store's clock, `by` times."""
        value = self._label(name, label)
        counter = self._counters[name]
        (counter.labels(value) if value else counter).inc(by)
        if self._by_minute:
            self._minute(at_ms).counts[name, value] += by

    def observe(self, name: str, at_ms: int, ms: int, label: str | None = None) -> None:
        """Something that ended at `at_ms` has taken `ms`. Less than nothing, as after a failover to
        a server whose clock is behind, is nothing."""
        value = self._label(name, label)
        histogram = self._histograms[name]
        seconds = max(0, ms) / 1000
        (histogram.labels(value) if value else histogram).observe(seconds)
        if self._by_minute:
            self._minute(at_ms).times_s[name, value].append(seconds)

    def take_closed(self, now_ms: int) -> list[Minute]:
        """The whole minutes that are over, the oldest first, empty ones included; each is given out
        once. None before `begin`."""
        last = (now_ms - GRACE_MS) // MINUTE_MS - 1
        if not self._first or last <= self._closed:
            return []
        numbers = range(max(self._closed + 1, last + 1 - KEPT_MINUTES), last + 1)
        self._closed = last
        taken = [self._minutes.get(number) or Minute(number) for number in numbers]
        self._minutes = {n: one for n, one in self._minutes.items() if n > last}
        return taken

    def _minute(self, at_ms: int) -> Minute:
        number = at_ms // MINUTE_MS
        if number < self._first:
            return Minute(number)  # Told by others, or by nobody.
        # What is learnt of late, after the store was away, belongs to the next one that is told.
        number = max(number, self._closed + 1)
        found = self._minutes.get(number)
        if found is None:
            found = self._minutes[number] = Minute(number)
        return found

    def _label(self, name: str, label: str | None) -> str:
        if BY_NAME[name].label is None:
            return ""
        value = label_value(label)
        known = self._values[name]
        if value not in known:
            if len(known) >= MOST_VALUES:
                return OTHER
            known.add(value)
        return value


FAILED: Final = "failed"
UNCLAIMED: Final = "unclaimed"

_COUNTED: Final = {
    "opened": "calls_opened",
    "heard": "turns_heard",
    "committed": "turns_answered",
    "interrupted": "replies_interrupted",
}
"""Events that are counted by themselves."""

_COUNTED_BY_REASON: Final = {
    "refused": "refused_writes",
    "alerted": "humans_wanted",
    # By the carrier, at once: there is no alert, and no word of who came.
    "put_through": "transfers",
    "ended": "calls_ended",
}

_TIMES: Final[dict[Measure, tuple[str, str | None]]] = {
    Measure.CLAIM_WAIT: ("claim_wait_seconds", None),
    Measure.UNDERSTAND: ("turn_stage_seconds", "understand"),
    Measure.FIRST_WORDS: ("turn_stage_seconds", "first_words"),
    Measure.REST: ("turn_stage_seconds", "rest"),
    Measure.REPLY_WAIT: ("caller_silence_seconds", None),
    Measure.TURN: ("turn_seconds", None),
    Measure.HUMAN_WAIT: ("human_answer_seconds", None),
}
"""What is measured → the histogram, and its label."""


class CallCounts:
    """Counts in `counters` what happens to calls. `owed_ms` and `overdue_ms` as in `Timing`."""

    def __init__(self, counters: Counters, *, owed_ms: int, overdue_ms: int) -> None:
        self._counters = counters
        self._owed_ms = owed_ms
        self._overdue_ms = overdue_ms
        self._since: int | None = None
        self._calls: dict[str, CallHistory] = {}
        self._missed: dict[str, int] = {}
        """the last heartbeat of a call behind which one was missed"""

    def look(self, look: CallsOverview) -> None:
        """Take note of the heartbeats seen, and forget the calls that are not. The first look
        is the moment from which on things are counted; lines that came before it are old."""
        if self._since is None:
            self._since = look.now_ms
            self._counters.begin(look.now_ms)
        for call in look.calls:
            if call.call_state is CallState.IN_PROGRESS and call.last_heartbeat is not None:
                self._see_beat(look.now_ms, call, call.last_heartbeat)
        if not look.blind and len(self._calls) > len(look.calls):
            seen = {call.call_sid for call in look.calls}
            for gone in self._calls.keys() - seen:
                del self._calls[gone]
                self._missed.pop(gone, None)

    def lines(self, call_sid: str, _sight: CallSummary, entries: Sequence[JournalEntry]) -> None:
        """New lines of one call's journal, in their order; each is to be given once."""
        history = self._history(call_sid)
        for entry in entries:
            with_human = history.with_human
            ended = history.add(entry)
            if self._since is not None and entry.at >= self._since:
                self._count(entry, with_human)
                for measured in ended:
                    self._observe(measured)

    def awaited_since(self, call_sids: Iterable[str]) -> list[int]:
        """Since when humans have been wanted in those of the calls that have none."""
        found = (self._calls.get(call_sid) for call_sid in call_sids)
        return [one.wanted_at for one in found if one is not None and one.wanted_at is not None]

    def _history(self, call_sid: str) -> CallHistory:
        return self._calls.setdefault(call_sid, CallHistory(keep=1))

    def _see_beat(self, now_ms: int, call: CallSummary, beat_at: int) -> None:
        self._history(call.call_sid).see_beat(call.fence, beat_at)
        overdue = now_ms - beat_at > self._overdue_ms
        if overdue and self._missed.get(call.call_sid) != beat_at:
            self._missed[call.call_sid] = beat_at
            self._counters.count("heartbeats_missed", now_ms)

    def _count(self, entry: JournalEntry, with_human: bool) -> None:
        """`with_human`: a human had the call already."""
        event, count = entry.event, self._counters.count
        count("journal_lines", entry.at, event)
        if event in _COUNTED:
            count(_COUNTED[event], entry.at)
        elif event in _COUNTED_BY_REASON:
            count(_COUNTED_BY_REASON[event], entry.at, entry.reason)
        elif event == TAKEN_OVER:
            count("humans_wanted", entry.at, TAKEN_OVER)
        elif event in RINGS:
            count("rings", entry.at, event)
        elif event == "lost":
            count("turns_lost", entry.at, by=entry.count or 1)
        elif event in ("transferred", "accepted") and not with_human:
            count("transfers", entry.at, entry.reason)
        elif event == "remarked":
            self._count_remark(entry)

    def _count_remark(self, entry: JournalEntry) -> None:
        who, _, what = (entry.reason or "").partition(":")
        if who == "guard":
            self._counters.count("guard_catches", entry.at, what)
        elif who == "model" and what == "script":
            self._counters.count("model_fallbacks", entry.at)
        elif who == "model":
            name = "model_mistakes" if what in MISTAKES else "model_failures"
            self._counters.count(name, entry.at, what)

    def _observe(self, measured: Measured) -> None:
        if measured.measure in _TIMES:
            name, label = _TIMES[measured.measure]
            self._counters.observe(name, measured.at, measured.ms, label)
        cause = None
        if measured.measure is Measure.TAKEOVER:
            cause = measured.cause if measured.cause in CAUSES else FAILED
        elif measured.measure is Measure.CLAIM_WAIT and measured.ms > self._owed_ms:
            cause = UNCLAIMED
        if cause is not None:
            self._counters.observe("takeover_seconds", measured.at, measured.ms, cause)
