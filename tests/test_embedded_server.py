"""The embedded server keeps what it was told, and never outlives its owner."""

from __future__ import annotations

import importlib.util
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import redis

from callflow.lab.embedded_server import (
    DataDirInUse,
    EmbeddedServer,
    EmbeddedServerFailed,
    EmbeddedServerMissing,
    PortTaken,
    debian_redis_binary,
    find_server_binary,
)
from tests.servers import EACH, binary_of
from tests.waiting import wait_until

# BINARY [DATA_DIR] [fork]: starts a server, tells where, and lives until its input ends. With
# "fork", a child does so too.
OWNER = """
import os, sys
from pathlib import Path
from callflow.lab.embedded_server import EmbeddedServer
binary, *data_dir = [Path(arg) for arg in sys.argv[1:] if arg != "fork"]
server = EmbeddedServer.start(*data_dir, binary=binary)
if "fork" in sys.argv and os.fork() == 0:
    server.stop()
else:
    print(server.pid, server.url, server.data_dir, flush=True)
sys.stdin.read()
"""


@pytest.fixture(params=EACH)
def binary(request: pytest.FixtureRequest) -> Path:
    return binary_of(request.param)


def port_of(url: str) -> int:
    port = urlsplit(url).port
    assert port is not None
    return port


def exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@contextmanager
def owner(*args: str) -> Iterator[tuple[subprocess.Popen[str], int, str, Path]]:
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, *args],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    ) as process:
        assert process.stdout is not None
        try:
            pid, url, data_dir = process.stdout.readline().split()
            yield process, int(pid), url, Path(data_dir)
        finally:
            process.kill()


def test_a_started_server_answers_at_its_url(binary: Path) -> None:
    with EmbeddedServer.start(binary=binary) as server, redis.Redis.from_url(server.url) as client:
        assert client.ping()
        assert server.alive
        assert client.info("server")["process_id"] == server.pid


def test_it_persists_and_evicts_nothing(binary: Path) -> None:
    with EmbeddedServer.start(binary=binary) as server, redis.Redis.from_url(server.url) as client:
        settings = client.config_get("append*", "save", "maxmemory-policy")
        assert settings["appendonly"] == "yes"
        assert settings["appendfsync"] == "everysec"
        assert settings["save"] == ""
        assert settings["maxmemory-policy"] == "noeviction"


def test_what_was_acknowledged_survives_a_kill(binary: Path) -> None:
    with EmbeddedServer.start(binary=binary) as server:
        url, first_pid = server.url, server.pid
        with redis.Redis.from_url(url, decode_responses=True) as client:
            client.rpush("said", "the lift has stopped", "there are two of us")
        server.kill()
        assert not server.alive
        server.restart()
        assert server.alive
        assert server.url == url
        assert server.pid != first_pid
        with redis.Redis.from_url(url, decode_responses=True) as client:
            assert client.lrange("said", 0, -1) == ["the lift has stopped", "there are two of us"]


def test_a_data_directory_is_kept_and_can_be_opened_again(binary: Path, tmp_path: Path) -> None:
    home = tmp_path / 'a "quoted" name'
    with EmbeddedServer.start(home, binary) as server:
        with redis.Redis.from_url(server.url) as client:
            client.set("kept", "yes")
        pid = server.pid
    assert not exists(pid)
    with EmbeddedServer.start(home, binary) as server:
        with redis.Redis.from_url(server.url) as client:
            assert client.get("kept") == b"yes"


def test_stop_removes_the_scratch_directory_and_may_be_called_twice(binary: Path) -> None:
    server = EmbeddedServer.start(binary=binary)
    pid, data_dir = server.pid, server.data_dir
    assert data_dir.is_dir()
    server.stop()
    server.stop()
    assert not exists(pid)
    assert not server.alive
    assert not data_dir.exists()


@pytest.mark.parametrize("server_state", ["running", "frozen"])
def test_a_killed_owner_leaves_no_server_and_no_scratch_behind(
    binary: Path, server_state: str
) -> None:
    with owner(str(binary)) as (process, pid, _, data_dir):
        assert exists(pid)
        if server_state == "frozen":
            os.kill(pid, signal.SIGSTOP)
        process.kill()
        wait_until(lambda: not exists(pid), "the server ends with its owner", within_s=2)
        wait_until(lambda: not data_dir.exists(), "the scratch directory goes", within_s=2)


def test_a_forked_child_neither_stops_the_server_nor_keeps_it_alive(binary: Path) -> None:
    with owner(str(binary), "fork") as (process, pid, url, _):
        with redis.Redis.from_url(url) as client:
            assert client.ping()
        os.kill(process.pid, signal.SIGKILL)  # The child still lives, and waits for its input.
        wait_until(lambda: not exists(pid), "the server ends with its owner", within_s=2)


def test_an_owner_that_just_ends_leaves_nothing_behind(binary: Path) -> None:
    with owner(str(binary)) as (process, pid, _, data_dir):
        process.communicate("")
        assert process.returncode == 0
        wait_until(lambda: not exists(pid), "the server ends with its owner", within_s=2)
        wait_until(lambda: not data_dir.exists(), "the scratch directory goes", within_s=2)


