"""`callflow doctor` says what endangers calls, and never more than it knows."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from callflow.errors import StoreUnavailable
from callflow.health import deployment_checks
from callflow.health.server_checks import check_version
from callflow.health.worker_reports import Phase, ReportStore, WorkerReport
from callflow.lab.embedded_server import EmbeddedServer, find_server_binary
from callflow.lab.stack import LocalStack, free_port
from callflow.redis.client import connect, translated
from callflow.redis.scripts import Scripts
from callflow.store.leases import Leases
from tests.cli.running import TIMING, Cli, Ran, store_at
from tests.waiting import wait_until

pytestmark = pytest.mark.usefixtures("no_pauses")


UNDERSTUDY = " (understudy)"


@pytest.fixture
def cli(cli: Cli) -> Cli:
    """The command line of a deployment whose records last."""
    return _with_records(cli)


def _with_records(cli: Cli) -> Cli:
    cli.set("CALLFLOW_RECORDS_URL", f"sqlite:///{cli.home / 'records.db'}")
    return cli


def checks(ran: Ran) -> dict[str, dict[str, Any]]:
    return {check["name"]: check for check in ran.json["checks"]}


def examined(cli: Cli, url: str) -> dict[str, dict[str, Any]]:
    cli.set("CALLFLOW_REDIS_URL", url)
    return checks(cli.run("doctor", "--json"))


def leases(url: str) -> Leases:
    return Leases(Scripts(connect(url)), TIMING)


def swept_by_a_watchdog(url: str) -> bool:
    by, _ = leases(url).last_sweep() or (UNDERSTUDY, 0)
    return not by.endswith(UNDERSTUDY)


@pytest.mark.stack
def test_a_deployment_that_works_is_well(
    cli: Cli, staffed_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.undo()
    cli = _with_records(Cli(monkeypatch, cli.home))
    cli.set("CALLFLOW_REDIS_URL", staffed_url)
    with LocalStack({"CALLFLOW_REDIS_URL": staffed_url}, tmp_path / "logs") as stack:
        stack.start_watchdog()
        stack.start_beat()
        wait_until(lambda: swept_by_a_watchdog(staffed_url), "a sweep", within_s=30)
        ran = cli.run("doctor", "--json")
        assert ran.code == 0, ran
        graded = {check["name"]: check["grade"] for check in ran.json["checks"]}
        assert graded.pop("test calls") == "unknown", "no lifts are named here"
        assert set(graded.values()) == {"ok"}
        names = {"version", "workers", "watchdog", "owed turns", "queues", "sweeps"}
        assert names <= checks(ran).keys()
        assert cli.run("doctor").out.endswith("\n1 unknown\n")


@pytest.mark.stack
def test_a_deployment_without_a_watchdog_is_warned_of(
    cli: Cli, staffed_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deployment_checks, "SWEEP_SAMPLES_S", (0.0, 0.5, 0.6))
    wait_until(lambda: not swept_by_a_watchdog(staffed_url), "the end of an earlier watchdog")
    cli.set("CALLFLOW_REDIS_URL", staffed_url)
    ran = cli.run("doctor")
    assert ran.code == 0, ran
    assert "swept by an understudy of worker@" in ran.out
    assert "celery -A callflow worker -Q watchdog -P solo -c 1" in ran.out
    assert "1 warning" in ran.out


def test_a_sweep_by_an_understudy_is_warned_of(cli: Cli, redis_url: str) -> None:
    leases(redis_url).mark_sweep(f"worker@here{UNDERSTUDY}")
    found = examined(cli, redis_url)["watchdog"]
    assert found["grade"] == "warning"
    assert found["sentence"].startswith("swept by an understudy of worker@here: ")
    assert "celery -A callflow beat" in found["way_out"]


def test_one_sweep_by_a_watchdog_among_those_of_understudies_is_enough(
    cli: Cli, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deployment_checks, "SWEEP_SAMPLES_S", (0.0, 0.6))
    leases(redis_url).mark_sweep(f"worker@here{UNDERSTUDY}")
    later = threading.Timer(0.3, leases(redis_url).mark_sweep, ("watchdog@here",))
    later.start()
    found = examined(cli, redis_url)["watchdog"]
    later.join()
    assert found["grade"] == "ok"
    assert found["sentence"].startswith("watchdog@here swept")


def test_sweeps_that_nobody_takes_are_warned_of(cli: Cli, redis_url: str) -> None:
    connect(redis_url).rpush("watchdog", *range(deployment_checks.MANY_SWEEPS))
    assert examined(cli, redis_url)["sweeps"]["grade"] == "ok"
    connect(redis_url).rpush("watchdog", "one more")
    found = examined(cli, redis_url)["sweeps"]
    assert found["grade"] == "warning"
    assert "-Q watchdog" in found["way_out"]


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
    store.record_utterance("CA1", 1, "help", now_ms=1_000)
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
    connect(redis_url).rpush("turns", *range(deployment_checks.LONG_QUEUE))
    found = examined(cli, redis_url)["queues"]
    assert found["grade"] == "warning"
    assert "turns 1000" in found["sentence"]


@pytest.mark.parametrize(
    ("version", "grade"),
    [("6.0.16", "failure"), ("6.2.0", "ok"), ("7.2.4", "ok"), ("10.0", "ok"), ("", "unknown")],
)
def test_servers_that_are_too_old_are_refused(version: str, grade: str) -> None:
    assert check_version(version).severity == grade


def test_replicas_that_are_waited_for_and_not_there_are_a_failure(cli: Cli, redis_url: str) -> None:
    cli.set("CALLFLOW_MIN_REPLICAS", "1")
    found = examined(cli, redis_url)["primary"]
    assert found["grade"] == "failure"
    assert "replicas: 0, and CALLFLOW_MIN_REPLICAS is 1" in found["sentence"]
    assert "lower CALLFLOW_MIN_REPLICAS" in found["way_out"]


def test_a_health_check_without_a_name_is_never_green(cli: Cli, redis_url: str) -> None:
    cli.set("CALLFLOW_REDIS_URL", redis_url)
    for name in ("", " "):
        assert cli.run("doctor", "--node", name).code == 2


@pytest.mark.parametrize("scheme", ["redis", "sentinel"])
def test_a_broker_that_cannot_be_asked_is_told_of_by_its_own_variable(
    cli: Cli, redis_url: str, scheme: str
) -> None:
    cli.set("CALLFLOW_BROKER_URL", f"{scheme}://:geheim@127.0.0.1:1/0")
    found = examined(cli, redis_url)["broker"]
    assert found["grade"] == "failure"
    assert "127.0.0.1:1" in found["sentence"]
    assert "CALLFLOW_BROKER_URL" in found["way_out"]
    assert "CALLFLOW_REDIS_URL" not in str(found)
    assert "geheim" not in str(found)


def test_a_broker_with_parameters_that_only_kombu_may_know_is_not_judged(
    cli: Cli, redis_url: str
) -> None:
    cli.set("CALLFLOW_BROKER_URL", f"{redis_url}?foo=geheim")
    found = examined(cli, redis_url)["broker"]
    assert found["grade"] == "unknown"
    assert "CALLFLOW_BROKER_URL has the parameter 'foo'" in found["sentence"]
    assert "geheim" not in str(found)


@contextmanager
def sentinel_of(server: EmbeddedServer, service: str, folder: Path) -> Iterator[int]:
    """The port of a Sentinel without a password of its own, which kombu could not name."""
    port, config = free_port(), folder / "sentinel.conf"
    config.write_text(
        f"port {port}\nsentinel monitor {service} 127.0.0.1 {server.port} 1\n"
        f"sentinel auth-pass {service} {server.password}\n"
    )
    command = [str(find_server_binary()), str(config), "--sentinel"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        try:
            wait_until(lambda: answers(port), "no Sentinel")
            yield port
        finally:
            process.kill()


def answers(port: int) -> bool:
    with connect(f"redis://127.0.0.1:{port}") as client:
        try:
            with translated("the Sentinel"):
                return bool(client.ping())
        except StoreUnavailable:
            return False


def test_messages_behind_sentinels_are_counted_through_them(
    cli: Cli, redis_url: str, own_server: EmbeddedServer, tmp_path: Path
) -> None:
    connect(own_server.url).rpush("turns", "one", "two")
    with sentinel_of(own_server, "messages", tmp_path) as port:
        cli.set("CALLFLOW_BROKER_SERVICE", "messages")
        cli.set(
            "CALLFLOW_BROKER_URL",
            f"sentinel://:{own_server.password}@127.0.0.1:1/0;sentinel://127.0.0.1:{port}",
        )
        found = examined(cli, redis_url)
        signs = WorkerReport("w@test", phase=Phase.WORKING, slots=2, children=2, queues=("turns",))
        ReportStore(Scripts(connect(redis_url))).save(signs)
        one = cli.run("doctor", "--node", "w@test")
    assert found["broker"]["grade"] == "ok"
    assert f"127.0.0.1:{port}/messages" in found["broker"]["sentence"]
    assert "turns 2" in found["queues"]["sentence"]
    assert (one.code, "w@test is well" in one.out) == (0, True)
