"""Keeps the leases of one process alive, and says when one of them may no longer be trusted.

One thread beats for all turns of its process in one round trip, and holds the open subscription by
which the process is known to live. It also watches the turns' deadlines, and that of a worker which
is told to end: a turn that is stuck goes on beating otherwise, and nobody would ever come for its
caller.

The process's own clock is used for one thing only: to stop sooner than the server would make us.
"""

from __future__ import annotations

import logging
import mmap
import os
import re
import secrets
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from callflow import logs
from callflow.call.limits import Timing
from callflow.errors import LeaseLost, StoreError
from callflow.store.calls import CallStore
from callflow.store.presence import Presence
from callflow.store.result import Lease, Result

log = logging.getLogger(__name__)

START_TIMEOUT_S = 2.0

STUCK_AFTER_S = 5.0
"""A turn that was told to stop so long ago will not: it is wedged for good."""

STUCK_STATUS = 70
"""Exit status of a process that ends itself because it is of no more use, for a wedged turn or for
its own heartbeat: EX_SOFTWARE of sysexits.h."""

SETTLE_WITHIN_S = 4.0
"""So long a turn that was given up waits for its call to be given back: as long as the server may
take for one answer, twice."""

DEADLINE = "deadline"
"""Why a turn is given back: it has taken too long."""

DRAINED = "drained"
"""Why a turn is given back: its worker ends, and it would take longer than the worker may."""


def worker_name(node: str) -> str:
    """A name for this process that no other process has had: `node/pid-nonce`."""
    plain = re.sub(r"[^A-Za-z0-9@._-]", "_", node)
    return f"{plain}/{os.getpid()}-{secrets.token_hex(2)}"


class Drain:
    """Says to a worker's parent, and to every child forked from it, that the worker is to end.

    It is a page that they share. A child would hear of it in no other way but a signal, and that
    breaks into its turn wherever that is, while Celery's own soft shutdown holds the parent up for
    all of its time, however soon the turns are done, and knows no pool of threads.
    """

    def __init__(self, within_s: float) -> None:
        """`within_s`: how long turns may go on once it has begun."""
        self._within_s = within_s
        self._page = mmap.mmap(-1, mmap.PAGESIZE)

    def begin(self) -> None:
        """From now on no turn is begun. Twice, the first stands; a signal handler may call it."""
        if not self.begun:
            # The clock is the machine's: a child reads the same.
            self._page[:8] = struct.pack("d", time.monotonic() + self._within_s)

    @property
    def begun(self) -> bool:
        """True when the worker was told to end."""
        return self._until != 0

    @property
    def left_s(self) -> float:
        """How long turns may still go on, s: what was given, before it has begun."""
        return self._until - time.monotonic() if self.begun else self._within_s

    @property
    def _until(self) -> float:
        (until,) = struct.unpack("d", self._page[:8])
        return float(until)


@dataclass(eq=False, slots=True)
class LeaseGuard:
    """Guards one turn's lease; times are on this process's monotonic clock, s."""

    lease: Lease
    beaten_at: float
    trusted_s: float
    deadline_at: float
    hand_back: Callable[[Lease, str], None]
    stop: threading.Event = field(default_factory=threading.Event)
    """Set when the lease is no longer ours: whoever waits on the turn's behalf gives up."""
    lost: str | None = None
    lost_at: float = 0.0
    due_back: str | None = None
    """Why it is to be handed back, until the server has taken it."""
    handed_back: threading.Event = field(default_factory=threading.Event)
    """Set when the server has taken it back."""

    def revoke(self, reason: str, *, due_back: str | None = None) -> None:
        """Say that the lease is gone. The first reason stands."""
        if self.lost is None:
            self.lost, self.lost_at, self.due_back = reason, time.monotonic(), due_back
        self.stop.set()

    def check(self) -> None:
        """Raise LeaseLost unless we may still believe that the call is ours."""
        if self.lost is None and time.monotonic() - self.beaten_at > self.trusted_s:
            self.revoke("no beat was accepted for too long")
        if self.lost is not None:
            raise LeaseLost(self.lease.call_sid, self.lease.fence, self.lost)


