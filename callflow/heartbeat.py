"""Keeps the leases of one process alive, and says when one of them may no longer be trusted.

One thread beats for all turns of its process in one round trip, and holds the open subscription by
which the process is known to live. It also watches the turns' deadlines: a turn that is stuck goes
on beating otherwise, and nobody would ever come for its caller.

The process's own clock is used for one thing only: to stop sooner than the server would make us.
"""

from __future__ import annotations

import os
import re
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from callflow.call.deadline import Timing
from callflow.errors import LeaseLost, StoreError
from callflow.store.calls import CallStore
from callflow.store.outcome import Beat, Lease
from callflow.store.presence import Presence

START_TIMEOUT_S = 2.0

STUCK_AFTER_S = 5.0
"""A turn that was told to stop so long ago will not: it is wedged for good."""

STUCK_STATUS = 70
"""Exit status of a pool process that ends itself for a wedged turn: EX_SOFTWARE of sysexits.h."""


def worker_name(node: str) -> str:
    """A name for this process that no other process has had: `node/pid-nonce`."""
    plain = re.sub(r"[^A-Za-z0-9@._-]", "_", node)
    return f"{plain}/{os.getpid()}-{secrets.token_hex(2)}"


@dataclass(eq=False, slots=True)
class Hold:
    """One turn's hold on its lease; times are on this process's monotonic clock, s."""

    lease: Lease
    beaten_at: float
    trusted_s: float
    deadline_at: float
    on_wedged: Callable[[Lease], None]
    stop: threading.Event = field(default_factory=threading.Event)
    """Set when the lease is no longer ours: whoever waits on the turn's behalf gives up."""
    lost: str | None = None
    lost_at: float = 0.0

    def lose(self, reason: str) -> None:
        """Say that the lease is gone. The first reason stands."""
        if self.lost is None:
            self.lost = reason
            self.lost_at = time.monotonic()
        self.stop.set()

    def check(self) -> None:
        """Raise LeaseLost unless we may still believe that the call is ours."""
        if self.lost is None and time.monotonic() - self.beaten_at > self.trusted_s:
            self.lose("no beat was accepted for too long")
        if self.lost is not None:
            raise LeaseLost(self.lease.call_sid, self.lease.fence, self.lost)


class Heartbeat:
    """One per process that runs turns. Threads may share it; a forked child needs its own."""

    def __init__(self, store: CallStore, presence: Presence, worker: str) -> None:
        self.worker = worker
        self._store = store
        self._presence = presence
        self._timing: Timing = store.timing
        self._holds: set[Hold] = set()
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._present = threading.Event()
        self._thread: threading.Thread | None = None
        self._expendable = False

    def start(self, *, expendable: bool = False) -> None:
        """Begin to beat, and be present, before the first claim. Starting twice does nothing.

        `expendable`: this process runs one turn at a time and its parent replaces it, so when a
        turn does not stop it ends itself.
        """
        self._expendable = self._expendable or expendable
        if self._present.is_set():
            return
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._beat_for_ever, name="heartbeat", daemon=True
                )
                self._thread.start()
        self._present.wait(START_TIMEOUT_S)

    def close(self) -> None:
        """Stop beating and hang up: from here on this process counts as gone."""
        self._closed.set()
        if self._thread is not None:
            self._thread.join()

    @contextmanager
    def keep(
        self, lease: Lease, since: float, on_wedged: Callable[[Lease], None]
    ) -> Iterator[Hold]:
        """Beat for `lease` while the block runs. `since`: monotonic time before the claim, s.

        Past the turn's deadline `on_wedged(lease)` is called once, from the heartbeat's thread.
        """
        hold = Hold(
            lease,
            beaten_at=since,
            trusted_s=self._timing.trusted_ms / 1000,
            deadline_at=since + self._timing.turn_ms / 1000,
            on_wedged=on_wedged,
        )
        with self._lock:
            self._holds.add(hold)
        try:
            yield hold
        finally:
            with self._lock:
                self._holds.discard(hold)

    def _beat_for_ever(self) -> None:
        interval_s = self._timing.beat_ms / 1000
        while not self._closed.is_set():
            began = time.monotonic()
            try:
                self._presence.keep()
                self._present.set()
                self.beat()
            except StoreError:
                # Nothing to do but try again: each hold that is not renewed stops trusting itself,
                # and every turn that goes on without the server fails at its own next write.
                self._present.set()
            self._closed.wait(max(0.0, began + interval_s - time.monotonic()))
        self._presence.close()

    def beat(self) -> None:
        """One beat for all leases, in one round trip. Raises StoreError when it did not arrive."""
        now = time.monotonic()
        with self._lock:
            stuck = [h for h in self._holds if h.lost and now - h.lost_at > STUCK_AFTER_S]
            holds = [hold for hold in self._holds if hold.lost is None]
        if stuck and self._expendable:
            # The turn was given away and told to stop, and still sits in the only slot we are.
            os._exit(STUCK_STATUS)
        for hold in [hold for hold in holds if now >= hold.deadline_at]:
            hold.lose("the turn's deadline has passed")
            hold.on_wedged(hold.lease)
        living = [hold for hold in holds if hold.lost is None]
        for hold, word in zip(
            living, self._store.beat(*(hold.lease for hold in living)), strict=True
        ):
            if word is Beat.BEATEN:
                hold.beaten_at = now
            else:
                hold.lose(f"the server says: {word}")
