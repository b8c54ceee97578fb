"""Counts what has happened: for Prometheus since it began, for CloudWatch by the minute."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics

from callflow.metrics.catalogue import (
    BY_NAME,
    METRICS,
    MOST_VALUES,
    OTHER,
    Kind,
    label_value,
)

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

    @property
    def ends_ms(self) -> int:
        """When it is over."""
        return (self.number + 1) * MINUTE_MS


class Tally:
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
        self._told = 0
        """The last minute that was given out, or is not whole; 0 before it has begun."""
        self._first = 0
        for one in METRICS:
            labels = () if one.label is None else (one.label,)
            if one.kind is Kind.COUNTER:
                self._counters[one.name] = Counter(
                    one.exported, one.told, labels, registry=registry
                )
            elif one.kind is Kind.TIMES:
                self._histograms[one.name] = Histogram(
                    one.exported, one.told, labels, registry=registry, buckets=one.buckets_s
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
            self._told = now_ms // MINUTE_MS
            self._first = self._told + 1

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
        if not self._first or last <= self._told:
            return []
        numbers = range(max(self._told + 1, last + 1 - KEPT_MINUTES), last + 1)
        self._told = last
        taken = [self._minutes.get(number) or Minute(number) for number in numbers]
        self._minutes = {n: one for n, one in self._minutes.items() if n > last}
        return taken

    def _minute(self, at_ms: int) -> Minute:
        number = at_ms // MINUTE_MS
        if number < self._first:
            return Minute(number)  # Told by others, or by nobody.
        # What is learnt of late, after the store was away, belongs to the next one that is told.
        number = max(number, self._told + 1)
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
