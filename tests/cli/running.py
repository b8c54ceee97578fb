"""Runs the command line for tests: inside this process, or as a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from callflow import bootstrap
from callflow.call.limits import Timing
from callflow.cli import app
from callflow.redis.client import connect
from callflow.redis.scripts import Scripts
from callflow.store.calls import CallStore

TIMING = Timing(
    beat_ms=250,
    stale_ms=10_000,
    owed_ms=2_500,
    turn_ms=8_000,
    abandoned_ms=3_600_000,
    completed_ttl_ms=60_000,
)


def store_at(url: str) -> CallStore:
    """The calls on a server, for what a test does to them beside the command line."""
    return CallStore(Scripts(connect(url)), TIMING)


def _forget() -> None:
    bootstrap.forget()
    bootstrap.library.cache_clear()  # Kept by `forget`, since a real process has one folder.


class Ran:
    """What a command said, and how it ended."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code = code
        self.out = out
        self.err = err

    @property
    def json(self) -> Any:
        """stdout as one JSON value."""
        return json.loads(self.out)

    @property
    def events(self) -> list[dict[str, Any]]:
        """stdout as JSON lines."""
        return [json.loads(line) for line in self.out.splitlines()]

    def failed_with(self, sentence: str) -> None:
        """Fail unless it ended with 1 and one plain sentence that has `sentence` in it."""
        assert (self.code, self.out) == (1, ""), self
        assert sentence in self.err
        assert "Traceback" not in self.err

    def __repr__(self) -> str:
        return f"exit {self.code}\n--- stdout\n{self.out}\n--- stderr\n{self.err}"


class Cli:
    """The command line with an environment of its own: no server is set until a test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
        self._monkeypatch = monkeypatch
        self.home = home
        for name in [name for name in os.environ if name.startswith("CALLFLOW_")]:
            if not name.startswith("CALLFLOW_TEST_"):
                monkeypatch.delenv(name)
        # First set and then removed: so that what a command sets is taken back after the test.
        monkeypatch.setenv("CALLFLOW_REDIS_URL", "")
        monkeypatch.setenv("CALLFLOW_RECORDS_URL", "")
        self.set("CALLFLOW_DATA_DIR", str(home / "data"))
        # No test waits for an index to be built.
        self.set("CALLFLOW_RETRIEVAL", "lexical")

    def set(self, name: str, value: str) -> None:
        """Set a variable of the environment."""
        self._monkeypatch.setenv(name, value)

    def run(self, *args: str, said: str | bytes = b"") -> Ran:
        """Run a command in this process; no other one, and no worker, hears of it."""
        _forget()
        try:
            done = CliRunner().invoke(app, args, input=said)
        finally:
            _forget()
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        return Ran(done.exit_code, done.stdout, done.stderr)

    def start(
        self, *args: str, out: int = subprocess.PIPE, redirected: str = ""
    ) -> subprocess.Popen[bytes]:
        """Start a command as a process; its pipes are the caller's, but for `out` if given, and
        for what a shell is told to do with them."""
        command = [sys.executable, "-m", "callflow", *args]
        return subprocess.Popen(
            ["sh", "-c", f'exec "$@" {redirected}', "sh", *command],
            stdin=subprocess.PIPE,
            stdout=out,
            stderr=subprocess.PIPE if out == subprocess.PIPE else subprocess.STDOUT,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
            cwd=self.home,
        )

    def finish(self, started: subprocess.Popen[bytes], said: bytes = b"") -> Ran:
        """Say something on stdin, close it, and wait for the end."""
        out, err = started.communicate(said, timeout=30)
        return Ran(started.returncode, out.decode(), err.decode())

    def call(self, *args: str, said: bytes = b"") -> Ran:
        """`callflow call` from its start to its end, as a process."""
        return self.finish(self.start("call", *args), said)
