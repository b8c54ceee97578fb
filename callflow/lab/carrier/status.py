"""Status callbacks of one line: numbered, in order unless one is overtaken, best effort.

The application's answers are not read, and nobody waits: a call goes on whatever becomes of them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Final

from callflow.lab.carrier.background import Background
from callflow.lab.carrier.failure import ApplicationFailed
from callflow.lab.carrier.form import Identity
from callflow.lab.carrier.mischief import Fate, Fates
from callflow.lab.carrier.network import Address
from callflow.lab.carrier.report import CallReport
from callflow.lab.carrier.webhook import Webhooks

FINAL: Final = frozenset({"completed", "busy", "failed", "no-answer", "canceled"})

EVENTS: Final = {"initiated": "initiated", "ringing": "ringing", "in-progress": "answered"}
"""What a status is called where events are chosen; all final ones are `completed`."""

ALL: Final = ("initiated", "ringing", "answered", "completed")

_Callback = tuple[dict[str, str], Fate]


class StatusCallbacks:
    """Tells `address` of the chosen `events`."""

    def __init__(
        self,
        webhooks: Webhooks,
        background: Background,
        identity: Identity,
        report: CallReport,
        fates: Fates,
        address: Address | None,
        events: Collection[str] = ALL,
    ) -> None:
        self._webhooks = webhooks
        self._background = background
        self._identity = identity
        self._report = report
        self._fates = fates
        self._address = address
        self._events = frozenset(events)
        self._number = 0
        self._queue: asyncio.Queue[_Callback | None] = asyncio.Queue()
        self._sending: asyncio.Task[None] | None = None
        self._picked_up_at: float | None = None

    def send(self, status: str) -> None:
        """The line has come to `status`; what is told later is sent later."""
        if status == "in-progress":
            self._picked_up_at = time.monotonic()
        event = "completed" if status in FINAL else EVENTS[status]
        if self._address is None:
            return
        if event in self._events:
            fields = self._fields(status)
            fate = self._fates.next(self._address.path, status, final=status in FINAL)
            self._queue.put_nowait((fields, fate))
        if status in FINAL:
            self._queue.put_nowait(None)
        if self._sending is None:
            self._sending = self._background.start(self._send_all(self._address))

    async def sent(self) -> None:
        """Return when the final one has arrived, or has failed to."""
        if self._sending is not None:
            await self._sending

    def _fields(self, status: str) -> dict[str, str]:
        fields = self._identity.form(status) | {
            "Timestamp": format_datetime(datetime.now(UTC)),
            "CallbackSource": "call-progress-events",
            "SequenceNumber": str(self._number),
        }
        self._number += 1
        if status in FINAL:
            since = self._picked_up_at
            lasted_s = 0 if since is None else max(1, round(time.monotonic() - since))
            fields |= {"CallDuration": str(lasted_s), "Duration": str(-(-lasted_s // 60))}
        return fields

    async def _send_all(self, address: Address) -> None:
        """Until the last one: in order, but one that is to be overtaken lets the next one pass."""
        held: list[_Callback] = []
        while (callback := await self._queue.get()) is not None:
            fields, fate = callback
            if fate.overtaken and not held and fields["CallStatus"] not in FINAL:
                held.append(callback)
                continue
            for each in (callback, *held):
                await self._send_one(address, *each)
            held = []
        for each in held:
            await self._send_one(address, *each)

    async def _send_one(self, address: Address, fields: dict[str, str], fate: Fate) -> None:
        try:
            await self._webhooks.notify(address, fields, fate)
        except ApplicationFailed as error:
            self._report.failures.append(str(error))
