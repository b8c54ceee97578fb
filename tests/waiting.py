"""Waiting in tests: for something, with a name and an end. The one place that may sleep."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_until(condition: Callable[[], T], what: str, within_s: float = 10.0) -> T:
    """Return the first true answer of `condition`, or fail saying that `what` never happened."""
    deadline = time.monotonic() + within_s
    while not (answer := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"after {within_s:g} s still not: {what}")
        time.sleep(0.005)
    return answer
