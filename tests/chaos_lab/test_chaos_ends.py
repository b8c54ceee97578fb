"""A run that is ended, however it is ended, leaves no process and no file behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from callflow.cli.terminal import INTERRUPTED
from tests.waiting import wait_until

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(180)]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_behind(number: signal.Signals, tmp_path: Path) -> None:
    """Not even of what stands frozen in that moment."""
    strikes = "server-freeze,broker-freeze"
    chaos = subprocess.Popen(
        [sys.executable, "-m", "callflow", "chaos", "--every", "0.1", "--strikes", strikes],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        text=True,
    )
    assert chaos.stdout is not None
    assert "-freeze" in chaos.stdout.readline()
    # Two servers with the calls and one with the messages, workers, watchdog, beats, web.
    assert len(_processes_of(tmp_path)) >= 3 + 3 + 1 + 2 + 2

    chaos.send_signal(number)

    wait_until(lambda: not _processes_of(tmp_path), "processes are left", within_s=60)
    wait_until(lambda: not list(tmp_path.iterdir()), "files are left", within_s=20)
    words = chaos.stdout.read()
    chaos.stdout.close()
    ended = chaos.wait(20)
    if number is not signal.SIGKILL:
        assert "interrupted: nothing was judged" in words
        assert "Traceback" not in words
        assert ended == INTERRUPTED


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
