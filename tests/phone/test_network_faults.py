"""Faults of networks and people: repeated, late, lost and out of order on purpose, by a seed."""

from __future__ import annotations

import asyncio
from collections import Counter

from callflow.lab.carrier.call_report import CallReport
from callflow.lab.carrier.network_faults import CallFaults, FaultDice, NetworkFaults, RequestFault
from tests.phone.liftline import (
    Asked,
    LiftLine,
    carrier_of,
    gather,
    in_event_loop,
    person,
    response,
)

LINES = tuple(f"line {number}" for number in range(1, 9))


async def spoiled(
    faults: NetworkFaults, seed: int = 7, line: LiftLine | None = None
) -> tuple[CallReport, LiftLine]:
    line = line or LiftLine()
    async with carrier_of(line, network_faults=faults, seed=seed) as carrier:
        report = await carrier.call(person(*LINES))
        await carrier.settle()
    return report, line


@in_event_loop
async def test_repeats_arrive_and_their_answers_count_for_nothing() -> None:
    report, line = await spoiled(NetworkFaults(repeat=0.6))
    times = Counter(asked.query["n"] for asked in line.to("/voice/turn"))
    assert set(times) == {str(number) for number in range(1, 9)}
    assert 3 <= sum(times.values()) - 8 <= 8
    assert max(times.values()) == 2
    assert [turn.said for turn in report.turns] == list(LINES)
    assert all(len(turn.heard) == 1 for turn in report.turns)
    repeated = [one for one in line.to("/voice/turn") if one.query["n"] == _doubled(times)]
    assert repeated[0].fields == repeated[1].fields
    assert all(asked.signed for asked in line.asked)


def _doubled(times: Counter[str]) -> str:
    return next(name for name, count in times.items() if count == 2)


@in_event_loop
async def test_what_is_lost_is_tried_again_and_not_put_down_to_the_application() -> None:
    report, line = await spoiled(NetworkFaults(drop=0.5))
    assert report.retries >= 2
    assert not report.failed
    assert all(turn.answered for turn in report.turns)
    # Lost requests take the time to connect, which is 0.2 s here, before they are tried again.
    worst = max(report.silences, key=lambda one: one.length_s)
    assert worst.length_s >= 0.2
    assert worst.own_s < worst.length_s - 0.15
    numbers = Counter(asked.query["n"] for asked in line.to("/voice/turn"))
    assert set(numbers.values()) <= {1, 2}


@in_event_loop
async def test_delays_are_the_carriers_own() -> None:
    report, _ = await spoiled(NetworkFaults(delay=1, longest_delay_s=0.1))
    assert len(report.silences) >= 8
    for silence in report.silences:
        assert 0.02 <= silence.mischief_s <= 0.1
        assert silence.own_s < silence.length_s


@in_event_loop
async def test_a_status_callback_is_overtaken_but_the_last_one_is_never_lost() -> None:
    _, line = await spoiled(NetworkFaults(reorder=1, drop=0.3), seed=3)
    statuses = [asked.fields for asked in line.to("/voice/status")]
    assert [int(fields["SequenceNumber"]) for fields in statuses] != [0, 1, 2]
    assert "completed" in {fields["CallStatus"] for fields in statuses}


@in_event_loop
async def test_the_same_seed_does_the_same() -> None:
    everything = NetworkFaults(repeat=0.4, delay=0.4, drop=0.4, interrupt=0.4, longest_delay_s=0.05)

    async def shape(seed: int) -> list[tuple[str, str, int]]:
        _, line = await spoiled(everything, seed)
        times = Counter((asked.path, asked.query.get("n", "")) for asked in line.asked)
        return sorted((path, turn, count) for (path, turn), count in times.items())

    first, again, other = await asyncio.gather(shape(1), shape(1), shape(2))
    assert first == again
    assert first != other


def test_callers_interrupt_hang_up_and_lose_patience_by_chance() -> None:
    async def turn(asked: Asked) -> str:
        await asyncio.sleep(0.05)
        return response(gather("A long reply that one may interrupt.", int(asked.query["n"]) + 1))

    async def story() -> None:
        line = LiftLine({"/voice/turn": turn})
        report, _ = await spoiled(NetworkFaults(interrupt=0.5), line=line)
        assert 1 <= sum(turn.interrupted for turn in report.turns) <= 7

    asyncio.run(story())
    dice = FaultDice(0, NetworkFaults(give_up=0.5, hang_up=0.5))
    callers = [CallFaults(dice, f"CA{number}").of_caller(4) for number in range(40)]
    assert 8 < sum(one.patience_s == 15 for one in callers) < 32
    leaving = [one.hangs_up_in for one in callers if one.hangs_up_in is not None]
    assert 8 < len(leaving) < 32
    assert all(1 <= turn <= 4 and 0 <= after_s <= 2 for turn, after_s in leaving)


def test_without_faults_nothing_happens() -> None:
    faults = CallFaults(FaultDice(1, NetworkFaults()), "CA1")
    assert faults.next("/voice/turn", "in-progress") == RequestFault()


def test_one_kind_of_fault_does_not_move_the_dice_of_another() -> None:
    everything = NetworkFaults(repeat=0.5, delay=0.5, drop=0.5, reorder=0.5)
    part = {"repeat": "repeat_after_s", "delay": "delay_s", "drop": "lost", "reorder": "overtaken"}
    for kind, name in part.items():
        plans = (everything, NetworkFaults(**{kind: 0.5}))
        both, alone = (CallFaults(FaultDice(5, plan), "CA1") for plan in plans)
        for _ in range(50):
            faults = (both.next("/t", "ringing"), alone.next("/t", "ringing"))
            assert len({getattr(fault, name) for fault in faults}) == 1
