"""What a demo is asked to show. Imports nothing, so that the command line can offer it at once."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path


class Kill(StrEnum):
    """What is done to which process."""

    WORKER = "worker"
    """SIGKILL for the worker and all its children, as by a power cut."""
    CHILD = "child"
    """SIGKILL for the one pool process that runs a turn."""
    FREEZE = "freeze"
    """SIGSTOP, and SIGCONT when its calls have been taken over: it goes on where it stood."""
    WEB = "web"
    """SIGKILL for a process that callers are talking to."""
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Plan:
    """What is shown. `every_s`: seconds between kills; `pace_s`: before each sentence."""

    calls: int = 12
    turns: int = 4
    kill: Kill = Kill.WORKER
    every_s: float = 1.0
    seed: int = 1
    workers: int = 3
    slots: int = 4
    pace_s: float = 0.3
    speed: float = 4.0
    """How many times faster than life everybody speaks; silence is real time."""
    backlog: int = 0
    """Turns of further calls that wait in the queue from the start, so that takeovers must pass
    them."""
    logs: Path | None = None
    """Where the processes' logs stay; None: they go with the demo."""
