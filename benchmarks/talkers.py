"""Many calls that talk all the time, played by one thread: what a board has to show."""

from __future__ import annotations

import heapq
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from uuid import uuid4

from benchmarks.lines import REPLY, SAID
from callflow.store.calls import CallStore
from callflow.store.result import Claimed, Lease


def stamped(words: str) -> str:
    """Words that tell when they were written: monotonic, ms."""
    return f"at {round(1000 * time.monotonic())} {words}"


@dataclass
class Talkers:
    """All callers and all workers, in a thread: each call speaks every `every_s`, and `turn_s`
    later its reply is whole."""

    store: CallStore
    calls: int
    every_s: float
    turn_s: float
    sids: list[str] = field(default_factory=list)
    turns: int = 0
    late_s: float = 0.0
    """How far behind its plan it has been at most: the machine had no time."""

    def __post_init__(self) -> None:
        self._ending = threading.Event()
        self._held: dict[str, Lease] = {}

    def open_all(self) -> None:
        """Receive all calls."""
        for _ in range(self.calls):
            sid = f"CA{uuid4().hex}"
            self.store.open(sid, site="tower", greeting="This is an automated assistant.")
            self.sids.append(sid)

    @contextmanager
    def talking(self) -> Iterator[None]:
        """For as long as the block runs."""
        with ThreadPoolExecutor(1) as thread:
            talk = thread.submit(self._talk)
            try:
                yield
            finally:
                self._ending.set()
            talk.result()

    def _talk(self) -> None:
        began = time.monotonic()
        due = [(began + self.every_s * n / self.calls, n, 0) for n in range(self.calls)]
        heard = [0] * self.calls
        beat_at = began
        heapq.heapify(due)
        while not self._ending.is_set():
            at, number, step = heapq.heappop(due)
            now = time.monotonic()
            if now - beat_at > 0.2 and self._held:
                self.store.beat(*self._held.values())
                beat_at = now
            self._ending.wait(max(0.0, at - now))
            self.late_s = max(self.late_s, now - at)
            heard[number] += step == 0
            self._take(self.sids[number], heard[number], step)
            pause_s = (0.05, 0.4 * self.turn_s, 0.6 * self.turn_s, self.every_s - self.turn_s)[step]
            heapq.heappush(due, (max(at, now - 1) + pause_s, number, (step + 1) % 4))

    def _take(self, sid: str, turn: int, step: int) -> None:
        if step == 0:
            self.store.record_utterance(sid, turn, stamped(SAID))
        elif step == 1:
            claimed = self.store.claim(sid, "w1@benchmark/1-aa", uuid4().hex)
            assert isinstance(claimed, Claimed)
            self._held[sid] = claimed.lease
        elif step == 2:
            self.store.save_draft(self._held[sid], turn, stamped(REPLY))
        else:
            self.store.commit(self._held.pop(sid), turn, stamped(REPLY))
            self.turns += 1
