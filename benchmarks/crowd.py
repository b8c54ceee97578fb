"""A crowd of callers: so many calls at once, each of so many turns, and how long every turn took.

The same for every contestant: what differs is how a caller opens, speaks, hears and hangs up.
"""

from __future__ import annotations

import asyncio
import resource
import time
import uuid
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Protocol

SAID = "We are stuck in the lift between two floors, please send one"
"""60 characters, as they are said in every turn; the reply is twice that."""

TURN_TIMEOUT_S = 120.0
"""A turn that has had no reply by then counts as failed, and its call is given up."""


class Caller(Protocol):
    """One contestant's client: what a process that meets callers does. Used by all calls at once.

    Everything a call waits for is awaited, so that one process can hold hundreds of them.
    """

    async def open(self, call_sid: str) -> None:
        """A call was received."""

    async def turn(self, call_sid: str, turn: int, text: str) -> str:
        """Say `text` and return the reply."""

    async def end(self, call_sid: str) -> None:
        """Hang up."""


class Connect(Protocol):
    """Makes a Caller for the server behind `url`; `calls` is the most that will talk at once."""

    def __call__(self, url: str, calls: int) -> AbstractAsyncContextManager[Caller]: ...


@dataclass(slots=True)
class Crowd:
    """What one crowd saw. Times are in seconds; `wall_s` runs from first opening to last end."""

    wall_s: float = 0.0
    client_cpu_s: float = 0.0
    failed: int = 0
    turn_s: list[float] = field(default_factory=list)


async def talk(caller: Caller, calls: int, turns: int, batches: int) -> Crowd:
    """`calls` calls at once, so many batches one after the other."""
    crowd = Crowd()
    cpu = _own_cpu_s()
    began = time.perf_counter()
    for _ in range(batches):
        await asyncio.gather(*(_call(caller, turns, crowd) for _ in range(calls)))
    crowd.wall_s = time.perf_counter() - began
    crowd.client_cpu_s = _own_cpu_s() - cpu
    return crowd


async def _call(caller: Caller, turns: int, crowd: Crowd) -> None:
    call_sid = f"CA{uuid.uuid4().hex}"
    await caller.open(call_sid)
    for turn in range(1, turns + 1):
        began = time.perf_counter()
        try:
            async with asyncio.timeout(TURN_TIMEOUT_S):
                reply = await caller.turn(call_sid, turn, SAID)
        except Exception as error:
            if not crowd.failed:  # the others fail for the same reason
                print(f"{call_sid} turn {turn}: {error!r}", flush=True)
            reply = None
        if reply != SAID + SAID:
            crowd.failed += turns + 1 - turn
            return
        crowd.turn_s.append(time.perf_counter() - began)
    await caller.end(call_sid)


def _own_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
