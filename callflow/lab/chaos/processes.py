"""The processes of a run, and who starts them again: what an orchestrator does, and no more.

It also notices what falls without having been struck. Use it from one thread.
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Final

from callflow.lab.chaos.plan import Plan
from callflow.lab.stack import LocalStack, StackProcess

LOOK_EVERY_S: Final = 0.2

WATCHDOG: Final = "watchdog"

_LAST_LINES: Final = 12
_BANNER: Final = re.compile(r" *[-*.]")


@dataclass
class Processes:
    """The stack by name: `w1` and so on, `watchdog`, `beat1`, `web1`."""

    stack: LocalStack
    plan: Plan
    ports: Mapping[str, int]
    """Of the web processes."""
    ways: Mapping[str, str]
    """Where the calls are, for each worker."""
    clocks: Path
    """Where the clocks of processes are set: see `clock/sitecustomize.py`."""
    fallen: list[str] = field(default_factory=list)
    """What ended, or never came back, although nobody had struck it, with its last words."""
    _struck: set[str] = field(default_factory=set)

    @property
    def workers(self) -> tuple[str, ...]:
        """The names of those that run turns."""
        return self.plan.worker_names

    @property
    def beats(self) -> list[str]:
        """The names of the schedulers."""
        return [f"beat{number}" for number in range(1, self.plan.beats + 1)]

    @property
    def names(self) -> list[str]:
        """All of them."""
        return [*self.workers, WATCHDOG, *self.beats, *self.ports]

    def start(self, name: str) -> StackProcess:
        """Start one, for the first time or again."""
        if name in self.workers:
            shared = self.stack.env
            self.stack.env = {**shared, "CALLFLOW_REDIS_URL": self.ways[name]}
            try:
                return self.stack.start_worker(name, slots=self.plan.slots)
            finally:
                self.stack.env = shared
        if name == WATCHDOG:
            return self.stack.start_watchdog(name)
        if name in self.ports:
            return self.stack.start_web(self.ports[name], name)
        return self.stack.start_beat(name)

    def __getitem__(self, name: str) -> StackProcess:
        return self.stack.processes[name]

    @contextmanager
    def struck(self, *names: str) -> Iterator[None]:
        """Within this block these end because they were struck, and whoever struck them starts
        them again."""
        self._struck.update(names)
        yield
        self._struck.difference_update(names)

    def set_clock(self, name: str, ahead_s: float) -> None:
        """Let the wall clock of a process and its children jump."""
        (self.clocks / str(self[name].pid)).write_text(f"{ahead_s}")

    async def watch(self) -> None:
        """Until cancelled: notice what falls, and start it again."""
        while True:
            for name in self.names:
                if name not in self._struck and not self[name].alive:
                    code = self[name].popen.returncode
                    self.fallen.append(f"{name} ended by itself ({code}): {self.words(name)}")
                    self.start(name)
            await asyncio.sleep(LOOK_EVERY_S)

    def give_up(self, name: str, why: str) -> None:
        """It is alive and of no use: that counts as fallen. Start another in its place."""
        self.fallen.append(f"{name} {why}: {self.words(name)}")
        self[name].kill()
        self.start(name)

    def words(self, name: str) -> str:
        """The end of its log, without the banner with which a worker begins."""
        lines = self[name].last_lines(_LAST_LINES).splitlines()
        said = [line for line in lines if line.strip() and not _BANNER.match(line)]
        return "\n".join(said) or "it said nothing"


def node(name: str) -> str:
    """A worker as the journals name it."""
    return f"{name}@{socket.gethostname()}"


def clock_env(clocks: Path) -> dict[str, str]:
    """What processes need in their environment so that their clocks can be set."""
    folder = str(resources.files("callflow.lab.chaos") / "clock")
    path = os.environ.get("PYTHONPATH")
    return {
        "CHAOS_CLOCKS": str(clocks),
        "PYTHONPATH": folder if not path else f"{folder}{os.pathsep}{path}",
    }
