"""Of a cluster each master is examined, and workers speak to it as to one server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from callflow.celery import CALLS
from callflow.errors import StoreUnfit
from callflow.health import deployment_checks
from callflow.health.check import Check, Severity, run_checks
from callflow.health.deployment_checks import DeploymentChecks
from callflow.health.server_checks import SERVER_CHECKS, StoreServer, refuse_unfit
from callflow.health.worker_reports import ReportStore, WorkerReport
from callflow.redis.client import connect
from callflow.redis.scripts import Scripts
from callflow.store.presence import Presence
from tests.cluster import TestCluster
from tests.parts import TIMING, Parts


def server_checks(url: str) -> dict[str, Check]:
    return {check.name: check for check in run_checks(SERVER_CHECKS, StoreServer(connect(url)))}


@pytest.fixture
def unfit_master(shared_cluster: TestCluster) -> Iterator[TestCluster]:
    """One of its masters drops calls when it is full."""
    with shared_cluster.node(shared_cluster.masters()[1]) as node:
        node.config_set("maxmemory-policy", "allkeys-lru")
        yield shared_cluster
        node.config_set("maxmemory-policy", "noeviction")


def test_a_cluster_that_is_fit_is_found_so(shared_cluster: TestCluster) -> None:
    found = server_checks(shared_cluster.url)
    for name in ("server", "version", "primary", "eviction", "persistence", "clock"):
        assert found[name].severity is Severity.OK, found[name]
    refuse_unfit(connect(shared_cluster.url))


def test_one_unfit_master_is_found_among_three(unfit_master: TestCluster) -> None:
    found = server_checks(unfit_master.url)["eviction"]
    assert found.severity is Severity.FAILURE
    port = unfit_master.servers[unfit_master.masters()[1]].port
    assert f"127.0.0.1:{port}/0: maxmemory-policy is allkeys-lru" in found.sentence
    with pytest.raises(StoreUnfit, match="allkeys-lru"):
        refuse_unfit(connect(unfit_master.url))


def test_workers_are_examined_on_a_cluster(
    clustered: Parts, shared_cluster: TestCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deployment_checks, "LOOK_AGAIN_S", 0.0)
    monkeypatch.setattr(deployment_checks, "SWEEP_SAMPLES_S", (0.0,))
    client = connect(shared_cluster.url)
    said = ReportStore(Scripts(client))
    checks = DeploymentChecks(Scripts(client), TIMING, lambda: {"turns": 1})
    line = Presence(client, "w1@a/1-aa")
    line.keep()
    clustered.watchdog.sweep("watchdog@a")
    well = WorkerReport("w1@a", slots=2, children=2, queues=CALLS, version="1.0")
    said.save(well)
    said.prove_writable()
    found = {check.name: check for check in checks.run_for_calls()}
    for name in ("workers", "parents", "children", "consumers", "versions", "owed turns"):
        assert found[name].severity is Severity.OK, found[name]
    now_ms = said.read().now_ms
    said.save(well, now_ms=now_ms - 9_000)
    assert {one.name for one in checks.run_for_calls() if one.severity is Severity.FAILURE} >= {
        "parents"
    }
    said.forget("w1@a")
    assert said.read("w1@a").reports == ()
    line.close()
