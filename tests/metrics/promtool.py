"""Runs promtool, Prometheus' own linter."""

from __future__ import annotations

import shutil
import subprocess

from tests.needs import missing


def promtool(*arguments: str, said: bytes = b"") -> str:
    """Run it with `said` on its standard input, fail with all that it says where it finds fault,
    and return that; skip where it is not installed."""
    binary = shutil.which("promtool")
    if binary is None:
        missing("promtool", "apt-get install prometheus")
    done = subprocess.run([binary, *arguments], input=said, capture_output=True, check=False)
    told = (done.stdout + done.stderr).decode()
    assert done.returncode == 0, told
    return told
