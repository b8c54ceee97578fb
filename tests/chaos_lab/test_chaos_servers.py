"""The servers of a run, and what is done to them: real ones, so this takes some seconds."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from callflow.errors import StoreError
from callflow.lab.chaos import chaos_servers
from callflow.lab.chaos.chaos_servers import Servers, freeze, thaw
from callflow.redis.client import Client, connect, translated
from tests.waiting import wait_until

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(120)]


@pytest.fixture
def running() -> Iterator[Servers]:
    with chaos_servers.running_servers() as built:
        yield built


@pytest.fixture
def client(running: Servers) -> Iterator[Client]:
    """What callflow has: an address, and no idea of what is behind it."""
    with connect(running.url) as client:
        yield client


def test_a_failover_keeps_what_was_written_before(running: Servers, client: Client) -> None:
    for number in range(500):
        client.set(f"k{number}", number)
    before = running.primary

    with running.writes_held():
        running.primary.kill()
    running.promote()
    running.lead_clients()

    assert running.primary is not before
    assert int(client.dbsize()) == 500
    running.follow()
    running.wait_until_in_step()
    assert running.replica is before
    assert running.client_of(before).dbsize() == 500


def test_a_failover_behind_the_replicas_back_loses_what_was_written_since(
    running: Servers, client: Client
) -> None:
    client.set("kept", 1)
    running.wait_until_in_step()
    running.cut_off_replica()
    client.set("lost", 1)

    running.primary.kill()
    running.promote()
    running.lead_clients()

    assert client.exists("kept") == 1
    assert client.exists("lost") == 0


def test_writes_are_held_while_roles_change_and_go_on_afterwards(
    running: Servers, client: Client
) -> None:
    client.set("k", 0)
    with running.writes_held():
        running.promote()
        running.lead_clients(keep_open=True)
        running.follow()

    wait_until(lambda: _writes(client), "the client has found the new primary")
    assert running.client.get("k") == "1"
    running.wait_until_in_step()
    assert running.client_of(running.replica).get("k") == "1"


def _writes(client: Client) -> bool:
    try:
        with translated("here"):
            client.set("k", 1)
    except StoreError:
        return False
    return True


def test_a_full_disk_refuses_writes_and_loses_none(running: Servers, client: Client) -> None:
    client.set("before", 1)

    running.fill_disk()
    wait_until(lambda: not _writes(client), "writes are refused")
    assert client.get("before") == "1"

    running.empty_disk()
    client.set("after", 1)
    running.primary.restart()
    assert running.client_of(running.primary).mget("before", "after") == ["1", "1"]


def test_a_server_ends_every_connection_but_its_replicas(running: Servers, client: Client) -> None:
    name = client.client_id()

    running.drop_clients(running.primary)

    assert client.client_id() != name
    client.set("k", 1)
    running.wait_until_in_step()


def test_whatever_state_they_are_in_the_servers_end_with_the_run() -> None:
    with chaos_servers.running_servers() as built:
        pids = [one.pid for one in (built.primary, built.replica, built.broker)]
        freeze(built.primary)
        freeze(built.broker)
        built.replica.kill()

    for pid in pids:
        wait_until(lambda pid=pid: not _lives(pid), "they have ended")  # type: ignore[misc]


def test_thawing_what_is_dead_or_was_never_frozen_does_nothing(running: Servers) -> None:
    thaw(running.primary)
    running.replica.kill()
    thaw(running.replica)

    assert running.client.ping()


def _lives(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists() and os.getpgid(pid) > 0


def test_a_replica_is_in_step_while_writes_go_on(running: Servers, client: Client) -> None:
    ended = threading.Event()

    def write() -> None:
        number = 0
        while not ended.is_set():
            client.set("k", number := number + 1)

    writing = threading.Thread(target=write)
    writing.start()
    try:
        for _ in range(20):
            running.wait_until_in_step()
    finally:
        ended.set()
        writing.join()


def test_whoever_is_the_primary_is_still_one_after_a_restart(
    running: Servers, client: Client
) -> None:
    for number in range(2):
        client.set("k", number)
        with running.writes_held():
            running.primary.kill()
        running.promote()
        running.lead_clients()
        running.follow()
        running.wait_until_in_step()

        running.primary.restart()
        running.wait_until_in_step()

        assert client.get("k") == str(number)
