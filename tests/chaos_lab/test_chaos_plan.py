"""What a seed decides, and what never happens together, whatever it decides."""

from __future__ import annotations

import asyncio
import shlex
import time
from collections import Counter
from itertools import islice
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest
from typer.testing import CliRunner

from callflow.cli import app, lab_commands
from callflow.lab.chaos.chaos_plan import KINDS, SERVERS, Plan, plan_strikes
from callflow.lab.chaos.environment import ChaosEnvironment
from callflow.lab.chaos.strikes import STRIKES, StrikeLog, Striker


def test_every_kind_that_can_be_asked_for_can_be_done() -> None:
    assert STRIKES.keys() == KINDS.keys()


def test_the_same_seed_plans_the_same_strikes_and_another_one_others() -> None:
    assert plan_strikes(Plan(seed=5)) == plan_strikes(Plan(seed=5))
    assert plan_strikes(Plan(seed=5)) != plan_strikes(Plan(seed=6))


def test_the_same_strike_of_the_same_seed_makes_the_same_choices() -> None:
    first, again = plan_strikes(Plan(seed=5))[7], plan_strikes(Plan(seed=5))[7]
    assert [first.dice().random() for _ in range(2)] == [again.dice().random()] * 2


def test_no_kind_comes_twice_before_every_other_one_came_once() -> None:
    planned = plan_strikes(Plan(seed=3, seconds=600))

    for begin in range(0, len(planned), len(KINDS)):
        assert {one.kind for one in planned[begin : begin + len(KINDS)]} == set(KINDS)


def test_there_are_more_strikes_than_fit_into_the_time() -> None:
    for every_s in (0.5, 2.0, 10.0):
        plan = Plan(every_s=every_s, seconds=60, strikes=("worker-kill", "web-kill"))
        assert sum(one.pause_s for one in plan_strikes(plan)) > plan.seconds


def test_without_kinds_nothing_is_struck() -> None:
    assert plan_strikes(Plan(strikes=())) == []


@pytest.mark.parametrize(
    "plan",
    [
        Plan(seed=-3),
        Plan(seed=12, seconds=7.5, calls=3, every_s=0.25, min_replicas=1),
        Plan(strikes=("failover-lossy", "poison")),
    ],
    ids=["all", "short", "two kinds"],
)
def test_the_replay_command_makes_the_same_plan_again(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Plan] = []

    def stop(again: Plan, _: object) -> None:
        seen.append(again)
        raise SystemExit

    monkeypatch.setattr(lab_commands, "_run", stop)

    CliRunner().invoke(app, shlex.split(plan.command)[1:])

    assert seen == [plan]


class Log:
    """Acts that do nothing but write down when they begin and end."""

    def __init__(self) -> None:
        self.going: Counter[str] = Counter()
        self.together: set[tuple[str, ...]] = set()

    async def act(self, _: ChaosEnvironment, note: StrikeLog, dice: Random) -> None:
        at = KINDS[note.kind].at
        self.going[at] += 1
        self.together.add(tuple(sorted((+self.going).elements())))
        for _step in range(dice.randint(1, 3000)):
            await asyncio.sleep(0)
        note.strike("w1@here")
        self.going[at] -= 1


def _strike_all(seed: int, monkeypatch: pytest.MonkeyPatch) -> tuple[Log, Striker]:
    log = Log()
    for kind in KINDS:
        monkeypatch.setitem(cast(Any, STRIKES), kind, log.act)

    async def whole() -> None:
        """Everything is there at once."""

    plan = Plan(seed=seed, seconds=0.2, every_s=0.002)
    scene = cast(ChaosEnvironment, SimpleNamespace(plan=plan, wait_for_all=whole))
    striker = Striker(scene, time.monotonic(), lambda _: None)
    asyncio.run(striker.run(time.monotonic() + plan.seconds))
    return log, striker


def test_no_two_strikes_together_leave_the_fault_model(monkeypatch: pytest.MonkeyPatch) -> None:
    together = set().union(*(_strike_all(seed, monkeypatch)[0].together for seed in range(5)))

    assert any(len(groups) > 1 for groups in together), "nothing was ever struck together"
    for groups in together:
        assert len(set(groups)) == len(groups), f"two of one group: {groups}"
        assert SERVERS not in groups or len(groups) == 1, f"beside a server's: {groups}"


def test_every_strike_is_written_down_with_its_times(monkeypatch: pytest.MonkeyPatch) -> None:
    _, striker = _strike_all(1, monkeypatch)

    assert striker.strikes
    for strike in striker.strikes:
        assert 0 <= strike.at_s <= strike.until_s
        assert strike.hit("w1@here/12-ab")
        assert not strike.hit("w11@here/12-ab")


def test_a_strike_that_found_nothing_to_strike_is_not_written_down() -> None:
    note = StrikeLog("child-kill", time.monotonic())
    note.over()

    assert note.result() is None


def test_a_failing_strike_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(_: ChaosEnvironment, note: StrikeLog, dice: Random) -> None:
        raise ZeroDivisionError

    monkeypatch.setitem(cast(Any, STRIKES), "worker-kill", fail)
    plan = Plan(seconds=5, every_s=0.001, strikes=("worker-kill",))
    striker = Striker(cast(ChaosEnvironment, SimpleNamespace(plan=plan)), 0.0, lambda _: None)

    with pytest.raises(ZeroDivisionError):
        asyncio.run(striker.run(time.monotonic() + plan.seconds))


def test_the_plan_is_taken_in_its_order(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[str] = []

    async def act(_: ChaosEnvironment, note: StrikeLog, dice: Random) -> None:
        begun.append(note.kind)

    async def whole() -> None:
        """Everything is there at once."""

    for kind in KINDS:
        monkeypatch.setitem(cast(Any, STRIKES), kind, act)
    plan = Plan(seed=9, seconds=0.2, every_s=0.002)
    striker = Striker(
        cast(ChaosEnvironment, SimpleNamespace(plan=plan, wait_for_all=whole)), 0.0, lambda _: None
    )
    asyncio.run(striker.run(time.monotonic() + plan.seconds))

    assert begun == [one.kind for one in islice(plan_strikes(plan), len(begun))]
