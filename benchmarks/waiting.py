"""Waiting for a condition, with a name and an end: the one place here that may sleep."""

from __future__ import annotations

import time
from collections.abc import Callable

POLL_S = 0.02


def wait_until(condition: Callable[[], bool], what: str, within_s: float = 60.0) -> None:
    """Return once `condition` is true, or raise TimeoutError saying that `what` never happened."""
    deadline = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"after {within_s:g} s still not: {what}")
        time.sleep(POLL_S)
