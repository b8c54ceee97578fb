"""`callflow doctor` sees what is wrong with workers, and `--node` whether a restart would help."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from callflow.celery import CALLS, WATCHDOG
from callflow.health import deployment_checks
from callflow.health.worker_reports import Phase, ReportStore, WorkerReport
from callflow.lab.embedded_server import EmbeddedServer
from callflow.redis.client import connect
from callflow.redis.scripts import Scripts
from callflow.store.presence import Presence
from tests.cli.running import Cli, Ran, store_at

pytestmark = pytest.mark.usefixtures("no_pauses")


# Patient, since a command may take seconds to start on a busy machine.
WELL = WorkerReport(
    "w1@a",
    patience_ms=60_000,
    pool="prefork",
    slots=2,
    children=2,
    idle_ms=60_000,
    turn_ms=8_000,
    queues=CALLS,
    version="1.0",
)
WATCHING = replace(WELL, node="wd@a", slots=1, children=1, queues=(WATCHDOG,))


@pytest.fixture
def said(redis_url: str) -> ReportStore:
    return ReportStore(Scripts(connect(redis_url)))


@pytest.fixture
def present(redis_url: str) -> Iterator[Callable[[str], None]]:
    """Lets processes of these names be present."""
    lines = []

    def be(name: str) -> None:
        line = Presence(connect(redis_url), name)
        line.keep()
        lines.append(line)

    yield be
    for line in lines:
        line.close()


def now_ms(said: ReportStore) -> int:
    return said.read().now_ms


def examined(cli: Cli, url: str) -> dict[str, dict[str, Any]]:
    cli.set("CALLFLOW_REDIS_URL", url)
    ran = cli.run("doctor", "--json")
    return {check["name"]: check for check in ran.json["checks"]}


def test_workers_that_say_they_are_well_are_well(
    cli: Cli, redis_url: str, said: ReportStore, present: Callable[[str], None]
) -> None:
    said.save(WELL)
    present("w1@a/1-aa")
    present("w1@a/2-aa")
    found = examined(cli, redis_url)
    for name in ("workers", "parents", "children", "stuck turns", "consumers", "versions"):
        assert found[name]["grade"] == "ok", found[name]
    assert found["workers"]["sentence"] == "1 with 2 slots, 0 busy: w1@a"


def test_fault_16_a_silent_parent_of_living_children_is_a_failure(
    cli: Cli, redis_url: str, said: ReportStore, present: Callable[[str], None]
) -> None:
    said.save(WELL, now_ms=now_ms(said) - 67_000)
    present("w1@a/1-aa")
    present("w1@a/2-aa")
    found = examined(cli, redis_url)["parents"]
    assert found["grade"] == "failure"
    assert found["sentence"].startswith("w1@a has said nothing for ")
    assert "although 2 of its processes live" in found["sentence"]


def test_children_that_live_without_any_parent_are_a_failure(
    cli: Cli, redis_url: str, present: Callable[[str], None]
) -> None:
    present("w1@a/1-aa")
    assert (
        "w1@a has said nothing for more than a minute"
        in (examined(cli, redis_url)["parents"]["sentence"])
    )


def test_messages_that_a_free_worker_does_not_take_are_a_failure(
    cli: Cli, redis_url: str, said: ReportStore
) -> None:
    said.save(WELL)
    connect(redis_url).rpush("turns", "one", "two")
    found = examined(cli, redis_url)["consumers"]
    assert found["grade"] == "failure"
    assert "although messages wait in turns (2) and slots are free (2 of 2)" in found["sentence"]


def test_what_is_taken_before_the_second_look_is_no_finding(
    cli: Cli, redis_url: str, said: ReportStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deployment_checks, "LOOK_AGAIN_S", 0.3)
    said.save(WELL)
    connect(redis_url).rpush("turns", "one")
    taken = threading.Timer(0.1, connect(redis_url).delete, ("turns",))
    taken.start()
    assert examined(cli, redis_url)["consumers"]["grade"] == "ok"
    taken.join()


def test_messages_of_another_broker_are_counted_there(
    cli: Cli, redis_url: str, own_server: EmbeddedServer, said: ReportStore
) -> None:
    cli.set("CALLFLOW_BROKER_URL", own_server.url)
    said.save(WELL)
    connect(redis_url).rpush("turns", "not a message")
    assert examined(cli, redis_url)["consumers"]["grade"] == "ok"
    connect(own_server.url).rpush("turns", "one")
    assert examined(cli, redis_url)["consumers"]["grade"] == "failure"
    own_server.kill()
    found = examined(cli, redis_url)
    assert (found["consumers"]["grade"], found["broker"]["grade"]) == ("ok", "failure")


def test_a_turn_that_nobody_takes_while_slots_are_free_is_a_failure(
    cli: Cli, redis_url: str, said: ReportStore
) -> None:
    store, now = store_at(redis_url), now_ms(said)
    store.open("CA1", now_ms=now - 7_000)
    store.record_utterance("CA1", 1, "help", now_ms=now - 7_000)
    busy = replace(WELL, busy=2)
    said.save(busy)
    assert examined(cli, redis_url)["owed turns"]["grade"] == "ok"
    said.save(WELL)
    found = examined(cli, redis_url)["owed turns"]
    store.end("CA1", "hung_up")
    assert found["grade"] == "failure"
    assert "2 slots are free, and nobody takes what has been unclaimed" in found["sentence"]


def understudied(url: str) -> None:
    connect(url).set("callflow:swept", "w1@a (understudy)", px=60_000)


def test_a_beat_that_nobody_runs_is_told_from_a_watchdog_that_nobody_runs(
    cli: Cli, redis_url: str, said: ReportStore
) -> None:
    understudied(redis_url)
    said.save(WELL)
    found = examined(cli, redis_url)["watchdog"]
    assert found["grade"] == "warning"
    assert "no watchdog worker takes sweeps" in found["sentence"]
    assert "-Q watchdog" in found["way_out"]
    said.save(WATCHING)
    found = examined(cli, redis_url)["watchdog"]
    assert "wd@a waits for sweeps and no beat asks for them" in found["sentence"]
    assert found["way_out"] == "start `celery -A callflow beat`"
    connect(redis_url).rpush(WATCHDOG, "one")
    assert (
        "wd@a takes no sweeps although some wait"
        in (examined(cli, redis_url)["watchdog"]["sentence"])
    )


def node(cli: Cli, url: str, name: str = "w1@a", *options: str) -> Ran:
    cli.set("CALLFLOW_REDIS_URL", url)
    return cli.run("doctor", "--node", name, *options)


def test_one_worker_is_examined_by_its_name(cli: Cli, redis_url: str, said: ReportStore) -> None:
    said.save(WELL)
    said.save(replace(WELL, node="w2@b", children=0, short_ms=9_000))
    well = node(cli, redis_url)
    assert (well.code, well.err) == (0, "")
    assert well.out.startswith("w1@a is well: working, 0 of 2 slots busy")
    sick = node(cli, redis_url, "w2@b", "--json")
    assert sick.code == 1
    assert sick.json["ok"] is False
    assert "no child ready" in sick.json["told"]


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"phase": Phase.STARTING, "children": 0, "queues": ()}, 0),
        ({"phase": Phase.DRAINING, "children": 0, "short_ms": 9_000, "queues": ()}, 0),
        ({"children": 1, "short_ms": 60_000}, 0),
        ({"children": 0, "short_ms": 6_000}, 1),
        ({"queues": ()}, 1),
        ({"busy": 1, "oldest_ms": 30_000}, 1),
    ],
)
def test_a_worker_is_not_well_when_a_restart_would_help(
    cli: Cli, redis_url: str, said: ReportStore, changed: dict[str, Any], code: int
) -> None:
    said.save(replace(WELL, **changed))
    assert node(cli, redis_url).code == code


def test_a_silent_or_an_unknown_worker_is_not_well(
    cli: Cli, redis_url: str, said: ReportStore
) -> None:
    said.save(WELL, now_ms=now_ms(said) - 66_000)
    silent = node(cli, redis_url)
    assert (silent.code, "frozen or wedged" in silent.out) == (1, True)
    unknown = node(cli, redis_url, "w9@z")
    assert (unknown.code, "its name is another one" in unknown.out) == (1, True)


def test_a_worker_that_takes_nothing_although_messages_wait_is_not_well(
    cli: Cli, redis_url: str, said: ReportStore
) -> None:
    said.save(WELL)
    connect(redis_url).rpush("turns", "one")
    assert node(cli, redis_url).code == 1


def test_a_worker_whose_servers_are_gone_is_let_be(
    cli: Cli, redis_url: str, own_server: EmbeddedServer, said: ReportStore
) -> None:
    """All of them would be restarted at once, and still be starting when the server is back."""
    lost = node(cli, "redis://:geheim@127.0.0.1:1/0")
    assert (lost.code, "cannot be judged" in lost.out) == (0, True)
    assert "geheim" not in lost.out
    cli.set("CALLFLOW_BROKER_URL", own_server.url)
    own_server.kill()
    said.save(WELL, now_ms=now_ms(said) - 80_000)
    waits = node(cli, redis_url)
    assert (waits.code, "cannot be judged" in waits.out) == (0, True)


def test_a_container_asks_without_the_command_line_and_gets_the_same_answer(
    cli: Cli, redis_url: str, said: ReportStore
) -> None:
    said.save(WELL)
    said.save(replace(WELL, node="w2@b", queues=()))
    cli.set("CALLFLOW_REDIS_URL", redis_url)
    for name in ("w1@a", "w2@b"):
        asked = cli.finish(cli.start("doctor", "--node", name))
        answer = cli.run("doctor", "--node", name)
        assert (asked.code, asked.out, asked.err) == (answer.code, answer.out, "")
    cli.set("CALLFLOW_REDIS_URL", "http://127.0.0.1")
    asked = cli.finish(cli.start("doctor", "--node", "w1@a"))
    assert asked.code == 1
    assert "is no address of a Redis server" in asked.out + asked.err


def test_a_health_check_imports_neither_the_command_line_nor_celery(
    cli: Cli, redis_url: str, said: ReportStore
) -> None:
    """It runs every few seconds beside each worker: what it costs is taken from callers."""
    said.save(WELL)
    cli.set("CALLFLOW_REDIS_URL", redis_url)
    story = """
        import sys
        from callflow.__main__ import main

        sys.argv = ["callflow", "doctor", "--node", "w1@a"]
        try:
            main()
        except SystemExit as ended:
            print(ended.code, {"celery", "kombu", "pydantic", "typer", "rich"} & set(sys.modules))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(story)], capture_output=True, text=True, check=False
    )
    assert done.stdout.splitlines()[-1:] == ["0 set()"], done
