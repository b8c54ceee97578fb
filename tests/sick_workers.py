"""Asks `callflow doctor` about a running stack, and starts workers that fall ill when told to."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from callflow.celery import CALLS
from callflow.health.worker_reports import ReportStore, WorkerReport
from callflow.lab.stack import StackProcess
from callflow.redis.scripts import Scripts
from tests.stack_parts import Running
from tests.waiting import wait_until

WITHIN_S = 30.0
"""Far above what is measured (5 to 9 s), and far below what an operator sleeps."""

SICK = """
    import os, pathlib, signal, time
    import kombu.transport.redis
    from celery.signals import worker_process_init
    from callflow.celery import app

    if os.environ.get("SICK") == "slow":
        worker_process_init.connect(lambda **_: time.sleep(60), weak=False)

    def wedge(*_):
        time.sleep(20)

    def go_deaf(*_):
        kombu.transport.redis.Channel._brpop_start = lambda *_, **__: None
        pathlib.Path(os.environ["TMPDIR"], "deaf").touch()

    signal.signal(signal.SIGALRM, wedge)
    signal.signal(signal.SIGVTALRM, go_deaf)
"""


def _call(stack: Running, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "callflow", "doctor", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "CALLFLOW_REDIS_URL": stack.url, "CALLFLOW_BROKER_URL": ""},
        check=False,
    )


def doctor(stack: Running) -> dict[str, Any]:
    """What is not well, by the name of the check; where records last is not looked after here."""
    done = _call(stack, "--json")
    told = json.loads(done.stdout)
    found = {check["name"]: check for check in told["checks"] if check["grade"] != "ok"}
    found.pop("records", None)
    failed = any(check["grade"] == "failure" for check in found.values())
    assert (done.returncode, told["ok"]) == (int(failed), not failed), done
    return found


def healthy(stack: Running, name: str) -> bool:
    """What the health check of that worker's container makes of it."""
    return _call(stack, "--node", node(stack, name).node).returncode == 0


def node(stack: Running, name: str) -> WorkerReport:
    """What the worker has said last, once it has said something."""

    def said() -> list[WorkerReport]:
        signs = ReportStore(Scripts(stack.parts.client)).read().reports
        return [one for one in signs if one.node.startswith(f"{name}@")]

    return wait_until(said, f"{name} has said something", within_s=WITHIN_S)[0]


def all_is_well(stack: Running) -> None:
    wait_until(lambda: not doctor(stack), "all is well", within_s=WITHIN_S)


def says(stack: Running, check: str, grade: str, words: str) -> None:
    def told() -> bool:
        found = doctor(stack).get(check, {"grade": "ok", "sentence": ""})
        return found["grade"] == grade and words in found["sentence"]

    wait_until(told, f"{check}: {grade}: {words}", within_s=WITHIN_S)


def children(process: StackProcess) -> list[int]:
    """The processes of its pool; others that a parent has are not known here."""
    listed = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
    return [int(pid) for pid in listed.split()]


@contextmanager
def sick_worker(stack: Running, folder: Path, name: str, **env: str) -> Iterator[StackProcess]:
    """A worker of processes that falls ill when it is told to by a signal."""
    (folder / "sick.py").write_text(textwrap.dedent(SICK))
    path = os.pathsep.join([str(folder), str(Path(__file__).parents[2])])
    settings = [f"{key}={value}" for key, value in {"PYTHONPATH": path, **env}.items()]
    process = stack.stack.start(
        name,
        [
            *("env", *settings, sys.executable, "-m", "celery", "-A", "sick", "worker"),
            *("-n", f"{name}@%h", "-Q", ",".join(CALLS), "-P", "prefork", "-c", "2"),
            *("-l", "WARNING", "--without-gossip", "--without-mingle", "--without-heartbeat"),
        ],
    )
    yield process
    process.send(signal.SIGCONT)
    process.kill()


def forget(stack: Running, name: str) -> None:
    """Take away what a worker that was killed has said: else it is complained of for a minute."""
    ReportStore(Scripts(stack.parts.client)).forget(node(stack, name).node)
