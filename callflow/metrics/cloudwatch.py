"""Writes metrics for CloudWatch, minute by minute, in its Embedded Metric Format.

All web processes have the same numbers, so two that wrote them would double what is added up. The
right to write a minute is claimed in the store, minute by minute: a process that dies costs no more
than the one that it was about to write.

Source: Amazon CloudWatch user guide, "Specification: Embedded metric format". A document has at
most 100 metrics, a metric at most 100 values, and a document at most 1 MB. Each label value needs a
document of its own, since a dimension has one value in a document.

What is counted is told for the minute alone, as CloudWatch adds up by itself. Of a label value that
did not occur nothing is told: each one would be paid for.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from callflow.errors import StoreError
from callflow.metrics.catalogue import BY_NAME, METRICS, PREFIX, Kind
from callflow.metrics.counters import KEPT_MINUTES, MINUTE_MS, Key, Minute
from callflow.redis.scripts import Scripts
from callflow.store.claims import claim_once

CLAIMED_MS: Final = 3_600_000
"""Longer than any process keeps a minute that it could not write."""

MOST_VALUES: Final = 100

Value = float | list[float]


def documents(namespace: str, minute: Minute, gauges: Mapping[Key, float]) -> Iterator[str]:
    """The lines for one minute: what happened in it, and `gauges` as they stand at its end."""
    values: dict[Key, Value] = {
        (one.name, ""): 0.0 for one in METRICS if one.kind is Kind.COUNTER and one.label is None
    }
    values.update(gauges)
    values.update(minute.counts)
    values.update((key, _thinned(times_s)) for key, times_s in minute.times_s.items())
    grouped: dict[tuple[str, str], dict[str, Value]] = {}
    for (name, value), number in sorted(values.items(), key=lambda pair: pair[0]):
        label = BY_NAME[name].label
        grouped.setdefault((label or "", value), {})[name] = number
    for (label, value), members in grouped.items():
        yield _document(namespace, minute.number * MINUTE_MS, label, value, members)


def unreachable(namespace: str, now_ms: int) -> str:
    """The one line of a process that cannot reach the store."""
    return _document(namespace, now_ms, "", "", {"store_up": 0.0})


def _document(
    namespace: str, at_ms: int, label: str, value: str, members: Mapping[str, Value]
) -> str:
    directive = {
        "Namespace": namespace,
        "Dimensions": [[label] if label else []],
        "Metrics": [
            {"Name": f"{PREFIX}{name}", "Unit": BY_NAME[name].unit} for name in sorted(members)
        ],
    }
    root: dict[str, Any] = {"_aws": {"Timestamp": at_ms, "CloudWatchMetrics": [directive]}}
    if label:
        root[label] = value
    root.update((f"{PREFIX}{name}", number) for name, number in members.items())
    return json.dumps(root, separators=(",", ":"))


def _thinned(times_s: Sequence[float]) -> list[float]:
    """At most as many as a document may have, the shortest and the longest among them: so many of
    them in order that the percentiles stay what they are."""
    if len(times_s) <= MOST_VALUES:
        return list(times_s)
    ranked = sorted(times_s)
    last = len(ranked) - 1
    return [ranked[round(n * last / (MOST_VALUES - 1))] for n in range(MOST_VALUES)]


def minute_claims(scripts: Scripts) -> Callable[[int], bool]:
    """Takes the right to write a minute (its number since 1970) for this process, however often it
    asks; False where another one has it. Raises StoreUnavailable."""
    name = secrets.token_hex(8)
    return lambda number: claim_once(scripts, f"minute:{number}", CLAIMED_MS, by=name)


class CloudWatchWriter:
    """Writes minutes. Blocking; not for several threads at once."""

    def __init__(
        self, namespace: str, claim: Callable[[int], bool], write: Callable[[str], None]
    ) -> None:
        """`claim` is True for the one process that is to write the minute of this number, however
        often it asks, and raises StoreError. `write` gets whole lines, without their ends."""
        self._namespace = namespace
        self._claim = claim
        self._write = write
        self._waiting: list[Minute] = []

    def write(self, closed: Sequence[Minute], gauges: Mapping[Key, float], now_ms: int) -> int:
        """Write what has `closed`, if nobody else has; how many minutes were written.

        While the store is gone nobody can say who writes: every process says that it is gone, and
        keeps its minutes.
        """
        self._waiting = [*self._waiting, *closed][-KEPT_MINUTES:]
        written = 0
        while self._waiting:
            minute = self._waiting[0]
            try:
                ours = self._claim(minute.number)
            except StoreError:
                self._write(unreachable(self._namespace, now_ms))
                break
            self._waiting.pop(0)
            if ours:
                # How things stand is known of now alone.
                standing = {} if self._waiting else gauges
                for line in documents(self._namespace, minute, standing):
                    self._write(line)
                written += 1
        return written
