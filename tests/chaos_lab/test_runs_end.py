"""A run of chaos or of the demo leaves no process and no file behind, however it is ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from callflow.cli.terminal import INTERRUPTED
from tests.waiting import wait_until

CHAOS = ("chaos", "--every", "0.1", "--strikes", "server-freeze,broker-freeze")
DEMO = ("demo", "--every", "0.5")


@pytest.mark.timeout(180)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
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
