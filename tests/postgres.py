"""A PostgreSQL server of one's own, for the tests of the store that lasts."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

from callflow.lab.stack import free_port
from tests.needs import missing
from tests.waiting import wait_until

_NOBODY = "nobody"
"""PostgreSQL refuses to run as root."""


def _as_whom() -> str | None:
    return _NOBODY if os.geteuid() == 0 else None


@dataclass
class Postgres:
    """One server; it may be killed, frozen and started again."""

    folder: Path
    port: int
    popen: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Where records find it."""
        return f"postgresql+psycopg://callflow@127.0.0.1:{self.port}/postgres"

    def connect(self) -> psycopg.Connection:
        """A connection beside callflow's."""
        url = self.url.replace("+psycopg", "")
        return psycopg.connect(url, connect_timeout=2, autocommit=True)

    def start(self) -> None:
        """Start it, and wait until it answers."""
        self.popen = subprocess.Popen(
            [
                *("postgres", "-D", str(self.folder / "data"), "-p", str(self.port)),
                *("-c", "listen_addresses=127.0.0.1", "-k", str(self.folder)),
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            user=_as_whom(),
            start_new_session=True,
        )
        wait_until(self._answers, "PostgreSQL never answered", within_s=30)

    def _answers(self) -> bool:
        try:
            self.connect().close()
        except psycopg.OperationalError:
            return False
        return True

    def _signal(self, number: signal.Signals) -> None:
        assert self.popen is not None
        os.killpg(self.popen.pid, number)

    def kill(self) -> None:
        """Pull its plug: the server and all its processes."""
        if self.popen is not None:
            self.thaw()
            # Its children have groups of their own: QUIT has it end them at once, as a crash does.
            self.popen.send_signal(signal.SIGQUIT)
            self.popen.wait(20)
            self.popen = None

    def freeze(self) -> None:
        """Stop all its processes where they stand: connections stay open, and nobody answers."""
        self._each(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let them go on."""
        self._each(signal.SIGCONT)

    def _each(self, number: signal.Signals) -> None:
        assert self.popen is not None
        os.kill(self.popen.pid, number)
        children = Path(f"/proc/{self.popen.pid}/task/{self.popen.pid}/children")
        for pid in children.read_text().split():
            os.kill(int(pid), number)


@contextmanager
def postgres() -> Iterator[Postgres]:
    """A fresh server, ended with the block; skips or fails the test where there is none."""
    if shutil.which("initdb") is None or shutil.which("postgres") is None:
        missing("PostgreSQL", "install postgresql, with initdb and postgres on the path")
    folder = Path(tempfile.mkdtemp(prefix="callflow-postgres-"))
    server = Postgres(folder, free_port())
    try:
        if _as_whom() is not None:
            shutil.chown(folder, _NOBODY)
        subprocess.run(
            ["initdb", "-D", str(folder / "data"), "-U", "callflow", "-A", "trust", "-E", "UTF8"],
            check=True,
            capture_output=True,
            user=_as_whom(),
            env={**os.environ, "LC_ALL": "C.UTF-8"},
        )
        server.start()
        yield server
    finally:
        server.kill()
        shutil.rmtree(folder, ignore_errors=True)
