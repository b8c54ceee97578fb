"""One runner has checks run: what a check finds, or that it broke, is a result."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from callflow.errors import StoreUnavailable
from callflow.health import deployment_checks
from callflow.health.check import (
    Audience,
    Check,
    HealthCheck,
    Severity,
    join_findings,
    run_checks,
)
from callflow.redis.scripts import Scripts
from tests.parts import TIMING, Parts


def fine(_: object) -> Iterator[Check]:
    yield Check("fine", Severity.OK, "all is well")


def broken(_: object) -> Iterator[Check]:
    yield Check("broken", Severity.WARNING, "before it broke")
    raise KeyError("what somebody said")


def cut_off(_: object) -> Iterator[Check]:
    raise StoreUnavailable("here", "it is gone")
    yield


def test_a_check_that_breaks_is_unknown_and_the_others_go_on() -> None:
    checks = (HealthCheck("broken", broken), HealthCheck("fine", fine))
    found = list(run_checks(checks, None))
    assert [(one.name, one.severity) for one in found] == [
        ("broken", Severity.WARNING),
        ("broken", Severity.UNKNOWN),
        ("fine", Severity.OK),
    ]
    assert found[1].sentence == "cannot be judged: KeyError", "and nothing of what was said"


def test_a_server_that_is_cut_off_ends_the_run() -> None:
    found = run_checks((HealthCheck("fine", fine), HealthCheck("gone", cut_off)), None)
    assert next(found).name == "fine"
    with pytest.raises(StoreUnavailable):
        next(found)


def test_each_audience_has_its_own_checks_run() -> None:
    checks = (HealthCheck("fine", fine, frozenset({Audience.NODE})), HealthCheck("broken", broken))
    assert [one.name for one in run_checks(checks, None, Audience.NODE)] == ["fine"]
    assert list(run_checks(checks, None, Audience.ALARM)) == []


def test_what_several_checks_find_under_one_name_is_told_as_one() -> None:
    found = (
        Check("a", Severity.WARNING, "one", "do this", "w1"),
        Check("a", Severity.FAILURE, "two", "do that", "w2"),
        Check("a", Severity.FAILURE, "three", "do that", "w3"),
        Check("b", Severity.UNKNOWN, "four"),
    )
    assert join_findings("a", "well", found).as_dict() == {
        "name": "a",
        "grade": "failure",
        "sentence": "one; two; three",
        "way_out": "do that",
    }
    assert join_findings("b", "well", found).severity is Severity.UNKNOWN
    assert join_findings("c", "well", found) == Check("c", Severity.OK, "well")


def test_an_alarm_is_raised_by_a_check_that_breaks(
    parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = frozenset({Audience.ALARM})
    checks = (HealthCheck("broken", broken, served), HealthCheck("fine", fine, served))
    monkeypatch.setattr(deployment_checks, "WORKER_CHECKS", checks)
    looked = deployment_checks.DeploymentChecks(Scripts(parts.client), TIMING, dict)
    _, found = looked.find_failures()
    assert [(one.name, one.severity) for one in found] == [("broken", Severity.UNKNOWN)]
