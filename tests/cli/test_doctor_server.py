"""`callflow doctor` names the server as the cause where it is: it takes or acknowledges nothing."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from callflow.health import server_checks
from callflow.health.check import Severity
from callflow.health.worker_reports import ReportStore, WorkerReport
from callflow.lab.embedded_server import EmbeddedServer
from callflow.redis.client import Client, connect
from callflow.redis.scripts import Scripts
from tests.cli.running import Cli
from tests.waiting import wait_until

pytestmark = pytest.mark.usefixtures("no_pauses")


@pytest.fixture
def admin(own_server: EmbeddedServer) -> Iterator[Client]:
    with connect(own_server.url) as client:
        yield client


def examined(cli: Cli, url: str) -> dict[str, dict[str, Any]]:
    cli.set("CALLFLOW_REDIS_URL", url)
    return {check["name"]: check for check in cli.run("doctor", "--json").json["checks"]}


def silent_worker(client: Client) -> None:
    """One that has said something, and nothing since."""
    vitals = ReportStore(Scripts(client))
    vitals.save(WorkerReport("w1@a"), now_ms=vitals.read().now_ms - 20_000)


CAUSES = {
    "maxmemory": (("maxmemory", "1mb"), "its memory is full", "restarting workers is no help"),
    "replicas": (("min-replicas-to-write", "3"), "min-replicas-to-write is 3", "lower that"),
}


@pytest.mark.parametrize("cause", CAUSES)
def test_a_server_that_takes_no_writes_is_the_cause_and_no_worker_is_blamed(
    cli: Cli, own_server: EmbeddedServer, admin: Client, cause: str
) -> None:
    (name, value), told, way_out = CAUSES[cause]
    silent_worker(admin)
    before = examined(cli, own_server.url)
    assert (before["writes"]["grade"], before["parents"]["grade"]) == ("ok", "warning")
    cli.set("CALLFLOW_REDIS_URL", own_server.url)
    assert cli.run("doctor", "--node", "w1@a").code == 1

    admin.config_set(name, value)

    found = examined(cli, own_server.url)
    assert found["writes"]["grade"] == "failure"
    assert told in found["writes"]["sentence"]
    assert way_out in found["writes"]["way_out"]
    assert "restart that worker" not in str(found)
    assert (found["workers"]["grade"], "parents" in found) == ("unknown", False)
    assert found["broker"]["grade"] == "ok"
    asked = cli.run("doctor", "--node", "w1@a")
    assert (asked.code, told in asked.out) == (0, True)


def test_a_server_that_tells_only_its_info_is_judged_by_that(
    cli: Cli, own_server: EmbeddedServer, admin: Client
) -> None:
    rights = ["+@all", "-config"]
    admin.acl_setuser(
        "app", enabled=True, passwords="+x", keys=["*"], channels=["*"], commands=rights
    )
    admin.config_set("min-replicas-to-write", "1")
    found = examined(cli, f"redis://app:x@127.0.0.1:{own_server.port}/0")["writes"]
    assert found["grade"] == "failure"
    assert "min-replicas-to-write is at least 1" in found["sentence"]


@pytest.mark.parametrize(
    ("told", "grade"),
    [
        ({"aof_last_write_status": "err"}, Severity.FAILURE),
        ({"rdb_last_bgsave_status": "err"}, Severity.FAILURE),
        ({"aof_last_write_status": "ok", "rdb_last_bgsave_status": "ok"}, Severity.OK),
    ],
)
def test_a_disk_that_takes_nothing_is_told_of(
    admin: Client, monkeypatch: pytest.MonkeyPatch, told: dict[str, str], grade: Severity
) -> None:
    admin.config_set("save", "60 1")
    info = server_checks.info
    monkeypatch.setattr(
        server_checks,
        "info",
        lambda node, name: info(node, name) | (told if name[0] == "p" else {}),
    )
    found = server_checks.check_writes(admin)
    assert found.severity is grade
    assert ("make room on its disk" in found.way_out) is (grade is Severity.FAILURE)


@pytest.mark.stack
def test_a_replica_that_is_frozen_acknowledges_nothing(
    cli: Cli, own_server: EmbeddedServer, admin: Client
) -> None:
    follows = (f"replicaof 127.0.0.1 {own_server.port}", f"masterauth {own_server.password}")
    with EmbeddedServer.start(password=own_server.password, options=follows) as replica:
        wait_until(lambda: admin.wait(1, 100) == 1, "the replica never came", within_s=20)
        cli.set("CALLFLOW_MIN_REPLICAS", "1")
        assert examined(cli, own_server.url)["primary"]["grade"] == "ok"
        os.kill(replica.pid, signal.SIGSTOP)
        try:
            admin.set("callflow:probe", "", px=1_000)
            found = examined(cli, own_server.url)["primary"]
        finally:
            os.kill(replica.pid, signal.SIGCONT)
        assert found["grade"] == "failure"
        assert "replicas: 1, of which 0 keep in step" in found["sentence"]
        assert "nothing is acknowledged" in found["sentence"]


@pytest.mark.stack
def test_a_replica_that_is_behind_for_less_than_a_second_is_in_step(
    own_server: EmbeddedServer, admin: Client
) -> None:
    follows = (f"replicaof 127.0.0.1 {own_server.port}", f"masterauth {own_server.password}")
    with EmbeddedServer.start(password=own_server.password, options=follows):
        wait_until(lambda: admin.wait(1, 100) == 1, "the replica never came", within_s=20)
        for _ in range(3):
            admin.set("callflow:probe", "", px=1_000)
            assert server_checks.check_primary(admin, 1).severity is Severity.OK


def test_a_check_that_may_not_ask_is_not_green(
    cli: Cli, own_server: EmbeddedServer, admin: Client
) -> None:
    admin.acl_setuser("blind", enabled=True, passwords="+x", commands=["+ping"])
    cli.set("CALLFLOW_REDIS_URL", f"redis://blind:x@127.0.0.1:{own_server.port}/0")
    cli.set("CALLFLOW_BROKER_URL", own_server.url)
    asked = cli.run("doctor", "--node", "w1@a")
    assert asked.code == 1
    assert "this check may not ask" in asked.out


def test_nothing_of_a_password_is_shown_as_the_name_of_a_host(cli: Cli) -> None:
    cli.set("CALLFLOW_REDIS_URL", "redis://:p@ssw0rd/verysecret@db.example:6379/0")
    for arguments in (("doctor",), ("doctor", "--node", "w@x")):
        ran = cli.run(*arguments)
        assert ran.code == 1
        assert "percent-encoded" in ran.err + ran.out
        assert "ssw0rd" not in ran.err + ran.out
