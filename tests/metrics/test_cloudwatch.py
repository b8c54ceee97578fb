"""What is written for CloudWatch: after its specification, each minute once, by one process."""

from __future__ import annotations

import re
from pathlib import Path
from unittest.mock import Mock

import pytest

from callflow.errors import StoreUnavailable
from callflow.metrics import cloudwatch
from callflow.metrics.catalogue import METRICS, Kind
from callflow.metrics.cloudwatch import CloudWatchWriter, minute_claims
from callflow.metrics.counters import GRACE_MS, MINUTE_MS, Minute
from callflow.redis.scripts import Scripts
from callflow.web import monitoring
from tests.exchange import open_exchange
from tests.metrics.emf_schema import checked
from tests.metrics.watched import Watched
from tests.parts import SID, Parts
from tests.waiting import wait_until

T = 1_700_000_040_000
"""The beginning of a minute on the server's clock, ms."""


def turn_at(parts: Parts, at: int, number: int) -> None:
    """A turn that was heard, claimed 200 ms later and answered 300 ms after that."""
    parts.store.record_utterance(SID, number, "stuck", now_ms=at)
    parts.store.claim(SID, "w1", f"c{number}", now_ms=at + 200)
    lease = parts.store.claim(SID, "w1", f"c{number}", now_ms=at + 200)
    assert not isinstance(lease, str)
    parts.store.commit(lease.lease, number, "Stay inside.", now_ms=at + 500)


def values(lines: list[str]) -> dict[str, float | list[float]]:
    """What the lines say, by metric and dimension."""
    found = {}
    for line in lines:
        metadata, root = checked(line)
        (directive,) = metadata.CloudWatchMetrics
        (dimensions,) = directive.Dimensions
        value = "".join(str(root[name]) for name in dimensions)
        for metric in directive.Metrics:
            key = f"{metric.Name}/{value}" if value else metric.Name
            assert key not in found, key
            found[key] = root[metric.Name]
    return found


def test_a_minute_of_real_turns_is_told_after_the_specification(parts: Parts) -> None:
    watched = Watched(parts, by_minute=True, now_ms=T - 1_000)
    parts.store.open(SID, now_ms=T + 1)
    turn_at(parts, T + 1_000, 1)
    turn_at(parts, T + 9_000, 2)
    turn_at(parts, T + MINUTE_MS, 3)
    watched.look(now_ms=T + MINUTE_MS + GRACE_MS)
    (minute,) = watched.metrics.take_closed()
    lines = list(cloudwatch.documents("lifts/callflow", minute, watched.metrics.gauges()))
    told = values(lines)
    assert checked(lines[0])[0].Timestamp == T
    assert checked(lines[0])[0].CloudWatchMetrics[0].Namespace == "lifts/callflow"
    assert told["callflow_calls_opened"] == 1
    assert told["callflow_turns_answered"] == 2
    assert told["callflow_turns_lost"] == 0
    assert told["callflow_claim_wait_seconds"] == [0.2, 0.2]
    assert told["callflow_turn_seconds"] == [0.5, 0.5]
    assert told["callflow_active_calls"] == 1
    assert told["callflow_calls/listening"] == 1


