"""A process whose clock can be set, and which notices nothing of it otherwise."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from callflow.lab.chaos.environment import clock_env
from tests.waiting import wait_until

# Says the time whenever it is asked; a child that it forks says it as well.
TELL = """
import os, sys, time
for line in sys.stdin:
    print(time.time(), time.time_ns() / 1e9, time.monotonic(), flush=True)
    if os.fork() == 0:
        print(time.time(), time.time_ns() / 1e9, time.monotonic(), flush=True)
        os._exit(0)
    os.wait()
"""


def test_a_clock_jumps_and_jumps_back(tmp_path: Path) -> None:
    teller = subprocess.Popen(
        [sys.executable, "-c", TELL],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=clock_env(tmp_path),
        start_new_session=True,
    )

    def ahead_s() -> list[float]:
        assert teller.stdin is not None
        assert teller.stdout is not None
        teller.stdin.write("\n")
        teller.stdin.flush()
        told = [teller.stdout.readline().split() for _ in range(2)]
        assert all(abs(float(one[2]) - time.monotonic()) < 5 for one in told), "not for anybody"
        return [float(when) - time.time() for one in told for when in one[:2]]

    with teller:
        assert all(abs(one) < 5 for one in ahead_s())

        clock = tmp_path / str(teller.pid)
        clock.write_text("-1000")
        wait_until(lambda: all(abs(one + 1000) < 5 for one in ahead_s()), "the clock went back")

        clock.write_text("0.0")
        wait_until(lambda: all(abs(one) < 5 for one in ahead_s()), "the clock is right again")


def test_another_process_keeps_the_right_time(tmp_path: Path) -> None:
    (tmp_path / "1").write_text("5000")
    done = subprocess.run(
        [sys.executable, "-c", "import time; print(time.time())"],
        capture_output=True,
        text=True,
        check=True,
        env=clock_env(tmp_path),
        start_new_session=True,
    )

    assert abs(float(done.stdout) - time.time()) < 5
