"""Reads what the terminal board shows, in a thread of its own: keys are heard meanwhile."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from functools import partial

from callflow import bootstrap
from callflow.board.board_reader import BoardReader
from callflow.board.board_reader import BoardState as Round
from callflow.board.feed import BoardClock, BoardVersions
from callflow.call.record import CallRecord
from callflow.cli.watch_page import Seen
from callflow.errors import StoreError
from callflow.health.staffed import staffed
from callflow.health.vitals import Vitals
from callflow.redis.scripts import Scripts
from callflow.store.reader import CallWatcher


def reader() -> BoardReader:
    """Reads the board from the server of this process. Raises SitesError."""
    client = bootstrap.client()
    staff = partial(staffed, Vitals(Scripts(client)), bootstrap.leases())
    return BoardReader(CallWatcher(client), staff, bootstrap.sites().get)


class Looking:
    """Looks again and again, from the first look on; `close` it in the end.

    The first look is the caller's own: raises StoreError. A server that goes away later is waited
    for, and what was read last is shown with its age.
    """

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._reader = reader()
        self._state = BoardVersions()
        self._opened: str | None = None
        self._record: CallRecord | None = None
        self._trouble = ""
        self._failure: Exception | None = None
        self._ending = False
        self._wanted = threading.Event()
        self._take(time.monotonic(), self._reader.read())
        self._thread = threading.Thread(target=self._run, name="looking", daemon=True)
        self._thread.start()

    def seen(self) -> Seen:
        """What there is to be shown now. Raises what kept the thread from going on."""
        if self._failure is not None:
            raise self._failure
        board, read_at, swept_ms = self._latest
        age_ms = round(1000 * (time.monotonic() - read_at))
        now = replace(board, now_ms=board.now_ms + age_ms)
        return Seen(now, age_ms, swept_ms, self._trouble, self._record)

    def open(self, call_sid: str | None) -> None:
        """Read this call as well from now on, at once; None: no call."""
        if call_sid != self._opened:
            self._opened = call_sid
            self._wanted.set()

    def close(self) -> None:
        """CallsOverview no more."""
        self._ending = True
        self._wanted.set()

    def _run(self) -> None:
        while not self._ending:
            self._wanted.wait(self._interval_s)
            self._wanted.clear()
            began = time.monotonic()
            try:
                opened = self._opened
                self._record = None if opened is None else bootstrap.reader().find(opened)
                self._take(began, self._reader.read())
            except StoreError as error:
                self._trouble = str(error)
            except Exception as error:
                # Whoever looks at the screen is told, and the terminal is restored before that.
                self._failure = error
                return

    def _take(self, began: float, found: Round) -> None:
        self._state.update(found)
        clock = BoardClock(found.look.now_ms, found.look.now_ms, found.trouble)
        # In one step, for the thread that draws.
        self._latest = self._state.snapshot(clock), began, found.staffed.swept_ms
        self._trouble = found.trouble
