"""Whole runs of the machine: every promise is kept under all strikes, and under each alone.

Runs that fail leave what was seen and heard in the directory of the test, to be judged again.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from callflow.lab.chaos.chaos_plan import KINDS

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
