"""`callflow doctor` says what endangers calls, and never more than it knows."""

from __future__ import annotations

from typing import Any

import pytest

from callflow.store import doctor
from callflow.store.embedded import EmbeddedServer
from callflow.store.script import connect
from tests.cli.running import Cli, Ran, store_at


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nobody sweeps, nobody will."""
    monkeypatch.setattr(doctor, "SWEEP_SAMPLES_S", (0.0,))


def checks(ran: Ran) -> dict[str, dict[str, Any]]:
    return {check["name"]: check for check in ran.json["checks"]}


def examined(cli: Cli, url: str) -> dict[str, dict[str, Any]]:
    cli.set("CALLFLOW_REDIS_URL", url)
    return checks(cli.run("doctor", "--json"))


def test_a_deployment_that_works_is_well(
    cli: Cli, staffed_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    cli = Cli(monkeypatch, cli.home)
    cli.set("CALLFLOW_REDIS_URL", staffed_url)
    ran = cli.run("doctor", "--json")
    assert ran.code == 0, ran
    assert {check["grade"] for check in ran.json["checks"]} == {"ok"}
    assert {"version", "workers", "watchdog", "owed turns", "queues"} <= checks(ran).keys()
    assert "all is well" in cli.run("doctor").out


def test_without_workers_and_sweeps_it_fails_and_says_what_to_start(
    cli: Cli, redis_url: str
) -> None:
    cli.set("CALLFLOW_REDIS_URL", redis_url)
    ran = cli.run("doctor")
    assert ran.code == 1
    assert "no caller gets a reply" in ran.out
    assert "celery -A callflow worker" in ran.out
    assert "nobody has swept" in ran.out
    assert "2 failures" in ran.out


def test_an_evicting_server_is_a_failure(cli: Cli, own_server: EmbeddedServer) -> None:
    connect(own_server.url).config_set("maxmemory-policy", "volatile-ttl")
    found = examined(cli, own_server.url)["eviction"]
    assert found["grade"] == "failure"
    assert "noeviction" in found["way_out"]


def test_a_server_that_forgets_at_its_restart_is_warned_of(
    cli: Cli, own_server: EmbeddedServer
) -> None:
    connect(own_server.url).config_set("appendonly", "no")
    assert examined(cli, own_server.url)["persistence"]["grade"] == "warning"


def test_a_replica_is_a_failure(cli: Cli, own_server: EmbeddedServer, redis_url: str) -> None:
    host, _, port = redis_url.rpartition("@")[2].partition("/")[0].partition(":")
    connect(own_server.url).replicaof(host, port)
    assert examined(cli, own_server.url)["primary"]["grade"] == "failure"


def managed(server: EmbeddedServer, *forbidden: str) -> str:
    """The server as a user sees it who may do everything but these commands."""
    connect(server.url).acl_setuser(
        "app",
        enabled=True,
        passwords="+secret",
        keys=["*"],
        channels=["*"],
        commands=["+@all", *forbidden],
    )
    return f"redis://app:secret@{server.url.rpartition('@')[2]}"


def test_a_managed_service_without_config_is_read_through_info(
    cli: Cli, own_server: EmbeddedServer
) -> None:
    found = examined(cli, managed(own_server, "-config"))
    assert found["eviction"]["grade"] == "ok"
    assert found["persistence"]["grade"] == "ok"
    connect(own_server.url).config_set("appendonly", "no")
    connect(own_server.url).config_set("maxmemory-policy", "allkeys-lru")
    found = examined(cli, managed(own_server, "-config"))
    assert found["eviction"]["grade"] == "failure"
    assert found["persistence"]["grade"] == "unknown"


def test_what_a_service_does_not_tell_is_unknown_and_no_failure(
    cli: Cli, own_server: EmbeddedServer
) -> None:
    found = examined(cli, managed(own_server, "-config", "-info"))
    for name in ("version", "primary", "eviction", "persistence"):
        assert found[name]["grade"] == "unknown"


def test_a_turn_that_has_been_owed_for_long_is_a_failure(cli: Cli, redis_url: str) -> None:
    store = store_at(redis_url)
    store.open("CA1", now_ms=1_000)
    store.hear("CA1", 1, "help", now_ms=1_000)
    found = examined(cli, redis_url)["owed turns"]
    store.end("CA1", "hung_up")
    assert found["grade"] == "failure"
    assert "1 of 1 calls wait for a reply: 0 in work, 1 unclaimed" in found["sentence"]


def test_a_server_that_is_not_there_is_one_failure_without_its_password(cli: Cli) -> None:
    cli.set("CALLFLOW_REDIS_URL", "redis://:geheim@127.0.0.1:1/0")
    ran = cli.run("doctor", "--json")
    assert ran.code == 1
    assert [check["grade"] for check in ran.json["checks"]] == ["failure"]
    assert "geheim" not in ran.out + ran.err


def test_a_broker_that_is_not_there_is_a_failure_of_its_own(cli: Cli, redis_url: str) -> None:
    cli.set("CALLFLOW_BROKER_URL", "redis://:geheim@127.0.0.1:1/0")
    found = examined(cli, redis_url)
    assert found["server"]["grade"] == "ok"
    assert found["broker"]["grade"] == "failure"


def test_a_long_queue_is_warned_of(cli: Cli, redis_url: str) -> None:
    connect(redis_url).rpush("turns", *range(doctor.LONG_QUEUE))
    found = examined(cli, redis_url)["queues"]
    assert found["grade"] == "warning"
    assert "turns 1000" in found["sentence"]


@pytest.mark.parametrize(
    ("version", "grade"),
    [("6.0.16", "failure"), ("6.2.0", "ok"), ("7.2.4", "ok"), ("10.0", "ok"), ("", "unknown")],
)
def test_servers_that_are_too_old_are_refused(version: str, grade: str) -> None:
    assert doctor._version({"redis_version": version}).grade == grade
