"""Celery's own commands, started by hand: what is missing is one sentence, and no traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def _celery(cwd: Path, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    without = {name: value for name, value in os.environ.items() if "CALLFLOW_" not in name}
    return subprocess.run(
        [sys.executable, "-m", "celery", "-A", "callflow", *arguments],
        cwd=cwd,
        env={**without, "PYTHONPATH": str(ROOT), **env},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )


@pytest.mark.parametrize(
    "command",
    [("worker", "-Q", "turns", "-c", "1"), ("beat", "--pidfile=")],
    ids=["worker", "beat"],
)
def test_without_the_server_s_address_it_ends_with_the_way_out(
    command: tuple[str, ...], tmp_path: Path
) -> None:
    ended = _celery(tmp_path, *command)
    assert ended.returncode == 1
    assert "Traceback" not in ended.stderr
    assert ended.stderr.splitlines()[-1] == (
        "callflow: CALLFLOW_REDIS_URL is not set: name the server that holds the calls "
        "(redis://… or rediss://…); that of a `callflow up` stands in the file .callflow/url while "
        "it runs"
    )
