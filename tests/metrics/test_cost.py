"""What the metrics cost a web process beside what the board's reader costs: measured."""

from __future__ import annotations

import time

import pytest

from callflow.metrics.collector import MetricsCollector
from callflow.store.reader import FROM_THE_START, CallWatcher
from tests.parts import TIMING, Parts
from tests.store.turns import whole_turn

CALLS = 1_000


@pytest.mark.benchmark
@pytest.mark.timeout(300)
def test_a_thousand_calls_cost_a_few_milliseconds(
    parts: Parts, capsys: pytest.CaptureFixture[str]
) -> None:
    sids = [f"CA{number:032}" for number in range(CALLS)]
    for sid in sids:
        parts.store.open(sid)
    watching, metrics = CallWatcher(parts.client), MetricsCollector(TIMING, by_minute=True)
    metrics.look(watching.look())
    for sid in sids:
        whole_turn(parts, sid, 1)
    look = watching.look()
    lines = watching.journal_lines(dict.fromkeys(sids, FROM_THE_START))
    sights = {sight.call_sid: sight for sight in look.calls}

    began = time.process_time()
    for sid in sids:
        metrics.lines(sid, sights[sid], [entry for _, entry in lines[sid]])
    read_ms = 1000 * (time.process_time() - began)
    count = sum(len(one) for one in lines.values())
    began = time.process_time()
    for _ in range(10):
        metrics.look(look)
    look_ms = 100 * (time.process_time() - began)
    began = time.process_time()
    for _ in range(10):
        text = metrics.exposition()[0]
    scrape_ms = 100 * (time.process_time() - began)
    with capsys.disabled():
        print(
            f"\n{CALLS} calls: {1000 * read_ms / count:.1f} µs a line ({count} lines), "
            f"{look_ms:.2f} ms a look, {scrape_ms:.1f} ms a scrape of {len(text)} bytes"
        )
    assert b"callflow_active_calls 1000.0" in text
    assert scrape_ms < 250
    assert look_ms < 50
