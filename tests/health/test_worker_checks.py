"""How workers are is judged by what they say, who is present and what waits, and found twice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from callflow.health.check import Check, Severity
from callflow.health.worker_checks import DEPLOY_MS, Workforce, check_workers
from callflow.health.worker_reports import Phase, WorkerReport, WorkerReports

CALLS = ("takeover", "turns")
NOW = 1_000_000

WELL = WorkerReport(
    "w1@a",
    at=NOW - 900,
    pool="prefork",
    slots=4,
    children=4,
    idle_ms=60_000,
    turn_ms=8_000,
    queues=CALLS,
    up_ms=3_600_000,
    version="1.0",
)
WATCHDOG = replace(WELL, node="wd@a", pool="solo", slots=1, children=1, queues=("watchdog",))


def workforce(
    *signs: WorkerReport,
    present: Mapping[str, int] | None = None,
    waiting: Mapping[str, int] | None = None,
    in_work: int = 0,
    unclaimed: int = 0,
) -> Workforce:
    """All these workers, with the processes that they speak of."""
    here = {one.node: one.children for one in signs if "turns" in one.queues and one.children}
    return Workforce(
        WorkerReports(NOW, signs),
        here if present is None else present,
        CALLS,
        waiting or {},
        in_work,
        unclaimed,
    )


def judged(*looks: Workforce) -> dict[str, Check]:
    """The findings after these looks; the last one is repeated."""
    left = list(looks)

    def look() -> Workforce:
        return left.pop(0) if len(left) > 1 else left[0]

    _, found = check_workers(look, lambda: None)
    return {check.name: check for check in found}


def problems(*looks: Workforce) -> dict[str, Check]:
    return {
        name: check for name, check in judged(*looks).items() if check.severity is not Severity.OK
    }


def test_workers_that_are_well_are_no_finding() -> None:
    found = judged(workforce(WELL, replace(WELL, node="w2@b"), WATCHDOG))
    assert {check.severity for check in found.values()} == {Severity.OK}
    assert "2 with 8 slots, 0 busy: w1@a, w2@b" in found["workers"].sentence


FOUND: tuple[tuple[dict[str, Any], str, str, str], ...] = (
    ({"at": NOW - 6_000}, "parents", "failure", "frozen or wedged"),
    ({"children": 0, "short_ms": 6_000}, "children", "failure", "no child ready for 6 s"),
    ({"children": 3, "short_ms": 11_000}, "children", "warning", "only 3 of 4"),
    ({"lost": 13}, "children", "warning", "has lost 13 children in a minute"),
    ({"busy": 1, "oldest_ms": 20_000}, "stuck turns", "failure", "in work for 20 s"),
    ({"queues": ()}, "consumers", "failure", "consumes no queue"),
)


def test_what_one_worker_says_of_itself_is_a_finding() -> None:
    for changed, check, severity, words in FOUND:
        sick = replace(WELL, node="w2@b", **changed)
        found = problems(workforce(WELL, sick, present={"w1@a": 4, "w2@b": 4}))
        assert list(found) == [check], changed
        assert (found[check].severity, found[check].way_out != "") == (severity, True)
        assert words in found[check].sentence
        assert "w2@b" in found[check].sentence
        assert "w1@a" not in found[check].sentence


NO_FINDINGS: tuple[dict[str, Any], ...] = (
    {"at": NOW - 4_900},
    {"children": 0, "short_ms": 4_000},
    {"children": 3, "short_ms": 9_000},
    {"lost": 12},
    {"busy": 4, "oldest_ms": 18_000},
    {"phase": Phase.DRAINING, "children": 0, "short_ms": 60_000, "queues": ()},
    {"phase": Phase.DRAINING, "at": NOW - 100_000, "patience_ms": 150_000},
    {"phase": Phase.STARTING, "at": NOW - 20_000, "patience_ms": 30_000, "children": 0},
)


def test_what_is_only_a_moment_or_the_end_or_the_start_of_a_worker_is_none() -> None:
    wrong = [
        changed
        for changed in NO_FINDINGS
        if problems(workforce(WELL, replace(WELL, node="w2@b", **changed)))
    ]
    assert wrong == []


def test_a_parent_that_was_never_heard_is_found_by_its_children() -> None:
    found = problems(workforce(WELL, present={"w1@a": 4, "w2@b": 3}))
    assert found["parents"].severity is Severity.FAILURE
    assert "w2@b" in found["parents"].sentence
    assert "3 of its processes live" in found["parents"].sentence


def test_a_silent_parent_without_children_may_be_dead_or_frozen() -> None:
    silent = replace(WELL, node="w2@b", at=NOW - 9_000)
    found = problems(workforce(WELL, silent, present={"w1@a": 4}))
    assert found["parents"].severity is Severity.WARNING
    assert "killed" in found["parents"].sentence


def test_a_consumer_that_no_longer_takes_what_waits_is_found() -> None:
    found = problems(workforce(WELL, waiting={"turns": 3}))["consumers"]
    assert "although messages wait in turns (3)" in found.sentence
    fine: tuple[tuple[dict[str, Any], dict[str, int]], ...] = (
        ({}, {}),
        # It has just taken one.
        ({"idle_ms": 900}, {"turns": 3}),
        # All its slots are busy: it must not take more.
        ({"busy": 4}, {"turns": 3}),
        # It is another one's queue.
        ({}, {"watchdog": 3}),
    )
    for changed, waiting in fine:
        assert "consumers" not in problems(workforce(replace(WELL, **changed), waiting=waiting))


def test_a_watchdog_that_takes_no_sweeps_endangers_no_call() -> None:
    found = problems(workforce(WELL, WATCHDOG, waiting={"watchdog": 9}))
    assert found["consumers"].severity is Severity.WARNING


def test_a_queue_that_nobody_consumes_is_a_failure() -> None:
    found = problems(workforce(replace(WELL, queues=("turns",)), WATCHDOG))
    assert found["consumers"].severity is Severity.FAILURE
    assert "nobody consumes the queue takeover" in found["consumers"].sentence
    assert "-Q takeover,turns" in found["consumers"].way_out


def test_queues_may_be_shared_out_among_workers() -> None:
    assert not problems(
        workforce(
            replace(WELL, queues=("turns",)),
            replace(WELL, node="w2@b", queues=("takeover",)),
        )
    )


def test_without_workers_nobody_is_answered() -> None:
    for found, words in (
        (problems(workforce()), "none is present: no caller gets a reply"),
        (problems(workforce(WATCHDOG)), "none takes calls: no caller gets a reply"),
    ):
        assert (found["workers"].severity, found["workers"].sentence) == (Severity.FAILURE, words)


def test_a_deployment_that_starts_is_told_of_as_such() -> None:
    starting = replace(WELL, phase=Phase.STARTING, queues=(), children=0)
    found = problems(workforce(starting, present={}))
    assert found["workers"].severity is Severity.WARNING
    assert "starting: w1@a" in found["workers"].sentence


def test_more_calls_than_slots_are_warned_of() -> None:
    found = problems(workforce(replace(WELL, busy=4), in_work=4, unclaimed=3))
    assert found["capacity"].severity is Severity.WARNING
    assert "7 calls wait for a reply at once, and workers have 4 slots" in (
        found["capacity"].sentence
    )
    assert not problems(workforce(replace(WELL, busy=3), in_work=3, unclaimed=1))


def test_versions_may_differ_while_a_deploy_is_under_way() -> None:
    new = replace(WELL, node="w2@b", version="1.1", up_ms=DEPLOY_MS)
    assert not problems(workforce(WELL, new))
    found = problems(workforce(WELL, replace(new, up_ms=DEPLOY_MS + 1)))
    assert found["versions"].severity is Severity.WARNING
    assert "1.0: w1@a; 1.1: w2@b" in found["versions"].sentence


def test_what_is_gone_at_the_second_look_is_no_finding() -> None:
    sick = workforce(replace(WELL, idle_ms=9_000), waiting={"turns": 2})
    assert not problems(sick, workforce(WELL))


def test_troubles_of_different_workers_are_not_taken_for_one_that_stays() -> None:
    other = replace(WELL, node="w2@b")
    first = workforce(replace(WELL, at=NOW - 6_000), other, present={"w1@a": 4, "w2@b": 4})
    then = workforce(WELL, replace(other, at=NOW - 6_000), present={"w1@a": 4, "w2@b": 4})
    assert not problems(first, then)
    assert "parents" in problems(first, first)


def test_a_worker_that_is_worse_at_the_second_look_is_found() -> None:
    first = workforce(replace(WELL, children=2, short_ms=12_000))
    then = workforce(replace(WELL, at=NOW - 6_000), present={"w1@a": 2})
    assert "parents" in problems(first, then)


def test_the_second_look_tells_how_things_are_now() -> None:
    def silent(for_ms: int) -> Workforce:
        return workforce(replace(WELL, at=NOW - for_ms), present={"w1@a": 4})

    assert "for 7 s" in problems(silent(6_000), silent(7_000))["parents"].sentence


def test_where_nobody_serves_nothing_is_said_of_those_who_would() -> None:
    starting = replace(WELL, phase=Phase.STARTING, queues=(), children=0)
    nobody = "not judged: no worker is ready for calls"
    for unclaimed, wanted in ((0, "no"), (3, "3")):
        found = judged(workforce(starting, present={}, unclaimed=unclaimed))
        assert {found[name].sentence for name in ("children", "consumers")} == {nobody}
        assert found["capacity"].sentence == f"{nobody}, and {wanted} calls want a reply"


def test_children_that_are_not_ready_for_a_moment_are_not_counted_as_ready() -> None:
    found = judged(workforce(replace(WELL, children=0, short_ms=900), in_work=1))
    assert found["children"].sentence == "not judged: no worker is ready for calls"
    assert "and 1 calls want a reply" in found["capacity"].sentence