def test_every_metric_can_be_told(parts: Parts) -> None:
    minute = Minute(T // MINUTE_MS)
    gauges: dict[tuple[str, str], float] = {}
    for one in METRICS:
        for value in one.known if one.label else ("",):
            if one.kind is Kind.COUNTER:
                minute.counts[one.name, value] = 2.0
            elif one.kind is Kind.TIMES:
                minute.times_s[one.name, value] = [0.5]
            else:
                gauges[one.name, value] = 1.0
    told = values(list(cloudwatch.documents("n", minute, gauges)))
    names = {f"callflow_{one.name}" for one in METRICS if one.known or one.label is None}
    assert {key.partition("/")[0] for key in told} == names


def test_of_very_many_values_so_many_are_told_as_are_allowed() -> None:
    minute = Minute(1)
    minute.times_s["turn_seconds", ""] = [n / 1000 for n in range(10_000)]
    told = values(list(cloudwatch.documents("n", minute, {})))["callflow_turn_seconds"]
    assert isinstance(told, list)
    assert len(told) == 100
    assert (told[0], told[-1]) == (0.0, 9.999)
    assert told[49] == pytest.approx(5.0, abs=0.06)


def test_two_processes_tell_each_minute_once_and_the_same(parts: Parts) -> None:
    lines: list[str] = []
    both = [Watched(parts, by_minute=True, now_ms=T - 1_000) for _ in range(2)]
    tellers = [
        CloudWatchWriter("n", minute_claims(Scripts(parts.client)), lines.append) for _ in both
    ]
    parts.store.open(SID, now_ms=T + 1)
    for number in range(1, 4):
        at = T + (number - 1) * MINUTE_MS
        turn_at(parts, at + 1_000, number)
        closed_ms = at + MINUTE_MS + GRACE_MS
        told = []
        # Now one is first, now the other; one is told late of what the other has told.
        for one, teller in list(zip(both, tellers, strict=True))[:: 1 if number % 2 else -1]:
            one.look(now_ms=closed_ms)
            closed = one.metrics.take_closed()
            assert [each.number for each in closed] == [at // MINUTE_MS]
            told.append(teller.write(closed, one.metrics.gauges(), closed_ms))
        assert told == [1, 0]
    answered = [
        root["callflow_turns_answered"]
        for _, root in map(checked, lines)
        if "callflow_turns_answered" in root
    ]
    assert answered == [1, 1, 1]


def test_a_minute_whose_first_answer_was_lost_stays_with_who_took_it(parts: Parts) -> None:
    one, other = (minute_claims(Scripts(parts.client)) for _ in range(2))
    assert [one(7), one(7), other(7), other(8)] == [True, True, False, True]


def test_a_process_that_has_just_begun_tells_no_part_of_a_minute(parts: Parts) -> None:
    watched = Watched(parts, by_minute=True, now_ms=T + 30_000)
    parts.store.open(SID, now_ms=T + 40_000)
    watched.look(now_ms=T + MINUTE_MS + GRACE_MS)
    assert watched.metrics.take_closed() == []
    watched.look(now_ms=T + 2 * MINUTE_MS + GRACE_MS)
    (minute,) = watched.metrics.take_closed()
    assert minute.number == T // MINUTE_MS + 1
    assert not minute.counts


def test_while_the_store_is_gone_that_is_told_and_the_minutes_are_kept(parts: Parts) -> None:
    lines: list[str] = []
    claim = Mock(side_effect=StoreUnavailable("here", "it is gone"))
    teller = CloudWatchWriter("n", claim, lines.append)
    assert teller.write([Minute(1)], {}, T) == 0
    assert teller.write([Minute(2)], {}, T) == 0
    assert [values([line]) for line in lines] == [{"callflow_store_up": 0.0}] * 2
    lines.clear()
    claim.side_effect = minute_claims(Scripts(parts.client))
    assert teller.write([Minute(3)], {("store_up", ""): 1.0}, T) == 3
    # How things stand is known of now alone.
    assert sum("callflow_store_up" in line for line in lines) == 1


def test_a_web_process_writes_it_to_its_standard_output(
    parts: Parts,
    redis_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(monitoring, "WRITE_EVERY_S", 0.05)
    monkeypatch.setattr("callflow.metrics.counters.MINUTE_MS", 500)
    monkeypatch.setattr("callflow.metrics.counters.GRACE_MS", 300)
    written = ""

    def found() -> bool:
        nonlocal written
        written += capfd.readouterr().out
        return re.search(r'"callflow_turns_answered":[1-9]', written) is not None

    with open_exchange(parts, redis_url, tmp_path, cloudwatch_namespace="lifts") as running:
        with running.worker("Stay inside."):
            wait_until(lambda: "callflow_store_up" in capfd.readouterr().out, "a line")
            line = running.arrived()
            line.says(1, "stuck")
            wait_until(found, "the turn is told")
        # Nobody may read them by HTTP for that.
        assert line.client.get(f"http://127.0.0.1:{running.port}/metrics").status_code == 404
    for one in filter(None, written.splitlines()):
        checked(one)
