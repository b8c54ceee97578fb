"""Collects the metrics of a web process: counters as they grow, gauges when they are asked for.

Asking costs no round trip: what surrounds the calls (workers, sweeps, queues, lifts that made no
test call) is asked for beside the looks at the calls, by `Survey` and `lifts_counter`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.metrics_core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric as MetricFamily
from prometheus_client.registry import Collector

from callflow.call.history import JournalEntry
from callflow.call.limits import Timing
from callflow.call.record import waiting_since, word
from callflow.call.state import CallState
from callflow.celery import CALLS
from callflow.health.deployment_checks import UNDERSTUDY
from callflow.health.worker_checks import Workforce
from callflow.health.worker_reports import ReportStore, WorkerReports
from callflow.messages import waiting
from callflow.metrics.catalogue import (
    BY_NAME,
    METRICS,
    PHASES,
    SILENT,
    STATES,
    UNKNOWN,
    URGENCIES,
    WORDS,
    Kind,
)
from callflow.metrics.counters import CallCounts, Counters, Key, Minute
from callflow.records.keeping import Keeping, ledger
from callflow.redis.scripts import Scripts
from callflow.store.archive_queue import ArchiveQueue
from callflow.store.leases import Leases
from callflow.store.reader import CallsOverview, CallSummary

STALE_S: Final = 10.0
"""What is known of the calls is told for so long after it was read: an old number that looks like
one of now is worse than none."""

SURVEY_EVERY_S: Final = 2.0
"""How often it is asked for; workers speak once a second."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What was found at one moment. `queues`: None where the broker could not be asked; `swept`: by
    whom and how many ms ago, None where that is more than a second ago; `unarchived`: how many
    complete calls wait to be archived, and since how many ms the first, None where no records are
    kept."""

    queues: Mapping[str, int] | None
    reported: WorkerReports
    swept: tuple[str, int] | None
    unarchived: tuple[int, int] | None = None


class Survey:
    """Asks the store and the broker; blocking, a few round trips. `keeps`: records are kept."""

    def __init__(self, scripts: Scripts, timing: Timing, *, keeps: bool = False) -> None:
        self._unarchived = ArchiveQueue(scripts, timing.completed_ttl_ms) if keeps else None
        self._reports = ReportStore(scripts)
        self._leases = Leases(scripts, timing)

    def look(self) -> Surroundings:
        """What there is now. Raises StoreError; without the broker there are no queues."""
        found = None if self._unarchived is None else self._unarchived.look(1)
        return Surroundings(
            waiting(),
            self._reports.read(),
            self._leases.last_sweep(),
            None if found is None else (found.count, found.oldest_ms),
        )


LIFTS_EVERY_S: Final = 60.0
"""How often the records are asked; what they tell changes by the hour."""

RECORDS_WITHIN_S: Final = 10.0


def lifts_counter(keeping: Keeping, sites: Sequence[str], hours: int) -> Callable[[], int]:
    """What counts those of `sites` without a good test call in the last `hours`, each time that it
    is called; it asks the database, and raises RecordsUnavailable.

    Raises DriverMissing where the libraries of `callflow[records]` are not installed.
    """
    # Without CALLFLOW_RECORDS_URL a web process needs no library for databases.
    from callflow.records.record_store import RecordStore

    records = RecordStore.open(keeping.url, keeping.key, longest_s=RECORDS_WITHIN_S)

    def count() -> int:
        last = records.last_tests()
        now_ms = time.time_ns() // 1_000_000
        return sum(one.overdue for one in ledger(sites, last, now_ms, hours))

    return count


Gauges = dict[Key, float]


class MetricsCollector(Collector):
    """The metrics of one web process. Fed and asked from its event loop alone."""

    def __init__(
        self,
        timing: Timing,
        *,
        by_minute: bool = False,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`by_minute`: CloudWatch is told as well."""
        self._registry = CollectorRegistry()
        self._counters = Counters(self._registry, by_minute=by_minute)
        self._calls = CallCounts(
            self._counters, owed_ms=timing.owed_ms, overdue_ms=timing.overdue_ms
        )
        self._overdue_ms = timing.overdue_ms
        self._monotonic = monotonic
        self._began = monotonic()
        self._look: CallsOverview | None = None
        self._looked_at = self._began
        self._around: Surroundings | None = None
        self._surveyed_at = self._began
        self._swept_at = self._began
        self._untested: int | None = None
        self._keeps_records = False
        self._registry.register(self)

    def look(self, look: CallsOverview) -> None:
        """What the feed has just seen of all calls."""
        self._look, self._looked_at = look, self._monotonic()
        self._calls.look(look)

    def lines(self, call_sid: str, call: CallSummary, entries: Sequence[JournalEntry]) -> None:
        """New lines of the journal of one call, each once."""
        self._calls.lines(call_sid, call, entries)

    def set_surroundings(self, found: Surroundings) -> None:
        """What was just found of workers, sweeps and queues."""
        self._around, self._surveyed_at = found, self._monotonic()
        if found.swept is not None:
            self._swept_at = self._surveyed_at - found.swept[1] / 1000

    def set_untested_lifts(self, lifts: int | None) -> None:
        """How many lifts have made no good test call in time; None: the records cannot be asked."""
        self._untested, self._keeps_records = lifts, True

    def exposition(self) -> tuple[bytes, str]:
        """All of it in Prometheus' text format, and the content type of that."""
        return generate_latest(self._registry), CONTENT_TYPE_PLAIN_0_0_4

    def take_closed(self) -> list[Minute]:
        """The minutes that are over and were not given out before."""
        return [] if self._look is None else self._counters.take_closed(self.now_ms)

    @property
    def now_ms(self) -> int:
        """The store's clock, as far as it is known; 0 before the first look."""
        if self._look is None:
            return 0
        return self._look.now_ms + round(1000 * self._age_s)

    @property
    def _age_s(self) -> float:
        return self._monotonic() - self._looked_at

    def collect(self) -> Iterator[MetricFamily]:
        """The gauges, for the registry."""
        families: dict[str, GaugeMetricFamily] = {}
        for (name, value), number in self.gauges().items():
            one = BY_NAME[name]
            family = families.get(name)
            if family is None:
                labels = () if one.label is None else (one.label,)
                family = families[name] = GaugeMetricFamily(one.exported, one.help, labels=labels)
            family.add_metric([value] if one.label else [], number)
        yield from families.values()

    def describe(self) -> Iterator[MetricFamily]:
        """Their names, so that the registry refuses another metric of the same."""
        for one in METRICS:
            if one.kind is Kind.GAUGE:
                yield GaugeMetricFamily(one.exported, one.help)

    def gauges(self) -> Gauges:
        """How things stand, by name and label; what is not known (any more) is left out."""
        age_s = self._age_s
        fresh = self._look is not None and age_s <= STALE_S
        found: Gauges = {
            ("store_up", ""): float(fresh),
            ("data_age_seconds", ""): age_s,
            ("last_sweep_age_seconds", ""): self._monotonic() - self._swept_at,
        }
        if self._look is not None and fresh:
            _add_calls(found, self._look, self.now_ms, self._overdue_ms)
            wanting = [call.call_sid for call in self._look.calls if _wants_human(call)]
            since = min(self._calls.awaited_since(wanting), default=self.now_ms)
            found["humans_awaited", ""] = len(wanting)
            found["longest_human_awaited_seconds", ""] = max(0, self.now_ms - since) / 1000
        if self._around is not None and self._monotonic() - self._surveyed_at <= STALE_S:
            _add_surroundings(found, self._around)
        if self._keeps_records:
            found["records_up", ""] = float(self._untested is not None)
        if self._untested is not None:
            found["lifts_without_test_call", ""] = self._untested
        return found


