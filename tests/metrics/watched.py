"""Feeds metrics in tests as the board's feed does in a web process: a look, and the new lines."""

from __future__ import annotations

from dataclasses import dataclass, field

from prometheus_client.parser import text_string_to_metric_families

from callflow.metrics.collector import MetricsCollector
from callflow.store.reader import FROM_THE_START, CallWatcher
from tests.parts import Parts


@dataclass
class Watched:
    """The metrics of one process that watches the calls of `parts`."""

    parts: Parts
    by_minute: bool = False
    now_ms: int | None = None
    """the server's clock at the first look"""
    _read: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.metrics = MetricsCollector(self.parts.timing, by_minute=self.by_minute)
        self._watching = CallWatcher(self.parts.client)
        self.look(now_ms=self.now_ms)

    def look(self, *, now_ms: int | None = None) -> None:
        """One round."""
        look = self._watching.look(now_ms=now_ms)
        self.metrics.look(look)
        after = {
            sight.call_sid: self._read.get(sight.call_sid, FROM_THE_START) for sight in look.calls
        }
        for sight in look.calls:
            found = self._watching.journal_lines({sight.call_sid: after[sight.call_sid]})
            if lines := found[sight.call_sid]:
                self._read[sight.call_sid] = lines[-1][0]
                self.metrics.lines(sight.call_sid, sight, [entry for _, entry in lines])

    def numbers(self) -> dict[str, float]:
        """What `/metrics` says after another round, by name and labels as they are written."""
        self.look(now_ms=self.now_ms)
        return self.now()

    def now(self) -> dict[str, float]:
        """What it says now."""
        return numbers(self.metrics.exposition()[0].decode())


def numbers(text: str) -> dict[str, float]:
    """Every sample of an exposition: `name` or `name{label="value"}`."""
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = ",".join(f'{name}="{value}"' for name, value in sample.labels.items())
            found[f"{sample.name}{{{labels}}}" if labels else sample.name] = sample.value
    return found