def test_ctrl_c_in_the_owners_terminal_does_not_reach_the_server(binary: Path) -> None:
    with EmbeddedServer.start(binary=binary) as server:
        assert os.getpgid(server.pid) != os.getpgid(0)
        assert os.getsid(server.pid) != os.getsid(0)


def test_a_second_server_on_the_same_data_is_refused(binary: Path, tmp_path: Path) -> None:
    with EmbeddedServer.start(tmp_path, binary) as first:
        with redis.Redis.from_url(first.url) as client:
            client.set("kept", "yes")
            with pytest.raises(DataDirInUse, match=f"in use by process {os.getpid()}"):
                EmbeddedServer.start(tmp_path, binary)
            assert client.get("kept") == b"yes"


def test_the_data_of_a_killed_owner_is_free_at_once(binary: Path, tmp_path: Path) -> None:
    with owner(str(binary), str(tmp_path)) as (process, _, url, _):
        with redis.Redis.from_url(url) as client:
            client.set("kept", "yes")
        process.kill()
        with (
            EmbeddedServer.start(tmp_path, binary) as server,
            redis.Redis.from_url(server.url) as client,
        ):
            assert client.get("kept") == b"yes"


def test_a_password_is_required_and_stands_in_no_argument_list(binary: Path) -> None:
    with EmbeddedServer.start(binary=binary) as server:
        password = urlsplit(server.url).password
        assert password
        assert password not in repr(server)
        with (
            redis.Redis(port=port_of(server.url)) as stranger,
            pytest.raises(redis.AuthenticationError),
        ):
            stranger.ping()
        listed = subprocess.run(["ps", "-axww", "-o", "args"], capture_output=True, text=True)
        assert binary.name in listed.stdout
        assert password not in listed.stdout
        for path in server.data_dir.rglob("*"):
            assert not path.is_file() or password.encode() not in path.read_bytes()


def test_it_listens_on_loopback_alone(binary: Path) -> None:
    with EmbeddedServer.start(binary=binary) as server, redis.Redis.from_url(server.url) as client:
        assert client.config_get("bind") == {"bind": "127.0.0.1"}
        if sys.platform == "linux":  # Elsewhere the rest of 127/8 has no address.
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(("127.0.0.2", port_of(server.url)), timeout=1)


def test_a_given_port_that_is_taken_is_an_error(binary: Path) -> None:
    with EmbeddedServer.start(binary=binary) as first:
        port = port_of(first.url)
        with pytest.raises(PortTaken, match=f"port {port} "):
            EmbeddedServer.start(binary=binary, port=port)
        assert first.alive


def test_a_port_taken_by_another_is_left_for_a_free_one(
    binary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with EmbeddedServer.start(binary=binary) as first:
        choose = secrets.choice
        ports = iter([port_of(first.url)])
        monkeypatch.setattr(secrets, "choice", lambda any_: next(ports, None) or choose(any_))
        with EmbeddedServer.start(binary=binary) as second:
            assert port_of(second.url) != port_of(first.url)
            assert second.data_dir.is_dir()


def test_a_server_that_ends_at_once_says_why(tmp_path: Path) -> None:
    broken = tmp_path / "broken-server"
    broken.write_text("#!/bin/sh\ncat >/dev/null; echo no such luck >&2; exit 1\n")
    broken.chmod(0o700)
    with pytest.raises(EmbeddedServerFailed, match=r"broken-server ended at its start.*such luck"):
        EmbeddedServer.start(binary=broken)


def test_a_missing_binary_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(EmbeddedServerMissing, match=r"callflow\[embedded\].*CALLFLOW_REDIS_URL"):
        find_server_binary()


def test_debians_server_is_found_on_the_path(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert debian_redis_binary() is None
    (tmp_path / "redis-server").touch(mode=0o700)
    assert debian_redis_binary() == tmp_path / "redis-server"


def test_a_start_is_quick(binary: Path) -> None:
    before = time.perf_counter()
    with EmbeddedServer.start(binary=binary):
        # 41 ms (Valkey 9.1) and 16 ms (Redis 7.0) on two quiet cores; the bound is for noisy ones.
        assert time.perf_counter() - before < 2.0


def test_further_lines_of_its_configuration_make_one_server_the_replica_of_another() -> None:
    with EmbeddedServer.start(options=("repl-diskless-sync-delay 0",)) as primary:
        follows = (f"replicaof 127.0.0.1 {primary.port}",)
        with (
            EmbeddedServer.start(password=primary.password, options=follows) as replica,
            redis.Redis.from_url(primary.url, decode_responses=True) as writer,
            redis.Redis.from_url(replica.url, decode_responses=True) as reader,
        ):
            wait_until(
                lambda: reader.info("replication")["master_link_status"] == "up",
                "the replica never found its primary",
            )
            writer.set("callflow:told", "1", ex=60)
            assert writer.wait(1, 5_000) == 1
            assert reader.get("callflow:told") == "1"
