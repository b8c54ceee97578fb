"""Strikes: what they cost is measured and has a bound, and what they may take is no secret."""

from __future__ import annotations

from dataclasses import replace

import pytest

from callflow.call.history import JournalEntry
from callflow.lab.chaos.chaos_plan import KINDS, Harm
from callflow.lab.chaos.judge import judge
from callflow.lab.chaos.promises import (
    PROMISES,
    FaultKind,
    added_s,
    reply_bound_s,
    takeover_bound_s,
)
from callflow.lab.percentiles import Percentiles
from tests.chaos_lab.made_evidence import (
    CONDITIONS,
    EN,
    Talk,
    clean_call,
    reply,
    run_of,
    strike,
    utterance,
)

WORKER = "w1@h/1-a"


def journal(*lines: tuple[str, int], worker: str = WORKER) -> tuple[JournalEntry, ...]:
    """Lines of one turn, each an event and its time in ms."""
    return tuple(JournalEntry(event=event, at=at, turn=1, worker=worker) for event, at in lines)


def taken_over(after_ms: int, reason: str = "reclaimed") -> tuple[JournalEntry, ...]:
    """Struck at 5,000 ms, claimed by the next worker so much later."""
    return journal(("claimed", 4000), (reason, 4900 + after_ms), ("claimed", 5000 + after_ms))


def kinds_of(evidence: object) -> list[FaultKind]:
    return [fault.kind for fault in judge(evidence).faults]  # type: ignore[arg-type]


def test_every_kind_of_strike_has_a_bound() -> None:
    assert set(KINDS) == set(KINDS)
    assert all(takeover_bound_s(kind, CONDITIONS) >= 0 for kind in KINDS)


def test_every_kind_of_fault_breaks_a_promise_and_every_promise_can_be_broken() -> None:
    assert {kind.promise for kind in FaultKind} == set(PROMISES)


def test_a_takeover_is_timed_from_the_signal_to_the_next_claim() -> None:
    verdict = judge(run_of(strikes=[strike()], journals={"CA0": taken_over(400)}))
    assert verdict.takeover_s == Percentiles(1, 0.4, 0.4, 0.4, 0.4)
    assert verdict.per_kind["worker-kill"].takeover_s.p99 == 0.4
    assert verdict.per_kind["worker-kill"].bound_s == 1.5
    assert not verdict.faults


def test_a_worker_that_hands_back_is_timed_from_then_on() -> None:
    lines = journal(("claimed", 4000), ("handed_back", 9000), ("claimed", 9200))
    verdict = judge(run_of(strikes=[strike("worker-term")], journals={"CA0": lines}))
    assert verdict.takeover_s.max == 0.2


@pytest.mark.parametrize(
    "lines",
    [
        journal(("claimed", 4000), ("committed", 5100), ("claimed", 5400)),
        journal(("claimed", 4000), ("reclaimed", 4500), ("claimed", 5400)),
        journal(("claimed", 5001), ("reclaimed", 5200), ("claimed", 5400)),
        journal(("claimed", 4000), ("reclaimed", 5200), ("claimed", 5400), worker="w2@h/2-b"),
        journal(("claimed", 4000), ("reclaimed", 5200)),
    ],
)
def test_what_the_strike_did_not_hit_is_no_takeover(lines: tuple[JournalEntry, ...]) -> None:
    assert judge(run_of(strikes=[strike()], journals={"CA0": lines})).takeover_s.count == 0


@pytest.mark.parametrize(
    ("kind", "within_ms"),
    [("worker-kill", 1500), ("child-kill", 1500), ("worker-freeze", 11_000)],
)
def test_a_takeover_beyond_its_bound_is_late(kind: str, within_ms: int) -> None:
    struck = [strike(kind)]
    assert not judge(run_of(strikes=struck, journals={"CA0": taken_over(within_ms)})).faults
    verdict = judge(run_of(strikes=struck, journals={"CA0": taken_over(within_ms + 1)}))
    assert [fault.kind for fault in verdict.faults] == [FaultKind.LATE_TAKEOVER]
    assert verdict.broken == (3,)


def test_a_turn_that_only_a_human_took_from_its_dead_worker_was_taken_over_late() -> None:
    lines = journal(("claimed", 4000), ("alerted", 15_000), ("accepted", 18_000), ("ended", 30_000))
    verdict = judge(run_of(strikes=[strike()], journals={"CA0": lines}))
    assert verdict.takeover_s.max == 13.0
    assert [fault.kind for fault in verdict.faults] == [FaultKind.LATE_TAKEOVER]