def _add_calls(found: Gauges, look: CallsOverview, now_ms: int, overdue_ms: int) -> None:
    by = (("calls", WORDS), ("calls_by_state", STATES), ("calls_by_urgency", URGENCIES))
    found.update({(name, value): 0 for name, values in by for value in values})
    owed, oldest, overdue, active = 0, now_ms, 0, look.hidden
    for call in look.calls:
        if call.call_state is CallState.COMPLETE:
            continue
        active += 1
        found["calls", str(word(call))] += 1
        found["calls_by_state", str(call.call_state)] += 1
        found["calls_by_urgency", "P1" if call.hurried else call.urgency or UNKNOWN] += 1
        since = waiting_since(call)
        if since is not None:
            owed, oldest = owed + 1, min(oldest, since)
        if call.call_state is CallState.IN_PROGRESS and call.last_heartbeat is not None:
            overdue += now_ms - call.last_heartbeat > overdue_ms
    found["active_calls", ""] = active
    found["blind_shards", ""] = len(look.blind)
    found["owed_turns", ""] = owed
    found["oldest_owed_seconds", ""] = (now_ms - oldest) / 1000
    found["beats_overdue", ""] = overdue


def _add_surroundings(found: Gauges, around: Surroundings) -> None:
    reported, workforce = around.reported, Workforce(around.reported, {}, CALLS, {})
    found["broker_up", ""] = float(around.queues is not None)
    for queue, depth in (around.queues or {}).items():
        found["queue_depth", queue] = depth
    found.update({("workers", phase): 0 for phase in PHASES})
    for one in reported.reports:
        found["workers", SILENT if reported.silent_ms(one) else str(one.phase)] += 1
    found["worker_slots", ""] = workforce.slots
    found["worker_slots_busy", ""] = workforce.busy
    understudy = around.swept is not None and around.swept[0].endswith(UNDERSTUDY)
    found["sweeps_by_understudy", ""] = float(understudy)
    if around.unarchived is not None:
        count, oldest_ms = around.unarchived
        found["unarchived_calls", ""] = count
        found["oldest_unarchived_seconds", ""] = oldest_ms / 1000


def _wants_human(call: CallSummary) -> bool:
    if call.call_state is CallState.COMPLETE or call.alert is None:
        return False
    return call.alert.state != "accepted"