class Heartbeat:
    """One per process that runs turns. Threads may share it; a forked child needs its own."""

    def __init__(
        self, store: CallStore, presence: Presence, worker: str, drain: Drain | None = None
    ) -> None:
        self.worker = worker
        self.drain = drain or Drain(0.0)
        self._store = store
        self._presence = presence
        self._timing: Timing = store.timing
        self._guards: set[LeaseGuard] = set()
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
                self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)
                self._thread.start()
        self._present.wait(START_TIMEOUT_S)

    def close(self) -> None:
        """Stop beating and hang up: from here on this process counts as gone."""
        self._closed.set()
        if self._thread is not None:
            self._thread.join()

    @contextmanager
    def guard(
        self, lease: Lease, since: float, hand_back: Callable[[Lease, str], None]
    ) -> Iterator[LeaseGuard]:
        """Beat for `lease` while the block runs. `since`: monotonic time before the claim, s.

        When the turn has to be given up, `hand_back(lease, reason)` is called from the heartbeat's
        thread: once, and again at each beat while it raises StoreError.
        """
        guard = LeaseGuard(
            lease,
            beaten_at=since,
            trusted_s=self._timing.trusted_ms / 1000,
            deadline_at=since + self._timing.turn_ms / 1000,
            hand_back=hand_back,
        )
        with self._lock:
            self._guards.add(guard)
        try:
            yield guard
        finally:
            if guard.due_back is not None:
                # A worker that ends does so as soon as its turns have.
                guard.handed_back.wait(SETTLE_WITHIN_S)
            with self._lock:
                self._guards.discard(guard)

    def _run(self) -> None:
        try:
            with logs.bound(worker=self.worker):
                self._beat_until_closed()
        except BaseException:
            if sys.is_finalizing():
                raise
            # A process that does not beat takes calls and loses each of them, for as long as it
            # lives. Its end gives them to others within the second, and whoever started it sees it.
            log.critical("%s ends itself: its heartbeat has died", self.worker, exc_info=True)
            os._exit(STUCK_STATUS)

    def _beat_until_closed(self) -> None:
        interval_s = self._timing.beat_ms / 1000
        silent = False
        while not self._closed.is_set():
            began = time.monotonic()
            try:
                try:
                    self.beat()
                finally:
                    # In a cluster it is at a node of its own, which may live on alone.
                    self._presence.keep()
                self._present.set()
                silent = False
            except StoreError as error:
                # Nothing to do but try again: each lease that is not renewed is trusted no more,
                # and every turn that goes on without the server fails at its own next write.
                if not silent:
                    log.warning("%s cannot beat: %s", self.worker, error)
                silent = True
                self._present.set()
            self._closed.wait(max(0.0, began + interval_s - time.monotonic()))
        self._presence.close()

    def beat(self) -> None:
        """One beat for all leases, in one round trip. Raises StoreError when a part of it did not
        arrive, after all that could be done."""
        now = time.monotonic()
        with self._lock:
            guards = list(self._guards)
        stuck = (one.lost and now - one.lost_at > STUCK_AFTER_S for one in guards)
        if self._expendable and any(stuck):
            # The turn was given away and told to stop, and still sits in the only slot we are.
            os._exit(STUCK_STATUS)
        failures = list(self._hand_back(guards, now))
        living = [guard for guard in guards if guard.lost is None]
        results = self._store.beat(*(guard.lease for guard in living))
        for guard, result in zip(living, results, strict=True):
            match result:
                case Result.OK:
                    guard.beaten_at = now
                case StoreError():
                    failures.append(result)
                case _:
                    guard.revoke(f"the server says: {result}")
        if failures:
            raise failures[0]

    def _hand_back(self, guards: list[LeaseGuard], now: float) -> Iterator[StoreError]:
        """Give up turns that take too long; why one could not be handed back: the next beat tries
        again."""
        drained = self.drain.begun and self.drain.left_s <= 0
        for guard in guards:
            if now >= guard.deadline_at:
                guard.revoke("the turn's deadline has passed", due_back=DEADLINE)
            elif drained:
                guard.revoke("the worker ends", due_back=DRAINED)
        for guard in guards:
            if guard.due_back is not None:
                try:
                    guard.hand_back(guard.lease, guard.due_back)
                except StoreError as error:
                    yield error
                    continue
                guard.due_back = None
                guard.handed_back.set()