def test_a_takeover_may_take_longer_while_the_sweep_is_struck_too() -> None:
    killed = strike()
    swept = strike("beat-kill", 4.0, victims=("beat1",), until_s=6.0)
    assert not judge(run_of(strikes=[killed, swept], journals={"CA0": taken_over(3400)})).faults
    assert judge(run_of(strikes=[killed, swept], journals={"CA0": taken_over(3600)})).faults


def unclaimed(after_ms: int, taken: str = "claimed") -> tuple[JournalEntry, ...]:
    """Said at 4,900 ms, just before the broker forgot everything, and taken up so much later."""
    return journal(("opened", 1000), ("heard", 4900), (taken, 5000 + after_ms), ("committed", 9000))


@pytest.mark.parametrize("taken", ["claimed", "accepted"])
def test_a_turn_whose_message_was_lost_is_taken_up_within_its_bound(taken: str) -> None:
    forgot = [strike("broker-empty", victims=("broker",))]
    verdict = judge(run_of(strikes=forgot, journals={"CA0": unclaimed(3000, taken)}))
    assert not verdict.faults
    assert verdict.per_kind["broker-empty"].takeover_s.max == 3.0
    verdict = judge(run_of(strikes=forgot, journals={"CA0": unclaimed(3001, taken)}))
    assert [fault.kind for fault in verdict.faults] == [FaultKind.LATE_TAKEOVER]


@pytest.mark.parametrize("kind", ["broker-kill", "server-freeze"])
def test_a_server_that_is_away_is_waited_for(kind: str) -> None:
    away = [strike(kind, victims=("broker",), until_s=7.0)]
    verdict = judge(run_of(strikes=away, journals={"CA0": unclaimed(5000)}))
    assert not verdict.faults
    assert verdict.per_kind[kind].takeover_s.max == verdict.per_kind[kind].bound_s == 3.0
    assert judge(run_of(strikes=away, journals={"CA0": unclaimed(5001)})).faults


def test_a_turn_that_somebody_had_when_the_broker_forgot_is_none_of_its() -> None:
    lines = journal(("heard", 4000), ("claimed", 4100), ("heard", 4500), ("committed", 9000))
    forgot = [strike("broker-empty", victims=("broker",))]
    verdict = judge(run_of(strikes=forgot, journals={"CA0": lines}))
    assert verdict.takeover_s.count == 0


def test_what_was_struck_long_before_adds_nothing() -> None:
    strikes = [strike("server-freeze", 1.0, until_s=2.0), strike("beat-kill", 1.0)]
    assert added_s(strikes, 10.0, 12.0) == 0
    assert added_s(strikes, 1.5, 3.0) == pytest.approx(0.5 + 3.0 + 2.0)


def test_a_silence_counts_for_the_kinds_that_lasted_then() -> None:
    talk = Talk()
    talk.exchange(1, wait_s=2.5)
    struck = [strike("web-kill", 1.0), strike("server-freeze", 50.0, until_s=51.0)]
    verdict = judge(run_of([talk], strikes=struck))
    talk_began = talk.report.silences[0].at_s
    assert talk_began > 1.0
    assert verdict.per_kind["web-kill"].silence_s.count == 0
    hit = judge(run_of([talk], strikes=[strike("server-freeze", 1.0, until_s=talk_began + 1)]))
    assert hit.per_kind["server-freeze"].silence_s.max == 2.5
    assert verdict.silence_s.max == 2.5


def lossy_call() -> Talk:
    """A call of which a failover took what was said second, and the caller was asked again."""
    talk = Talk()
    talk.exchange(1)
    talk.say(utterance(0, 2))
    talk.wait(1.0)
    talk.hear(EN["say_again"])
    talk.say(utterance(0, 2), repeated=True)
    talk.hear(" ".join(reply(0, 2)).replace("Reply 2", "Reply 3"))
    return talk


LOSSY = strike("failover-lossy", 1.0, victims=("server",), until_s=2.0, loses_writes=True)


def test_a_loss_that_was_allowed_and_told_is_detected_and_no_fault() -> None:
    verdict = judge(run_of([lossy_call()], strikes=[LOSSY]))
    assert not verdict.faults
    assert verdict.detected == 1


def test_with_a_replica_that_has_the_writes_the_same_loss_is_a_fault() -> None:
    verdict = judge(run_of([lossy_call()], strikes=[LOSSY], min_replicas=1))
    assert [fault.kind for fault in verdict.faults] == [FaultKind.LOST]
    assert verdict.detected == 0


def test_a_loss_without_such_a_failover_is_a_fault() -> None:
    plain = replace(LOSSY, loses_writes=False)
    assert kinds_of(run_of([lossy_call()], strikes=[plain])) == [FaultKind.LOST]


