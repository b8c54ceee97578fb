"""Health that does not lie: `callflow doctor` and a worker's health check say what is wrong with
real workers within seconds, say that all is well before and after, and never cry without a cause.

Bounds are wide, because the machine is shared: a parent counts as silent after 5 s.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from callflow.celery import CALLS, app
from callflow.health.worker_reports import ReportStore
from callflow.redis.scripts import Scripts
from tests.cli.running import Cli
from tests.sick_workers import (
    WITHIN_S,
    all_is_well,
    children,
    doctor,
    forget,
    healthy,
    node,
    says,
    sick_worker,
)
from tests.stack_parts import Running, running
from tests.waiting import wait_until

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(300)]


def test_fault_16_a_frozen_parent_is_found_although_its_children_live(tmp_path: Path) -> None:
    with running(tmp_path) as stack:
        all_is_well(stack)
        parent = stack.stack.processes["w1"]
        os.kill(parent.pid, signal.SIGSTOP)
        says(stack, "parents", "failure", "although 2 of its processes live")
        assert not healthy(stack, "w1")
        assert healthy(stack, "w2")
        os.kill(parent.pid, signal.SIGCONT)
        all_is_well(stack)
        assert healthy(stack, "w1")


def test_a_frozen_parent_is_found_although_its_children_are_dead(tmp_path: Path) -> None:
    with running(tmp_path) as stack:
        all_is_well(stack)
        parent = stack.stack.processes["w1"]
        os.kill(parent.pid, signal.SIGSTOP)
        for pid in children(parent):
            os.kill(pid, signal.SIGKILL)
        says(stack, "parents", "warning", "its parent process is frozen and its children are dead")
        assert not healthy(stack, "w1")
        os.kill(parent.pid, signal.SIGCONT)
        wait_until(lambda: node(stack, "w1").children == 2, "new children", within_s=WITHIN_S)
        all_is_well(stack)


def test_fault_15_a_pool_whose_children_never_come_up_is_found(tmp_path: Path) -> None:
    with running(tmp_path) as stack:
        all_is_well(stack)
        with sick_worker(stack, tmp_path, "w3", SICK="slow") as sick:
            says(stack, "children", "failure", "had no child ready")
            assert not healthy(stack, "w3")
            # The first ones may take their time; those that replace them are killed after 4 s.
            for pid in children(sick):
                os.kill(pid, signal.SIGKILL)
            wait_until(lambda: node(stack, "w3").lost > 4, "children lost", within_s=WITHIN_S)
        forget(stack, "w3")
        all_is_well(stack)


def test_fault_16_a_wedged_loop_is_found(tmp_path: Path) -> None:
    with running(tmp_path) as stack, sick_worker(stack, tmp_path, "w3") as sick:
        wait_until(lambda: node(stack, "w3").children == 2, "ready", within_s=WITHIN_S)
        all_is_well(stack)
        os.kill(sick.pid, signal.SIGALRM)
        says(stack, "parents", "failure", "frozen or wedged")
        assert not healthy(stack, "w3")
        all_is_well(stack)


def test_a_process_of_the_pool_that_hangs_is_found(tmp_path: Path) -> None:
    with running(tmp_path, pace_s="0.5", turn_deadline_s="3") as stack:
        all_is_well(stack)
        stack.caller_says("CA1", 1, "we are stuck please help")
        record = stack.being_answered("CA1")
        assert record.assigned_worker is not None
        name, _, process = record.assigned_worker.partition("/")
        pid = int(process.partition("-")[0])
        os.kill(pid, signal.SIGSTOP)
        assert stack.reply("CA1", 1).done
        says(stack, "stuck turns", "failure", f"{name} has had a message in work")
        assert not healthy(stack, name.partition("@")[0])
        os.kill(pid, signal.SIGKILL)
        all_is_well(stack)


def test_fault_01_a_consumer_that_takes_nothing_any_more_is_found(tmp_path: Path) -> None:
    with running(tmp_path, workers=0) as stack, sick_worker(stack, tmp_path, "w3") as sick:
        wait_until(lambda: node(stack, "w3").children == 2, "ready", within_s=WITHIN_S)
        all_is_well(stack)
        os.kill(sick.pid, signal.SIGVTALRM)
        wait_until((tmp_path / "tmp" / "deaf").exists, "deaf", within_s=WITHIN_S)
        deaf_at = node(stack, "w3").at
        # What it had asked for before, for a second at a time, has come to nothing.
        wait_until(lambda: node(stack, "w3").at > deaf_at + 2_500, "idle", within_s=WITHIN_S)
        stack.caller_says("CA1", 1, "we are stuck please help")
        says(stack, "consumers", "failure", "although messages wait")
        assert not healthy(stack, "w3")
        # By then the turn has been owed for longer than any message may be lost.
        says(stack, "owed turns", "failure", "slots are free")
        stack.stack.start_worker("w1", slots=2)
        assert stack.reply("CA1", 1).done
        sick.kill()
        forget(stack, "w3")
        all_is_well(stack)


def test_a_queue_that_a_worker_was_told_to_leave_is_found(tmp_path: Path) -> None:
    with running(tmp_path) as stack, app.connection_for_write(stack.url) as broker:
        all_is_well(stack)
        names = [node(stack, name).node for name in ("w1", "w2")]
        app.control.cancel_consumer("takeover", destination=names, connection=broker)
        says(stack, "consumers", "failure", "nobody consumes the queue takeover")
        for queue in CALLS:
            app.control.cancel_consumer(queue, destination=names[:1], connection=broker)
        says(stack, "consumers", "failure", f"{names[0]} consumes no queue")
        assert not healthy(stack, "w1")
        assert healthy(stack, "w2")
        for queue in CALLS:
            app.control.add_consumer(queue, destination=names, connection=broker)
        all_is_well(stack)


def test_fault_17_missing_beats_and_watchdogs_are_told_apart(tmp_path: Path) -> None:
    with running(tmp_path) as stack:
        all_is_well(stack)
        stack.stack.processes["beat1"].kill()
        says(stack, "watchdog", "warning", "no beat asks for them")
        stack.stack.start_beat("beat2")
        all_is_well(stack)
        stack.stack.processes["watchdog"].kill()
        says(stack, "watchdog", "warning", "no watchdog worker takes sweeps")
        says(stack, "parents", "warning", "fell silent")
        stack.stack.start_watchdog()
        all_is_well(stack)


@contextmanager
def talking(stack: Running, calls: int) -> Iterator[None]:
    """So many callers who say the next thing as soon as they are answered."""
    over = threading.Event()

    def talk(sid: str) -> None:
        turn = 1
        while not over.is_set():
            stack.caller_says(sid, turn, "we are stuck please help")
            stack.reply(sid, turn, within_s=60)
            turn += 1

    threads = [threading.Thread(target=talk, args=(f"CA{number}",)) for number in range(calls)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()


def _graded(found: dict[str, Any], grade: str) -> list[str]:
    return [check["sentence"] for check in found.values() if check["grade"] == grade]


def test_twenty_looks_at_a_busy_stack_find_nothing_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli = Cli(monkeypatch, tmp_path)
    with running(tmp_path, workers=3, pace_s="0.3") as stack, talking(stack, calls=5):
        cli.set("CALLFLOW_REDIS_URL", stack.url)
        for _ in range(20):
            ran = cli.run("doctor", "--json")
            assert ran.code == 0, ran
        assert healthy(stack, "w1")


def _replace(stack: Running, name: str) -> None:
    old = stack.stack.processes[name]
    old.popen.terminate()
    old.popen.wait()
    if name == "watchdog":
        stack.stack.start_watchdog()
    else:
        stack.stack.start_worker(name, slots=2)

    def works() -> bool:
        signs = ReportStore(Scripts(stack.parts.client)).read().reports
        return any(one.node.startswith(f"{name}@") and one.phase == "working" for one in signs)

    wait_until(works, f"{name} works again", within_s=WITHIN_S)


def test_a_rolling_deploy_is_no_failure_at_any_moment(tmp_path: Path) -> None:
    with running(tmp_path, workers=3, pace_s="0.3") as stack, talking(stack, calls=4):
        over = threading.Event()

        def replace_all() -> None:
            try:
                for name in ("w1", "w2", "w3", "watchdog"):
                    _replace(stack, name)
            finally:
                over.set()

        deploy = threading.Thread(target=replace_all)
        deploy.start()
        looks = 0
        while not over.is_set():
            assert not _graded(doctor(stack), "failure")
            looks += 1
        deploy.join()
        assert looks >= 3
        all_is_well(stack)
