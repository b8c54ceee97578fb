"""Holds the parts that every call of one web process shares, and how long each may be asked."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import ParamSpec, TypeVar

from callflow.handover import Ringing
from callflow.intake import Intake
from callflow.settings import Settings
from callflow.sites.directory import Sites
from callflow.store.calls import CallStore
from callflow.store.reader import CallReader
from callflow.store.replies import Replies
from callflow.web.answers import Addresses
from callflow.web.executor import StoreExecutor
from callflow.web.open_lines import OpenLines

P = ParamSpec("P")
T = TypeVar("T")

PHRASES = 2
"""Holding phrases that a caller hears before a human is fetched."""

LOOK_WITHIN_S = 0.5
"""A look into the record takes some milliseconds, and a caller waits in silence meanwhile."""

DUE_S = 0.15
"""The same when a phrase is due already, after 2.5 s."""

ASKED_WITHIN_S = 2.0
"""For so long the store may be asked in vain: an answer that does not come, a new connection, and
another answer. After that the caller must hear something."""


@dataclass(frozen=True, slots=True)
class WebContext:
    """Everything that a web process has. Built once, when it starts."""

    settings: Settings
    sites: Sites
    intake: Intake
    ringing: Ringing
    reader: CallReader
    replies: Replies
    executor: StoreExecutor
    lines: OpenLines
    addresses: Addresses

    @property
    def store(self) -> CallStore:
        """The store of calls; its methods block."""
        return self.intake.store

    @property
    def can_ring(self) -> bool:
        """True when humans can be rung at all."""
        return self.ringing.telephone is not None

    async def run_soon(self, question: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """What the store answers while a caller must hear something. Raises StoreError; where it
        takes longer than DUE_S, too, and then it may be done all the same."""
        return await self.executor.limit(DUE_S, self.executor.run(question, *args, **kwargs))

    async def is_full(self) -> bool:
        """True when as many calls are open as may be. Raises StoreError."""
        counts = await self.executor.run(self.reader.counts)
        return counts["active"] >= self.settings.open_calls_most


def now_ms() -> int:
    """This machine's clock, for how long an outage has lasted: machines agree to a second."""
    return int(time.time() * 1000)