def test_a_loss_of_which_nobody_was_told_is_a_fault_even_then() -> None:
    talk = Talk()
    talk.exchange(1)
    talk.say(utterance(0, 2))
    talk.exchange(3)
    talk.report.duration_s += 100
    verdict = judge(run_of([talk], strikes=[LOSSY]))
    assert {fault.kind for fault in verdict.faults} == {FaultKind.LOST}


@pytest.mark.parametrize(("min_replicas", "kinds"), [(0, []), (1, [FaultKind.FORGOTTEN])])
def test_what_a_failover_may_take_may_be_forgotten(
    min_replicas: int, kinds: list[FaultKind]
) -> None:
    talk = Talk()
    talk.exchange(1)
    talk.exchange(2)
    talk.say(utterance(0, 3))
    talk.hear(" ".join(reply(0, 3)).replace("after 3 turns", "after 1 turn"))
    assert kinds_of(run_of([talk], strikes=[LOSSY], min_replicas=min_replicas)) == kinds


def poisoned(*, human: bool) -> Talk:
    """A call whose second utterance kills whoever takes it up."""
    talk = Talk()
    talk.exchange(1)
    talk.say(utterance(0, 2))
    talk.hear(EN["hold_1"])
    talk.hear("I have not understood that.")
    if human:
        talk.report.with_human = True
        talk.hear("", kind="human")
    talk.report.duration_s += 200
    return talk


def test_a_poisoned_turn_ends_at_a_human() -> None:
    for human in (True, False):
        talk = poisoned(human=human)
        poison = strike("poison", 4.0, call_sid=talk.report.call_sid, until_s=9.0)
        kinds = kinds_of(run_of([talk], strikes=[poison]))
        assert kinds == ([] if human else [FaultKind.POISON])


def test_a_poisoned_turn_costs_four_workers_and_no_more() -> None:
    for costs in (4, 5):
        talk = poisoned(human=True)
        victims = tuple(f"w1@h/{number}-a" for number in range(costs))
        poison = strike("poison", 4.0, call_sid=talk.report.call_sid, victims=victims)
        assert kinds_of(run_of([talk], strikes=[poison])) == [FaultKind.POISON] * (costs - 4)


def test_a_poisoned_turn_that_is_never_answered_is_two_faults() -> None:
    talk = clean_call()
    talk.say(utterance(0, 4))
    talk.report.duration_s += 200
    poison = strike("poison", 4.0, call_sid=talk.report.call_sid)
    assert set(kinds_of(run_of([talk], strikes=[poison]))) == {FaultKind.POISON, FaultKind.LOST}


def test_poison_is_no_takeover_to_be_timed() -> None:
    poison = strike("poison", 5.0, call_sid="CA0")
    assert not judge(run_of(strikes=[poison], journals={"CA0": taken_over(9000)})).faults


def test_a_key_without_a_lifetime_and_a_process_that_fell_are_faults_of_the_whole() -> None:
    verdict = judge(run_of([clean_call()], leaked=("callflow:{1}:x",), fallen=("w2",)))
    assert {fault.kind for fault in verdict.faults} == {FaultKind.LEAK, FaultKind.FALLEN}
    assert verdict.harmed == ()
    assert verdict.broken == (4, 8)


def test_of_a_long_log_its_beginning_and_its_end_are_told() -> None:
    log = "w2 ended by itself (1): Traceback\n  in a file\n  in another\nConnectionError: reset"
    (fault,) = judge(run_of(fallen=(log,))).faults
    assert "w2 ended by itself (1): Traceback … ConnectionError: reset" in fault.detail
    assert "\n" not in str(fault)


def test_an_answer_has_two_phrases_and_a_human_to_come_in() -> None:
    assert reply_bound_s(CONDITIONS) == pytest.approx(3 * (2.5 + 3.5 / 4) + 15)
    assert KINDS["mute-net"].harm is Harm.SERVER


def test_percentiles_are_numbers_that_were_measured() -> None:
    found = Percentiles.of([0.4, 0.1, 0.3, 0.2])
    assert (found.count, found.p50, found.p95, found.max) == (4, 0.2, 0.4, 0.4)
    assert Percentiles.of([]) == Percentiles()
    assert Percentiles.of(range(1, 101)).p99 == 99


def test_the_verdict_is_one_line_of_json_with_what_was_asked_for() -> None:
    verdict = judge(run_of([clean_call()], strikes=[strike()]))
    told = verdict.as_dict()
    assert "\n" not in verdict.as_json()
    wanted = "strikes per_kind lost repeated out_of_order silence_s takeover_s promises seed replay"
    assert set(wanted.split()) <= set(told)
    assert (told["lost"], told["repeated"], told["out_of_order"]) == (0, 0, 0)
    assert set(told["promises"]) == {str(number) for number in PROMISES}
