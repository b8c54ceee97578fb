"""Lets the wall clock be set in a Python process that starts with this directory on its path.

A process whose group has a file in the directory `CHAOS_CLOCKS` is ahead by the seconds that stand
in it (behind, if negative). Set are `time.time` and `time.time_ns`, of all that run in the process;
the monotonic clock is nobody's to set, and `datetime` asks the kernel.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

_LOOK_EVERY_S = 0.1

_time, _time_ns, _monotonic = time.time, time.time_ns, time.monotonic


class _SettableClock:
    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)
        self._look_at = 0.0
        self._ahead_s = 0.0

    def time(self) -> float:
        return _time() + self._ahead()

    def time_ns(self) -> int:
        return _time_ns() + round(self._ahead() * 1e9)

    def _ahead(self) -> float:
        if _monotonic() >= self._look_at:
            self._look_at = _monotonic() + _LOOK_EVERY_S
            try:
                self._ahead_s = float((self._folder / str(os.getpgrp())).read_text() or 0)
            except FileNotFoundError:
                self._ahead_s = 0.0
        return self._ahead_s


if "CHAOS_CLOCKS" in os.environ:
    _clock = _SettableClock(os.environ["CHAOS_CLOCKS"])
    time.time, time.time_ns = _clock.time, _clock.time_ns
