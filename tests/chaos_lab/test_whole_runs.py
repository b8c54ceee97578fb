"""Whole runs: every promise is kept under all strikes and under each alone, and nothing is left.

Runs that fail leave what was seen and heard in the directory of the test, to be judged again.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from callflow.cli.terminal import INTERRUPTED
from callflow.lab.chaos.chaos_plan import KINDS
from tests.waiting import wait_until

pytestmark = pytest.mark.timeout(400)


def chaos(folder: Path, *arguments: str) -> dict[str, Any]:
    """What `callflow chaos --json` ends with; every promise was kept."""
    command = [sys.executable, "-m", "callflow", "chaos", "--json", *arguments]
    command += ["--testimony", str(folder / "testimony.json"), "--logs", str(folder / "logs")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{folder}: {done.stderr[-6000:]}"
    verdict: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return verdict


@pytest.mark.night
def test_under_all_strikes_every_promise_is_kept(tmp_path: Path) -> None:
    verdict = chaos(tmp_path, "--seconds", "20", "--calls", "8")

    assert verdict["strikes"] >= 3
    assert verdict["lost"] == verdict["repeated"] == verdict["out_of_order"] == 0
    assert verdict["silence_s"]["max"] <= 4


@pytest.mark.night
def test_with_a_replica_that_must_have_it_a_lossy_failover_loses_nothing(tmp_path: Path) -> None:
    verdict = chaos(
        tmp_path,
        *("--seconds", "20", "--calls", "8", "--min-replicas", "1"),
        *("--strikes", "failover-lossy"),
    )

    assert verdict["per_kind"]["failover-lossy"]["strikes"] >= 2
    assert verdict["lost"] == verdict["detected"] == 0


@pytest.mark.night
@pytest.mark.parametrize("kind", KINDS)
def test_each_strike_alone_breaks_no_promise(kind: str, tmp_path: Path) -> None:
    verdict = chaos(tmp_path, "--seconds", "10", "--calls", "6", "--every", "1", "--strikes", kind)

    assert verdict["per_kind"][kind]["strikes"] >= 1


@pytest.mark.stack
def test_two_callers_are_answered_though_a_worker_dies() -> None:
    command = ("demo", "--json", "--calls", "2", "--turns", "1", "--every", "1", "--speed", "16")
    done = subprocess.run(
        [sys.executable, "-m", "callflow", *command, "--pace", "0.1"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["calls"], found["turns"]) == (2, 2)
    assert found["faults"] == []
    assert set(found["takeover_s"]) == {"p50", "p95", "p99", "max"}
    assert "Nobody had to say anything twice, or wait in silence." in done.stderr
    assert done.stderr.rstrip().endswith("again: --seed 1")


CHAOS = ("chaos", "--every", "0.1", "--strikes", "server-freeze,broker-freeze")
DEMO = ("demo", "--every", "0.5")


@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.night), signal.SIGKILL]
)
@pytest.mark.parametrize(
    ("command", "first", "processes"),
    [
        # Three servers, workers, watchdog, beats, web: not even what stands frozen is left.
        pytest.param(CHAOS, "-freeze", 3 + 3 + 1 + 2 + 2, marks=pytest.mark.chaos),
        pytest.param(DEMO, "killed worker", 3, marks=pytest.mark.stack),
    ],
    ids=["chaos", "demo"],
)
def test_nothing_is_left_behind(
    command: tuple[str, ...], first: str, processes: int, number: signal.Signals, tmp_path: Path
) -> None:
    run = subprocess.Popen(
        [sys.executable, "-m", "callflow", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        text=True,
    )
    assert run.stdout is not None
    assert first in run.stdout.readline()
    assert len(_processes_of(tmp_path)) >= processes

    run.send_signal(number)

    wait_until(lambda: not _processes_of(tmp_path), "processes are left", within_s=60)
    wait_until(lambda: not list(tmp_path.iterdir()), "files are left", within_s=20)
    words = run.stdout.read()
    run.stdout.close()
    ended = run.wait(20)
    if number is not signal.SIGKILL:
        assert "Traceback" not in words
        assert ended == INTERRUPTED
        assert command != CHAOS or "interrupted: nothing was judged" in words


def _processes_of(folder: Path) -> list[int]:
    """Living processes that hold a file below `folder` open, such as their logs."""
    found = []
    for process in Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        try:
            opened = [str(fd.readlink()) for fd in (process / "fd").iterdir()]
        except OSError:
            continue  # It has ended while we looked, or it is not ours.
        if any(path.startswith(str(folder)) for path in opened):
            found.append(int(process.name))
    return found
