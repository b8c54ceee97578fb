"""Whether this process runs, whether it is to be sent callers, and whether callers are served.

Three questions, since they have three answers:

`/healthz`  The process runs, and its event loop turns: a blocked one answers nothing. 200 always.
`/readyz`   Send it callers? For a load balancer. 503 until the store has taken a write from it, so
            that a process with a wrong address or password, or before a replica, is sent nobody.
            After that 200, whatever is missing: without workers it says holding phrases and has a
            human rung, without the store it puts callers through to one. A balancer that took all
            web processes away in an outage would leave the callers to nobody.
`/health`   Are callers served? For alarms. 503 with the reasons where the store does not answer,
            takes no writes or has too few replicas for them, nobody sweeps, no worker takes calls,
            or this event loop is late.

The last two say the same in their JSON: `store`, `sweeps`, `workers`, `lag_ms` and, where something
is missing, `reason`. None needs a signature, and none tells anything of a call.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from callflow.call.deadline import Timing
from callflow.celery import CALLS
from callflow.errors import StoreError
from callflow.store.leases import Leases
from callflow.store.script import Scripts
from callflow.store.staff import Staff
from callflow.store.vitals import Vitals
from callflow.web.desk import Desk

LOOK_EVERY_S = 0.25
REMEMBERED_S = 10.0
ASK_EVERY_S = 0.3
LATE_MS = 1_000
"""A loop that is so late keeps every caller of this process waiting for as long."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What the store told. `swept`: by whom and how many ms ago."""

    swept: tuple[str, int] | None
    workers: tuple[str, ...]
    replicated: bool
    """As many replicas as are waited for have what is written."""


class Health:
    """Examines what this process needs; one per process."""

    def __init__(self, scripts: Scripts, timing: Timing, desk: Desk) -> None:
        self._leases = Leases(scripts, timing)
        self._vitals = Vitals(scripts)
        self._desk = desk
        self._late_s: deque[float] = deque(maxlen=round(REMEMBERED_S / LOOK_EVERY_S))
        self._one_asks = asyncio.Lock()
        self._asked_at = float("-inf")
        self._found: dict[str, Any] = {}
        self.proven = False
        """True once the store has taken a write from this process."""

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """Measure meanwhile how late the event loop is."""
        watch = asyncio.create_task(self._watch())
        try:
            yield
        finally:
            watch.cancel()

    async def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + LOOK_EVERY_S
            await asyncio.sleep(LOOK_EVERY_S)
            self._late_s.append(loop.time() - due)

    async def examine(self) -> dict[str, Any]:
        """What there is, and as `reason` what is missing. However many ask at once, the store is
        asked by one of them, and not again for a moment: anybody may ask."""
        async with self._one_asks:
            if time.monotonic() - self._asked_at > ASK_EVERY_S:
                self._found = await self._ask()
                self._asked_at = time.monotonic()
            found = dict(self._found)
        reasons = [found["reason"]] if "reason" in found else []
        found["lag_ms"] = lag_ms = round(1000 * max(self._late_s, default=0.0))
        if lag_ms > LATE_MS:
            reasons.append(f"the event loop was late by {lag_ms} ms: too much work for one process")
        if reasons:
            found["reason"] = "; ".join(reasons)
        return found

    async def _ask(self) -> dict[str, Any]:
        try:
            # An errand: that the server takes no writes must keep no caller from reading there.
            seen = await self._desk.errand(self._see)
        except StoreError as error:
            return {"store": str(error), "reason": str(error)}
        self.proven = True
        reasons = []
        if not seen.replicated:
            reasons.append(
                "fewer replicas than CALLFLOW_MIN_REPLICAS have what is written: nothing is "
                "acknowledged, and callers are put through to a human"
            )
        if seen.swept is None:
            reasons.append(
                "nobody has looked for silent workers for a second: start a watchdog worker"
            )
        if not seen.workers:
            reasons.append("no worker takes calls: callers hear holding phrases, and then a human")
        return {
            "store": "takes writes",
            "sweeps": seen.swept and {"by": seen.swept[0], "ms_ago": seen.swept[1]},
            "workers": list(seen.workers),
            **({"reason": "; ".join(reasons)} if reasons else {}),
        }

    def _see(self) -> Seen:
        replicated = self._vitals.prove_writable()
        staff = Staff(self._vitals.call_roll(), {}, CALLS, {}, in_work=0, unclaimed=0)
        serving = tuple(one.node for one in staff.serving)
        return Seen(self._leases.last_sweep(), serving, replicated)


async def healthz(request: Request) -> Response:
    """This process runs."""
    return JSONResponse({"ok": True})


async def readyz(request: Request) -> Response:
    """This process can serve callers, whatever may be missing behind it."""
    examined: Health = request.state.health
    found = await examined.examine()
    return JSONResponse({"ok": examined.proven, **found}, 200 if examined.proven else 503)


async def health(request: Request) -> Response:
    """Callers are served; 503 and the reasons where not."""
    found = await request.state.health.examine()
    served = "reason" not in found
    return JSONResponse({"ok": served, **found}, 200 if served else 503)
