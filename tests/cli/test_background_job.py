"""A command that a shell has started in the background can be interrupted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from tests.cli.running import store_at

IGNORED = "trap '' INT; exec \"$0\" -m callflow calls watch --interval 0.05"
"""As `callflow … &` in a script: the shell has the command ignore SIGINT."""


@pytest.mark.leaves_live_calls
def test_what_was_started_with_ctrl_c_ignored_ends_by_it(redis_url: str) -> None:
    store_at(redis_url).open("CA1")
    with subprocess.Popen(
        ["/bin/sh", "-c", IGNORED, sys.executable],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "CALLFLOW_REDIS_URL": redis_url},
    ) as watching:
        assert watching.stdout is not None
        assert b"CA1" in watching.stdout.readline()
        watching.send_signal(signal.SIGINT)
        try:
            assert watching.wait(10) != 0
        finally:
            watching.kill()
