"""What real turns leave in the metrics: each thing once, and how long it took."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from threading import Event

import pytest

from callflow import handover
from callflow.call import ladder
from callflow.call.record import CallRecord
from callflow.responder import Piece
from callflow.store.result import Claimed, Lease, Result
from callflow.turn import TurnOutcome
from tests.metrics.watched import Watched
from tests.parts import SID, Parts, Says

HELLO = Says(("Hello. ", "Stay inside."))

T = 1_700_000_000_000
"""A time on the server's clock, ms."""


@dataclass
class Remarks:
    """Answers, with remarks about how that came about."""

    remarks: tuple[str, ...]

    def respond(self, record: CallRecord, stop: Event) -> Iterator[Piece]:
        yield Piece("Stay inside.", last=True, remarks=self.remarks)


class Raises:
    """A responder that cannot bear what it is asked."""

    def respond(self, record: CallRecord, stop: Event) -> Iterator[Piece]:
        yield Piece("Hello. ")
        raise ZeroDivisionError


def calls_in(parts: Parts, sid: str = SID, said: str = "stuck between floors") -> None:
    parts.intake.open(sid)
    parts.intake.hear(sid, 1, said)


def claimed(parts: Parts, worker: str, at: int, sid: str = SID) -> Lease:
    found = parts.store.claim(sid, worker, f"{worker}-{at}", now_ms=at)
    assert isinstance(found, Claimed)
    return found.lease


def heard_at(parts: Parts, at: int) -> None:
    """A call that began a moment before."""
    parts.store.open(SID, now_ms=at - 100)
    parts.store.record_utterance(SID, 1, "stuck", now_ms=at)


def took(watched: Watched, name: str, labels: str = "") -> tuple[float, float]:
    """How often a time was measured, and all of it together, s."""
    found = watched.numbers()
    return found[f"callflow_{name}_count{labels}"], round(found[f"callflow_{name}_sum{labels}"], 3)


def test_an_answered_turn_is_counted_once_however_often_it_is_looked_at(
    parts: Parts, watched: Watched
) -> None:
    calls_in(parts)
    assert parts.worker(HELLO).run(SID) is TurnOutcome.ANSWERED
    watched.look()
    found = watched.numbers()
    assert found["callflow_calls_opened_total"] == 1
    assert found["callflow_turns_heard_total"] == 1
    assert found["callflow_turns_answered_total"] == 1
    assert found["callflow_claim_wait_seconds_count"] == 1
    assert found["callflow_caller_silence_seconds_count"] == 1
    assert found["callflow_turn_seconds_count"] == 1
    for stage in ("understand", "first_words", "rest"):
        assert found[f'callflow_turn_stage_seconds_count{{stage="{stage}"}}'] == 1
    assert sum(value for name, value in found.items() if "takeover_seconds_count" in name) == 0


def test_every_part_of_a_turn_is_as_long_as_the_journal_says(parts: Parts) -> None:
    watched = Watched(parts, now_ms=T)
    heard_at(parts, T + 1_000)
    lease = claimed(parts, "w1", T + 1_300)
    understood = parts.record().model_copy(update={"understood": 1})
    parts.store.save_analysis(lease, understood, now_ms=T + 1_350)
    parts.store.save_draft(lease, 1, "Hello. ", now_ms=T + 1_750)
    parts.store.save_draft(lease, 1, "Hello. Stay ", now_ms=T + 1_900)
    assert parts.store.commit(lease, 1, "Hello. Stay inside.", now_ms=T + 2_750).result is Result.OK
    assert took(watched, "claim_wait_seconds") == (1, 0.3)
    assert took(watched, "caller_silence_seconds") == (1, 0.75)
    assert took(watched, "turn_seconds") == (1, 1.75)
    assert took(watched, "turn_stage_seconds", '{stage="understand"}')[1] == 0.05
    assert took(watched, "turn_stage_seconds", '{stage="first_words"}')[1] == 0.4
    assert took(watched, "turn_stage_seconds", '{stage="rest"}')[1] == 1.0


