"""What holds on one server holds on a cluster: the same tests, run there."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from callflow.redis.client import connect
from tests.cluster import TestCluster
from tests.parts import Parts
from tests.protocol.test_any_order import AnyOrder
from tests.store import (
    test_calls,
    test_handovers,
    test_replies,
    test_staff_actions,
)

pytestmark = pytest.mark.stack


@pytest.fixture
def redis_url(shared_cluster: TestCluster) -> str:
    """Where the cluster answers."""
    return shared_cluster.url


@pytest.fixture
def parts(clustered: Parts) -> Parts:
    """One process's worth of callflow on the cluster."""
    return clustered


@pytest.fixture
def parts_on_each(clustered: Parts) -> Parts:
    """The same, for tests that run on each kind of server."""
    return clustered


def _again(module: ModuleType, *but: str) -> dict[str, Callable[..., Any]]:
    """The tests of a module; but those which ask one server about itself, or break one."""
    found = {name: test for name, test in vars(module).items() if name.startswith("test_")}
    for name in but:
        del found[name]
    return {name: test for name, test in found.items() if "own_server" not in test.__annotations__}


call = test_handovers.call

globals().update(
    _again(
        test_calls,
        "test_claim_and_commit_are_one_round_trip_each_and_a_beat_is_one_for_all",
        "test_redis_is_never_asked_for_all_its_keys",
        "test_a_server_that_is_not_there_is_named_without_its_password",
    )
)
globals().update(_again(test_handovers))
globals().update(_again(test_staff_actions))
globals().update(
    _again(
        test_replies,
        "test_a_reply_that_is_expected_is_told_and_need_not_be_read",
        "test_a_lost_notification_is_made_good_by_reading",
        "test_many_wait_on_one_subscription",
    )
)


@pytest.mark.slow
def test_any_requests_in_any_order_leave_what_the_model_says_on_a_cluster(
    shared_cluster: TestCluster,
) -> None:
    with connect(shared_cluster.url) as client:
        # A client asks one node where no key says which.
        setattr(client, "flushall", shared_cluster.flush)  # noqa: B010
        machine = type("OnCluster", (AnyOrder,), {"client": client})
        run_state_machine_as_test(
            machine, settings=settings(max_examples=8, stateful_step_count=40)
        )
