"""Starts the parts of a local stack again when they die, and says so.

A part that dies soon after its start is given longer and longer pauses: a mistake in the settings
must not become a loop that heats the machine.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from callflow.errors import CallflowError
from callflow.lab.server.embedded import EmbeddedServer
from callflow.lab.stack import StackProcess

SOON_S = 5.0
"""A part that lived for less has not worked at all."""

LONGEST_PAUSE_S = 30.0


class Part(Protocol):
    """Something that should be running."""

    @property
    def name(self) -> str:
        """What people know it by."""

    def alive(self) -> bool:
        """True while it runs."""

    def start(self) -> None:
        """Run it. Raises CallflowError when that cannot be done."""

    def obituary(self) -> str:
        """How it died, in a few words."""


class ServerPart:
    """The embedded server: it comes back with its data, its port and its password."""

    name = "server"

    def __init__(self, server: EmbeddedServer) -> None:
        self._server = server

    def alive(self) -> bool:
        """True while the server process lives."""
        return self._server.alive

    def start(self) -> None:
        """Start it where it was."""
        self._server.restart()

    def obituary(self) -> str:
        """It cannot say how it died: it was not our own child."""
        return "ended"


class ProcessPart:
    """A process of the local stack."""

    def __init__(self, name: str, launch: Callable[[], StackProcess]) -> None:
        self.name = name
        self._launch = launch
        self.process = launch()

    def alive(self) -> bool:
        """True while the process itself lives; its own children are its own business."""
        return self.process.alive

    def start(self) -> None:
        """Start another one under the same name."""
        self.process = self._launch()

    def obituary(self) -> str:
        """By which signal or with which code, and where to read on."""
        code = self.process.popen.returncode
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"
        return f"{how} (log: {self.process.log})"


@dataclass(slots=True)
class _Charge:
    part: Part
    started_at: float
    failures: int = 0
    again_at: float | None = None
    """When it will be started again; None while it is not known to be dead."""


@dataclass(slots=True)
class Supervisor:
    """Looks after parts; `look` does one round and is called several times a second."""

    _charges: list[_Charge] = field(default_factory=list)

    def add(self, part: Part, now: float) -> None:
        """Look after a part that has just been started, at monotonic `now`, s."""
        self._charges.append(_Charge(part, now))

    def look(self, now: float) -> Iterator[str]:
        """Start what has died (monotonic `now`, s); one sentence for each thing that happened."""
        for charge in self._charges:
            if charge.part.alive():
                continue
            if charge.again_at is None:
                yield self._mourn(charge, now)
            if charge.again_at is not None and now >= charge.again_at:
                yield self._revive(charge, now)

    def _mourn(self, charge: _Charge, now: float) -> str:
        charge.failures = charge.failures + 1 if now - charge.started_at < SOON_S else 0
        pause_s = min(LONGEST_PAUSE_S, 2.0 ** (charge.failures - 1)) if charge.failures else 0.0
        charge.again_at = now + pause_s
        told = f"{charge.part.name} {charge.part.obituary()}"
        return f"{told}; next try in {pause_s:.0f} s" if pause_s else told

    def _revive(self, charge: _Charge, now: float) -> str:
        charge.started_at, charge.again_at = now, None
        try:
            charge.part.start()
        except CallflowError as error:
            return f"{charge.part.name} does not start: {error}"
        return f"{charge.part.name} was started again"
