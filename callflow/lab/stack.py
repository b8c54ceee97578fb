"""The local stack as processes: server, workers, watchdog, beat, Flower; they end with their owner.

For a developer's machine, demos, tests and benchmarks. Every process leads a session of its own,
so that one signal reaches a worker with all its children, as a power cut would.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from callflow.celery import CALLS, WATCHDOG
from callflow.errors import CallflowError

END_TIMEOUT_S = 10.0

FLOWER_AUTH = "FLOWER_BASIC_AUTH"
"""`user:password`; in the environment, since everybody on the machine can read argument lists."""

_GUARDIAN = """
trap : HUP INT TERM
groups=''
while read -r group; do
    [ "$group" != done ] || exit 0
    groups="$groups -$group"
done
[ -z "$groups" ] || kill -s KILL -- $groups 2>/dev/null
"""
"""Reads process groups until the owner's pipe closes, however the owner died, and ends them; the
word `done` means that the owner has ended them itself."""


class FlowerUnguarded(CallflowError):
    """Flower was to be started without a password."""

    def __init__(self) -> None:
        super().__init__(
            f"Flower lets anybody in who reaches its port, and can end workers: set {FLOWER_AUTH} "
            "to user:password before it is started"
        )


def free_port() -> int:
    """A port on loopback that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@dataclass(slots=True)
class StackProcess:
    """One process of the stack, with all its children."""

    name: str
    popen: subprocess.Popen[bytes]
    log: Path
    frozen: bool = False

    @property
    def pid(self) -> int:
        """Its process id, which is also that of its process group."""
        return self.popen.pid

    @property
    def alive(self) -> bool:
        """True while the process itself runs (or is frozen)."""
        return self.popen.poll() is None

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the process and all its children; a dead one is left alone."""
        if self.alive:
            os.killpg(self.pid, number)

    def end(self) -> None:
        """Ask it to end, as a container's manager does: SIGTERM to the parent alone. It drains."""
        if self.alive:
            self.popen.terminate()

    def kill(self) -> None:
        """Pull the plug: SIGKILL for the process and all its children."""
        self.send(signal.SIGKILL)
        self.popen.wait()

    def freeze(self) -> None:
        """Stop it where it stands, as a paused machine is stopped."""
        self.send(signal.SIGSTOP)
        self.frozen = True

    def thaw(self) -> None:
        """Let it go on, unaware that time has passed."""
        self.send(signal.SIGCONT)
        self.frozen = False

    def last_lines(self, lines: int = 20) -> str:
        """The end of its log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])


@dataclass
class LocalStack:
    """Starts processes against the servers named in `env`, and ends them all.

    `env`: settings for all of them (`CALLFLOW_…`), over the owner's own environment. Logs go to
    `log_dir`, a file for each process.
    """

    env: Mapping[str, str]
    log_dir: Path
    events: bool = False
    """Workers tell Flower what they do; costs a quarter of their CPU."""
    log_level: str = "WARNING"
    processes: dict[str, StackProcess] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # Killed workers leave their scratch directories behind: they go here, and with the logs.
        self._scratch = self.log_dir / "tmp"
        shutil.rmtree(self._scratch, ignore_errors=True)
        self._scratch.mkdir(parents=True)
        self._guardian = subprocess.Popen(
            ["/bin/sh", "-c", _GUARDIAN],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )

    def start_worker(self, name: str, *, slots: int = 4, pool: str = "prefork") -> StackProcess:
        """A worker that runs turns, takeovers first."""
        return self._worker(name, ",".join(CALLS), "-c", str(slots), "-P", pool)

    def start_watchdog(self, name: str = "watchdog") -> StackProcess:
        """A worker that does nothing but sweep."""
        return self._worker(name, WATCHDOG, "-c", "1", "-P", "solo")

    def start_beat(self, name: str = "beat") -> StackProcess:
        """A scheduler that asks for sweeps."""
        return self._celery(name, "beat", "-l", self.log_level, "--pidfile=")

    def start_web(self, port: int, name: str = "web") -> StackProcess:
        """A process that answers calls, on loopback."""
        command = [sys.executable, "-m", "callflow", "web", f"--port={port}"]
        return self.start(name, [*command, f"--log-level={self.log_level.lower()}"])

    def start_flower(self, port: int, name: str = "flower") -> StackProcess:
        """The Celery dashboard on loopback. Raises FlowerUnguarded without FLOWER_BASIC_AUTH."""
        if ":" not in self.env.get(FLOWER_AUTH, os.environ.get(FLOWER_AUTH, "")):
            raise FlowerUnguarded
        return self._celery(
            name, "flower", "--address=127.0.0.1", f"--port={port}", f"--logging={self.log_level}"
        )

    def stop(self) -> None:
        """End everything: politely, together, and after ten seconds by force. Twice is once."""
        for process in self.processes.values():
            if process.frozen:
                process.thaw()
            process.end()
        for process in self.processes.values():
            try:
                process.popen.wait(END_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
        self._end_guardian()

    def kill(self) -> None:
        """End everything at once, as a power cut does."""
        for process in self.processes.values():
            process.kill()
        self._end_guardian()

    def _end_guardian(self) -> None:
        if self._guardian.poll() is None:
            self._tell_guardian("done")
            self._guardian.wait()

    def _tell_guardian(self, line: str) -> None:
        assert self._guardian.stdin is not None
        self._guardian.stdin.write(f"{line}\n".encode())
        self._guardian.stdin.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _worker(self, name: str, queues: str, *options: str) -> StackProcess:
        events = ("-E",) if self.events else ("--without-heartbeat",)
        return self._celery(
            name,
            *("worker", "-n", f"{name}@%h", "-Q", queues, "-l", self.log_level),
            *("--without-gossip", "--without-mingle", *events, *options),
        )

    def _celery(self, name: str, *arguments: str) -> StackProcess:
        return self.start(name, [sys.executable, "-m", "celery", "-A", "callflow", *arguments])

    def start(self, name: str, command: Sequence[str]) -> StackProcess:
        """Any command as a part of the stack; a name that has died may be used again."""
        log, scratch = self.log_dir / f"{name}.log", {"TMPDIR": str(self._scratch)}
        with log.open("ab") as out:
            popen = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                # People read these logs, from a file.
                env={"CALLFLOW_LOG_FORMAT": "text", **os.environ, **scratch, **self.env},
                start_new_session=True,
            )
        self._tell_guardian(str(popen.pid))
        process = StackProcess(name, popen, log)
        self.processes[name] = process
        return process
