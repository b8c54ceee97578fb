"""`callflow up` for real: it is found, talked to, looks after itself, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from pathlib import Path

import httpx
import pytest

from callflow.cli import deployment
from callflow.cli.local_stack import LONGEST_PAUSE_S, Part, Supervisor
from callflow.errors import CallflowError
from callflow.lab.embedded_server import EmbeddedServer
from callflow.lab.stack import free_port
from callflow.redis.client import connect
from tests.cli.running import Cli
from tests.waiting import wait_until


def running(pid: int) -> bool:
    """True while a process or anything in its group lives."""
    for send in (os.kill, os.killpg):
        try:
            send(pid, 0)
        except ProcessLookupError:
            continue
        return True
    return False


@pytest.mark.stack
def test_a_local_stack_is_talked_to_survives_a_death_and_ends_without_a_trace(cli: Cli) -> None:
    told = cli.home / "told"
    port = free_port()
    up = start(cli, told, "--workers", "1", "--slots", "2", "--web-port", str(port))
    try:
        wait_until(lambda: "ready in" in read(told), "the stack to be ready", within_s=30)
        pids = {name: int(pid) for name, pid in re.findall(r"(\w+) .*process (\d+)", read(told))}
        assert pids.keys() == {"server", "worker1", "watchdog", "beat", "web"}
        assert httpx.get(f"http://127.0.0.1:{port}/readyz").status_code == 200
        handout = cli.home / "data" / "phone.json"
        assert handout.stat().st_mode & 0o777 == 0o600
        token = json.loads(handout.read_text())["auth_token"]

        called = cli.call("--call-sid", "CA1", "--keep", said=b"we are stuck\n")
        assert called.code == 0, called
        assert len(called.out.splitlines()) == 1
        (listed,) = cli.run("calls", "ls", "--json").json
        assert (listed["call_sid"], listed["answered"]) == ("CA1", 1)
        cli.run("up", "--no-flower").failed_with("a local stack runs in")

        os.kill(pids["beat"], signal.SIGKILL)
        wait_until(lambda: "beat was started again" in read(told), "a new beat")
        assert "beat was killed by SIGKILL" in read(told)
    finally:
        up.send_signal(signal.SIGINT)
        code = up.wait(20)
    assert code == 0, read(told)
    assert not [name for name, pid in pids.items() if running(pid)]
    data = cli.home / "data"
    assert not (data / "url").exists()
    assert not handout.exists()
    assert token not in read(told)
    assert not [log for log in (data / "logs").glob("*.log") if token in read(log)]
    secret = re.compile(r"redis://[^*@\s]*:[^*@\s]+@")
    assert not [log for log in (data / "logs").glob("*.log") if secret.search(read(log))]


def start(cli: Cli, told: Path, *args: str) -> subprocess.Popen[bytes]:
    """Start a stack that writes what it tells into a file."""
    with told.open("wb") as out:
        return cli.start("up", "--no-flower", *args, out=out.fileno())


def read(path: Path) -> str:
    return path.read_text(errors="replace")


def test_a_stack_is_not_started_on_a_server_that_evicts(
    cli: Cli, own_server: EmbeddedServer
) -> None:
    connect(own_server.url).config_set("maxmemory-policy", "allkeys-lru")
    cli.set("CALLFLOW_REDIS_URL", own_server.url)
    cli.run("up", "--no-flower").failed_with("its maxmemory-policy is allkeys-lru")
    assert deployment.read_url(cli.home / "data") is None


def test_a_port_that_flower_cannot_have_is_named(cli: Cli, own_server: EmbeddedServer) -> None:
    port = own_server.url.rpartition(":")[2].partition("/")[0]
    cli.run("up", "--flower-port", port).failed_with(f"port {port} is taken")


class FakePart:
    """A part that lives and dies as it is told."""

    def __init__(self) -> None:
        self.living = True
        self.starts = 0
        self.refuses = False

    def start(self) -> None:
        if self.refuses:
            raise CallflowError("no")
        self.starts += 1
        self.living = True


def supervised() -> tuple[Supervisor, FakePart]:
    supervisor, fake = Supervisor(), FakePart()
    part = Part("beat", lambda: fake.living, fake.start, lambda: "was killed by SIGKILL")
    supervisor.add(part, now=0)
    return supervisor, fake


def test_nothing_is_said_of_what_lives() -> None:
    supervisor, _ = supervised()
    assert list(supervisor.look(100)) == []


def test_a_part_that_worked_for_long_is_started_again_at_once() -> None:
    supervisor, part = supervised()
    part.living = False
    assert list(supervisor.look(100)) == ["beat was killed by SIGKILL", "beat was started again"]
    assert part.starts == 1


def test_a_part_that_dies_at_its_start_is_given_longer_and_longer_pauses() -> None:
    supervisor, part = supervised()
    now = 0.0
    pauses: list[float] = []
    for _ in range(8):
        part.living = False
        assert "next try" in " ".join(supervisor.look(now))
        died = now
        while part.starts == len(pauses):
            now += 0.5
            list(supervisor.look(now))
        pauses.append(now - died)
    assert pauses[:4] == [1, 2, 4, 8]
    assert pauses[-1] == LONGEST_PAUSE_S


def test_a_part_that_cannot_be_started_is_told_about_and_tried_again() -> None:
    supervisor, part = supervised()
    part.living, part.refuses = False, True
    assert list(supervisor.look(100))[-1] == "beat does not start: no"
    part.refuses = False
    news = [told for now in (101, 102, 103) for told in supervisor.look(now)]
    assert news[-1] == "beat was started again"
