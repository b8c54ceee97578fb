"""What becomes of the broker: workers and beat come back to it by themselves, and soon.

The calls are on a server of their own here, so that what is seen is the broker's part alone.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis

from callflow.lab.chaos.network_proxy import Endpoint
from callflow.lab.embedded_server import EmbeddedServer
from tests.stack_parts import Running, running
from tests.waiting import wait_until

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(180)]

BOTH_POOLS = pytest.mark.parametrize(
    "pool", ["prefork", pytest.param("threads", marks=pytest.mark.night)]
)

AGAIN_WITHIN_S = 5.0
"""From the moment at which the broker is well to the next answer: the bound of the reports."""


def _sid(number: int) -> str:
    return f"CA{number:032x}"


def _url(broker: EmbeddedServer, port: int | None = None) -> str:
    return f"redis://:{broker.password}@127.0.0.1:{port or broker.port}/0"


@contextmanager
def _asking(broker: EmbeddedServer) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(broker.url, decode_responses=True) as client:
        yield client


def _answered(run: Running, number: int) -> float:
    """How long a new call takes to be answered, s: by a worker that the broker woke."""
    began = time.monotonic()
    run.caller_says(_sid(number), 1, "we are stuck please help")
    assert run.reply(_sid(number), 1, within_s=30).done
    took_s = time.monotonic() - began
    print(f"answered after {took_s:.2f} s")
    assert run.parts.events(_sid(number)).count("committed") == 1
    return took_s


def _lives(run: Running) -> None:
    for process in run.stack.processes.values():
        assert process.alive, f"{process.name} has ended: {process.last_lines()}"


@contextmanager
def _stack(
    tmp_path: Path, broker_url: str, pool: str = "prefork", beats: int = 1
) -> Iterator[Running]:
    with running(
        tmp_path,
        workers=1,
        slots=1,
        pool=pool,
        beats=beats,
        broker_url=broker_url,
        responder="counted",
    ) as run:
        assert _answered(run, 1) < AGAIN_WITHIN_S
        yield run
        _lives(run)


@BOTH_POOLS
def test_fault_01_three_quick_restarts_leave_no_worker_catatonic(tmp_path: Path, pool: str) -> None:
    with EmbeddedServer.start() as broker, _stack(tmp_path, broker.url, pool) as run:
        for _ in range(3):
            broker.kill()
            broker.restart()
        assert _answered(run, 2) < AGAIN_WITHIN_S


@pytest.mark.parametrize("gone_s", [0, 2, pytest.param(10, marks=pytest.mark.night)])
def test_fault_02_workers_consume_again_after_a_restart(tmp_path: Path, gone_s: int) -> None:
    """However long the broker was gone: Celery's own pauses would have grown to six seconds."""
    with EmbeddedServer.start() as broker, _stack(tmp_path, broker.url) as run:
        broker.kill()
        _passing(gone_s)
        broker.restart()
        assert _answered(run, 2) < AGAIN_WITHIN_S


@BOTH_POOLS
def test_fault_03_connections_killed_ten_times_are_opened_again(tmp_path: Path, pool: str) -> None:
    with EmbeddedServer.start() as broker, _stack(tmp_path, broker.url, pool) as run:
        with _asking(broker) as client:
            for number in range(2, 12):
                for kind in ("normal", "pubsub"):
                    client.client_kill_filter(_type=kind, skipme=True)
                if number % 5 == 0:
                    assert _answered(run, number) < AGAIN_WITHIN_S
        assert _answered(run, 20) < AGAIN_WITHIN_S


@pytest.mark.parametrize("keep_open", [False, True], ids=["reset", "roles_swapped"])
@BOTH_POOLS
def test_fault_04_a_live_failover_behind_one_endpoint_costs_seconds(
    tmp_path: Path, pool: str, keep_open: bool
) -> None:
    """The old primary stays up as a replica, and may go on answering on the open connections."""
    with (
        EmbeddedServer.start() as primary,
        EmbeddedServer.start(
            password=primary.password,
            options=(f"replicaof 127.0.0.1 {primary.port}", f"masterauth {primary.password}"),
        ) as replica,
        Endpoint.start(primary.port) as endpoint,
        _stack(tmp_path, _url(primary, endpoint.port), pool) as run,
    ):
        with _asking(primary) as old, _asking(replica) as new:
            wait_until(lambda: new.info("replication")["master_link_status"] == "up", "no replica")
            new.replicaof("NO", "ONE")
            endpoint.point_at(replica.port, keep_open=keep_open)
            old.replicaof("127.0.0.1", replica.port)
        assert _answered(run, 2) < AGAIN_WITHIN_S
        assert _answered(run, 3) < AGAIN_WITHIN_S