def test_what_was_said_into_a_reply_is_owed_from_the_end_of_that_reply(parts: Parts) -> None:
    watched = Watched(parts, now_ms=T)
    heard_at(parts, T + 100)
    lease = claimed(parts, "w1", T + 200)
    parts.store.record_utterance(SID, 2, "hello?", now_ms=T + 300)
    parts.store.commit(lease, 1, "Stay inside.", now_ms=T + 2_000)
    second = claimed(parts, "w2", T + 2_500)
    parts.store.commit(second, 2, "I am here.", now_ms=T + 2_600)
    assert took(watched, "claim_wait_seconds") == (2, 0.6)
    assert took(watched, "caller_silence_seconds") == (2, 2.5)


@pytest.mark.parametrize("cause", ["gone", "silent"])
def test_a_takeover_takes_from_the_last_sign_of_life(parts: Parts, cause: str) -> None:
    watched = Watched(parts, now_ms=T)
    heard_at(parts, T + 100)
    lease = claimed(parts, "w1", T + 200)
    parts.store.beat(lease, now_ms=T + 700)
    watched.look(now_ms=T + 800)
    parts.store.reclaim(SID, lease.fence, T + 700, cause, now_ms=T + 1_500)
    second = claimed(parts, "w2", T + 1_600)
    parts.store.commit(second, 1, "Stay inside.", now_ms=T + 1_700)
    assert took(watched, "takeover_seconds", f'{{cause="{cause}"}}') == (1, 0.9)
    assert took(watched, "claim_wait_seconds") == (1, 0.1)


def test_a_worker_that_dies_before_anybody_saw_its_beat_was_alive_when_it_claimed(
    parts: Parts,
) -> None:
    watched = Watched(parts, now_ms=T)
    heard_at(parts, T + 100)
    lease = claimed(parts, "w1", T + 200)
    parts.store.reclaim(SID, lease.fence, T + 200, "gone", now_ms=T + 600)
    claimed(parts, "w2", T + 700)
    assert took(watched, "takeover_seconds", '{cause="gone"}') == (1, 0.5)


@pytest.mark.parametrize(
    ("reason", "cause"),
    [("drained", "drained"), ("deadline", "deadline"), ("ZeroDivisionError", "failed")],
)
def test_a_turn_that_is_handed_back_is_taken_over_from_then_on(
    parts: Parts, reason: str, cause: str
) -> None:
    watched = Watched(parts, now_ms=T)
    heard_at(parts, T + 100)
    lease = claimed(parts, "w1", T + 200)
    parts.store.hand_back(lease, reason, costs=False, now_ms=T + 5_000)
    claimed(parts, "w2", T + 5_250)
    assert took(watched, "takeover_seconds", f'{{cause="{cause}"}}') == (1, 0.25)


def test_a_responder_that_fails_costs_a_takeover_of_that_cause(
    parts: Parts, watched: Watched
) -> None:
    calls_in(parts)
    with pytest.raises(ZeroDivisionError):
        parts.worker(Raises()).run(SID)
    assert parts.worker(HELLO).run(SID) is TurnOutcome.ANSWERED
    assert watched.numbers()['callflow_takeover_seconds_count{cause="failed"}'] == 1


def test_a_turn_that_nobody_took_in_time_counts_as_unclaimed(parts: Parts) -> None:
    watched = Watched(parts, now_ms=T)
    heard_at(parts, T + 100)
    claimed(parts, "w1", T + 100 + parts.timing.owed_ms + 1)
    assert took(watched, "takeover_seconds", '{cause="unclaimed"}') == (1, 2.501)


def test_a_turn_that_kills_its_workers_ends_at_a_human_and_in_the_metrics(
    parts: Parts, watched: Watched
) -> None:
    calls_in(parts)
    handover.hand_to_human(parts.store, SID, handover.POISON)
    parts.store.handovers.accept(SID, ladder.accepted(ladder.fresh(handover.POISON), "CA1"))
    found = watched.numbers()
    assert found['callflow_transfers_total{reason="poison"}'] == 1
    assert found['callflow_humans_wanted_total{reason="poison"}'] == 1
    assert found["callflow_human_answer_seconds_count"] == 1
    assert found["callflow_humans_awaited"] == 0
    assert found['callflow_calls{word="with a human"}'] == 1


