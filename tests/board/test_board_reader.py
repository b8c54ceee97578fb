"""The reader builds what has changed, counts the last hour, and goes on behind what fails."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from callflow.board.board_reader import BEAT_STEP_MS, BRIDGED_MS, BoardReader, BoardState
from callflow.call.history import JournalEntry
from callflow.celery import CALLS, WATCHDOG
from callflow.errors import StoreError, StoreUnavailable
from callflow.health.deployment_checks import UNDERSTUDY, WorkforceStatus
from callflow.health.worker_reports import ReportStore, WorkerReport
from callflow.redis.scripts import Scripts
from callflow.store.keys import ALL_SHARDS, call_keys
from callflow.store.reader import ENDED_MS, CallsOverview, CallSummary, CallWatcher
from callflow.store.result import Claimed, Lease
from tests.parts import SID, Parts
from tests.waiting import wait_until


@dataclass
class ReaderBench:
    """A reader of the test's server, its clock, and what goes wrong between the two."""

    parts: Parts
    now_s: float = 0.0
    fails: StoreError | None = None
    blind: frozenset[int] = frozenset()
    loses: set[str] = field(default_factory=set)
    ended_ms: int = 0

    def __post_init__(self) -> None:
        self._watching = CallWatcher(self.parts.client)
        watching: Any = self
        self.reader = BoardReader(
            watching, WorkforceStatus, lambda site: None, clock=lambda: self.now_s
        )

    def look(self, *, ended_ms: int) -> CallsOverview:
        """As `CallWatcher`, or as it is while a part of a cluster is gone."""
        self.ended_ms = ended_ms
        look = self._watching.look(ended_ms=ended_ms)
        hidden = {ALL_SHARDS[number] for number in self.blind}
        sights = [one for one in look.calls if call_keys(one.call_sid).shard not in hidden]
        return replace(look, calls=tuple(sights), blind=self.blind, failure=self.fails)

    def journal_lines(self, after: Mapping[str, str]) -> dict[str, list[tuple[str, JournalEntry]]]:
        """As `CallWatcher`, or with some of them missing, or none."""
        if self.fails is not None and not self.blind:
            raise self.fails
        asked = {sid: line for sid, line in after.items() if sid not in self.loses}
        return self._watching.journal_lines(asked)

    def read(self) -> BoardState:
        """A quarter of a second later."""
        self.now_s += 0.25
        return self.reader.read()


@pytest.fixture
def bench(parts: Parts) -> ReaderBench:
    built = ReaderBench(parts)
    parts.store.open(SID)
    a_millisecond_later(parts)
    return built


def a_millisecond_later(parts: Parts) -> None:
    """What happens in the millisecond of a reading counts as after it."""
    at_ms = parts.reader.now_ms()
    wait_until(lambda: parts.reader.now_ms() > at_ms, "the server's clock goes on")


def claimed(parts: Parts, name: str = "w1") -> Lease:
    answer = parts.store.claim(SID, f"{name}@test/1-aa", name)
    assert isinstance(answer, Claimed)
    return answer.lease


def taken_over(parts: Parts, turn: int = 1) -> None:
    """A worker dies over the call."""
    parts.store.record_utterance(SID, turn, "stuck")
    lease = claimed(parts, f"w{turn}")
    parts.store.reclaim(SID, lease.fence, 10**13, "gone")


def events(seen: BoardState, sid: str = SID) -> list[str]:
    return [entry.event for entry in seen.lines[sid][1]] if sid in seen.lines else []


def test_only_what_has_changed_is_built_anew(bench: ReaderBench) -> None:
    bench.parts.store.open("CA2")
    first = bench.read().rows
    bench.parts.store.record_utterance(SID, 1, "stuck")
    second = bench.read().rows
    assert second["CA2"] is first["CA2"]
    assert second[SID] is not first[SID]
    assert json.loads(second[SID].text)["last"] == ["caller", "stuck"]
    assert bench.read().rows[SID] is second[SID]


def test_a_beat_alone_is_told_twice_a_second_and_no_oftener(bench: ReaderBench) -> None:
    bench.parts.store.record_utterance(SID, 1, "stuck")
    lease = claimed(bench.parts)
    first = bench.read().rows[SID]
    at = first.row.beat_at
    assert at is not None
    bench.parts.store.beat(lease, now_ms=at + BEAT_STEP_MS)
    assert bench.read().rows[SID] is first
    bench.parts.store.beat(lease, now_ms=at + BEAT_STEP_MS + 1)
    assert bench.read().rows[SID].row.beat_at == at + BEAT_STEP_MS + 1
    bench.parts.store.beat(lease, now_ms=at + BEAT_STEP_MS + 2)
    bench.parts.store.save_draft(lease, 1, "I am")
    assert bench.read().rows[SID].row.beat_at == at + BEAT_STEP_MS + 2


def test_each_line_that_is_written_while_we_look_is_told_once(bench: ReaderBench) -> None:
    assert events(bench.read()) == []  # The opening was before.
    bench.parts.store.record_utterance(SID, 1, "stuck")
    bench.parts.store.open("CA2")
    seen = bench.read()
    assert (events(seen), events(seen, "CA2")) == (["heard"], ["opened"])
    assert isinstance(seen.lines[SID][0], CallSummary)
    assert bench.read().lines == {}


