"""A demo that is ended, however it is ended, leaves no process and no file behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import wait_until


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_behind(number: signal.Signals, tmp_path: Path) -> None:
    demo = subprocess.Popen(
        [sys.executable, "-m", "callflow", "demo", "--every", "0.5"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        text=True,
    )
    assert demo.stdout is not None
    first = demo.stdout.readline()
    assert "killed worker" in first
    ours = _processes_of(tmp_path)
    assert len(ours) >= 3

    demo.send_signal(number)

    wait_until(lambda: not _processes_of(tmp_path), "processes are left", within_s=20)
    wait_until(lambda: not list(tmp_path.iterdir()), "files are left", within_s=20)
    demo.stdout.close()
    demo.wait(20)


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