def test_a_human_who_does_not_come_is_seen_to_be_awaited(parts: Parts, watched: Watched) -> None:
    parts.intake.open(SID)
    parts.store.handovers.want(SID, "asked", now_ms=parts.reader.now_ms() - 50_000)
    found = watched.numbers()
    assert found["callflow_humans_awaited"] == 1
    assert 50 <= found["callflow_longest_human_awaited_seconds"] < 60


def test_a_write_of_a_worker_that_was_taken_over_is_counted_as_fenced(
    parts: Parts, watched: Watched
) -> None:
    calls_in(parts)
    now = parts.reader.now_ms()
    lease = claimed(parts, "w1", now)
    parts.store.reclaim(SID, lease.fence, now, "gone")
    assert parts.store.commit(lease, 1, "Too late.").result is Result.FENCED
    assert watched.numbers()['callflow_refused_writes_total{reason="fenced"}'] == 1


def test_how_models_fail_and_what_the_guard_catches_is_told_by_reason(
    parts: Parts, watched: Watched
) -> None:
    calls_in(parts)
    remarks = ("model:slow", "model:open", "model:too_early", "guard:doors", "model:script")
    parts.worker(Remarks(remarks)).run(SID)
    found = watched.numbers()
    assert found['callflow_model_failures_total{reason="slow"}'] == 1
    assert found['callflow_model_failures_total{reason="open"}'] == 1
    assert found['callflow_model_failures_total{reason="busy"}'] == 0
    assert found['callflow_model_mistakes_total{kind="too_early"}'] == 1
    assert found['callflow_guard_catches_total{rule="doors"}'] == 1
    assert found["callflow_model_fallbacks_total"] == 1


def test_turns_that_a_failover_took_are_counted(parts: Parts, watched: Watched) -> None:
    calls_in(parts)
    parts.store.record_utterance(SID, 4, "are you there", after_loss=True)
    assert watched.numbers()["callflow_turns_lost_total"] == 2


def test_a_heartbeat_that_is_overdue_is_counted_once(parts: Parts) -> None:
    watched = Watched(parts, now_ms=T)
    heard_at(parts, T + 100)
    lease = claimed(parts, "w1", T + 200)
    for at in (300, 351, 500, 800):  # It is overdue after 150 ms.
        watched.look(now_ms=T + at)
    assert watched.now()["callflow_heartbeats_missed_total"] == 1
    assert watched.now()["callflow_beats_overdue"] == 1
    parts.store.beat(lease, now_ms=T + 850)
    watched.look(now_ms=T + 900)
    assert watched.now()["callflow_beats_overdue"] == 0
    watched.look(now_ms=T + 1_100)
    assert watched.now()["callflow_heartbeats_missed_total"] == 2


def test_what_happened_before_this_process_began_is_not_counted_again(
    parts: Parts, watched: Watched
) -> None:
    calls_in(parts)
    worker = parts.worker(HELLO)
    worker.run(SID)
    later = Watched(parts)
    assert later.numbers()["callflow_turns_answered_total"] == 0
    assert later.numbers()["callflow_active_calls"] == 1
    parts.intake.hear(SID, 2, "hello?")
    worker.run(SID)
    assert later.numbers()["callflow_turns_answered_total"] == 1
    assert watched.numbers()["callflow_turns_answered_total"] == 2


def test_all_processes_tell_the_same(parts: Parts, watched: Watched) -> None:
    other = Watched(parts)
    for number in range(5):
        sid = f"CA{number:032}"
        calls_in(parts, sid)
        parts.worker(HELLO).run(sid)
        if number % 2:
            other.look()
    parts.store.end(SID, "hung_up")

    def counted(one: Watched) -> dict[str, float]:
        gauges = ("data_age", "sweep_age")
        return {
            name: round(value, 6)
            for name, value in one.numbers().items()
            if not any(g in name for g in gauges)
        }

    assert counted(watched) == counted(other)
    assert counted(other)['callflow_calls_ended_total{reason="hung_up"}'] == 1