def test_takeovers_of_a_call_are_all_counted_and_those_of_the_hour_since_we_look(
    bench: ReaderBench,
) -> None:
    taken_over(bench.parts)
    a_millisecond_later(bench.parts)
    first = bench.read()
    assert (first.rows[SID].row.takeovers, first.takeovers) == (1, 0)
    assert first.since_ms == first.overview.now_ms
    bench.parts.store.reclaim(SID, claimed(bench.parts, "again").fence, 10**13, "gone")
    second = bench.read()
    assert (second.rows[SID].row.takeovers, second.takeovers) == (2, 1)
    assert second.since_ms == first.since_ms


def test_the_longest_silence_may_be_one_that_is_not_over(bench: ReaderBench) -> None:
    assert bench.read().silence is None
    now_ms = bench.parts.reader.now_ms()
    bench.parts.store.record_utterance(SID, 1, "stuck", now_ms=now_ms - 3_000)
    silence = bench.read().silence
    assert silence is not None
    assert silence.call_sid == SID
    assert 3_000 <= silence.ms < 3_000 + 60_000
    lease = claimed(bench.parts)
    bench.parts.store.commit(lease, 1, "I am here.", now_ms=now_ms + 1_000)
    silence = bench.read().silence
    assert silence is not None
    assert silence.ms == 4_000
    assert bench.read().silence == silence


def test_a_call_that_ends_is_shown_a_while_and_its_last_lines_are_told(bench: ReaderBench) -> None:
    bench.read()
    bench.parts.store.end(SID, "hung_up")
    seen = bench.read()
    assert (seen.rows[SID].row.word, events(seen)) == ("ended", ["ended"])
    bench.parts.store.open("CA2")
    bench.parts.store.end("CA2", "hung_up", now_ms=seen.overview.now_ms - ENDED_MS - 1)
    assert "CA2" not in bench.read().rows


def test_what_happened_in_a_pause_is_read_after_it(bench: ReaderBench) -> None:
    first = bench.read()
    taken_over(bench.parts)
    ended_at = first.overview.now_ms - ENDED_MS - 5_000
    bench.parts.store.end(SID, "hung_up", now_ms=ended_at)  # Long before the next look.
    bench.now_s += BRIDGED_MS / 1000 - 1
    after = bench.read()
    assert bench.ended_ms > BRIDGED_MS
    assert (events(after)[:1], after.takeovers, after.since_ms) == (["heard"], 1, first.since_ms)
    assert SID not in after.rows


def test_after_a_long_pause_the_hour_begins_anew(bench: ReaderBench) -> None:
    first = bench.read()
    taken_over(bench.parts)
    assert bench.read().takeovers == 1
    bench.now_s += BRIDGED_MS / 1000 + 1
    after = bench.read()
    assert (after.takeovers, after.rows[SID].row.takeovers) == (0, 1)
    assert after.since_ms > first.since_ms


def test_calls_of_a_part_that_is_gone_are_shown_as_they_were_and_as_stale(
    bench: ReaderBench,
) -> None:
    number = ALL_SHARDS.index(call_keys(SID).shard)
    other = next(
        sid for sid in map("CA{}".format, range(99)) if call_keys(sid).shard != ALL_SHARDS[number]
    )
    bench.parts.store.open(other)
    before = bench.read().rows
    bench.blind, bench.fails = frozenset({number}), StoreUnavailable("there", "it is gone")
    bench.parts.store.record_utterance(SID, 1, "stuck")
    during = bench.read()
    assert (during.rows[SID].row.stale, during.rows[SID].row.last) == (True, None)
    assert during.rows[other] is before[other]
    assert "it is gone" in during.trouble
    assert bench.read().rows[SID] is during.rows[SID]
    bench.blind, bench.fails = frozenset(), None
    after = bench.read()
    assert (after.rows[SID].row.stale, events(after), after.trouble) == (False, ["heard"], "")


def test_a_journal_that_could_not_be_read_is_read_the_next_time(bench: ReaderBench) -> None:
    bench.read()
    taken_over(bench.parts)
    bench.fails = StoreUnavailable("there", "it is gone")
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            bench.read()
    bench.fails, bench.loses = None, {SID}
    lost = bench.read()
    assert (lost.lines, lost.rows[SID].row.takeovers) == ({}, 0)
    bench.loses = set()
    seen = bench.read()
    assert (events(seen)[-1], seen.rows[SID].row.takeovers) == ("reclaimed", 1)


def test_the_lamps_tell_who_works_and_who_looks_after_them(parts: Parts) -> None:
    vitals = ReportStore(Scripts(parts.client))

    def lamps() -> tuple[int, str, str]:
        told = WorkforceStatus.read(vitals, parts.leases)
        return told.workers, told.watchdog, told.beat

    assert lamps() == (0, "bad", "unknown")
    vitals.save(WorkerReport("w1@test", queues=CALLS, slots=4, children=4, busy=1))
    parts.leases.mark_sweep(f"w1@test{UNDERSTUDY}")
    assert lamps() == (1, "understudy", "unknown")
    vitals.save(WorkerReport("dog@test", queues=(WATCHDOG,)))
    assert lamps() == (1, "understudy", "bad")
    parts.leases.mark_sweep("dog@test")
    assert lamps() == (1, "ok", "ok")
    told = WorkforceStatus.read(vitals, parts.leases)
    assert (told.slots, told.busy, told.processes) == (4, 1, 0)
    vitals.forget("w1@test")
    vitals.forget("dog@test")


def test_a_line_that_cannot_be_read_stops_no_board_and_is_told(bench: ReaderBench) -> None:
    bench.parts.client.xadd(call_keys(SID).journal, {"event": "of a newer release", "at": "soon"})
    bench.parts.store.record_utterance(SID, 1, "stuck")
    assert SID in bench.read().rows
    assert SID in bench.read().trouble
    bench.parts.client.flushall()
    assert bench.read().trouble == ""