@BOTH_POOLS
def test_fault_05_a_broker_that_was_frozen_for_twenty_seconds_is_used_again(
    tmp_path: Path, pool: str
) -> None:
    with EmbeddedServer.start() as broker, _stack(tmp_path, broker.url, pool) as run:
        _frozen(broker, 20)
        assert _answered(run, 2) < AGAIN_WITHIN_S


def _frozen(broker: EmbeddedServer, seconds: float) -> None:
    os.kill(broker.pid, signal.SIGSTOP)
    _passing(seconds)
    os.kill(broker.pid, signal.SIGCONT)


def _passing(seconds: float) -> None:
    until = time.monotonic() + seconds
    wait_until(lambda: time.monotonic() >= until, "time stands still", within_s=seconds + 5)


@BOTH_POOLS
def test_a_silent_cut_is_noticed_and_healed(tmp_path: Path, pool: str) -> None:
    with (
        EmbeddedServer.start() as broker,
        Endpoint.start(broker.port) as endpoint,
        _stack(tmp_path, _url(broker, endpoint.port), pool) as run,
    ):
        endpoint.mute()
        _passing(15)
        endpoint.heal()
        assert _answered(run, 2) < AGAIN_WITHIN_S


def test_a_message_whose_delivery_was_lost_is_made_good(tmp_path: Path) -> None:
    """The server has taken it off the queue, and the worker never saw it."""
    with (
        EmbeddedServer.start() as broker,
        Endpoint.start(broker.port) as endpoint,
        _stack(tmp_path, _url(broker, endpoint.port)) as run,
    ):
        endpoint.drop_replies(3, "BRPOP")
        assert _answered(run, 2) < AGAIN_WITHIN_S


@BOTH_POOLS
def test_a_broker_that_comes_back_empty_costs_nothing(tmp_path: Path, pool: str) -> None:
    """Its bindings are gone with it; our queues need none."""
    with EmbeddedServer.start() as broker, _stack(tmp_path, broker.url, pool) as run:
        with _asking(broker) as client:
            client.flushall()
        assert _answered(run, 2) < AGAIN_WITHIN_S
        wait_until(run.watchdog_sweeps, "the watchdog never swept again")


def test_fault_18_workers_and_beat_that_start_without_a_broker_wait_for_it(tmp_path: Path) -> None:
    with EmbeddedServer.start() as broker, _stack(tmp_path, broker.url) as run:
        for name in ("w1", "watchdog", "beat1"):
            run.stack.processes[name].kill()
        broker.kill()
        run.stack.start_worker("w2", slots=1)
        run.stack.start_watchdog("watchdog2")
        run.stack.start_beat("beat2")
        logs = [run.stack.processes[name].log for name in ("w2", "watchdog2", "beat2")]
        wait_until(
            lambda: all("Trying again" in log.read_text() for log in logs),
            "they have not yet found the broker gone",
            within_s=30,
        )
        del run.stack.processes["w1"]
        del run.stack.processes["watchdog"]
        del run.stack.processes["beat1"]
        broker.restart()
        back = time.monotonic()
        wait_until(
            lambda: (run.parts.leases.last_sweep() or ("", 0))[0].startswith("watchdog2@"),
            "the watchdog never swept",
        )
        print(f"swept {time.monotonic() - back:.2f} s after the broker was back")
        assert _answered(run, 2) < AGAIN_WITHIN_S


def test_fault_17_three_beats_at_once_do_no_harm_and_any_of_them_may_die(tmp_path: Path) -> None:
    with EmbeddedServer.start() as broker, _stack(tmp_path, broker.url, beats=3) as run:
        for name in ("beat1", "beat2"):
            assert run.watchdog_sweeps()
            run.stack.processes.pop(name).kill()
        assert _answered(run, 2) < AGAIN_WITHIN_S
        with _asking(broker) as client:
            assert int(client.llen("watchdog")) < 20, "sweeps pile up"
        wait_until(run.watchdog_sweeps, "the watchdog no longer sweeps")
        run.stack.processes["beat3"].send(signal.SIGSTOP)
        wait_until(
            lambda: "understudy" in (run.parts.leases.last_sweep() or ("", 0))[0],
            "nobody sweeps in the place of a beat that is frozen",
        )
        run.stack.processes["beat3"].send(signal.SIGCONT)
        wait_until(run.watchdog_sweeps, "the thawed beat no longer asks for sweeps")
