"""The smallest whole demo: real processes, two calls, one killed worker, and its verdict."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest


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
