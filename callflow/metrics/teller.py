"""Tells CloudWatch, each minute by whichever web process comes first.

All of them have the same numbers, so two that told them would double what is added up. The right to
tell a minute is taken in the store, minute by minute: a process that dies costs no more than the
one that it was about to tell.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from callflow.errors import StoreError
from callflow.metrics import emf
from callflow.metrics.tally import KEPT_MINUTES, Key, Minute
from callflow.store.minutes import Minutes


class Teller:
    """Writes lines of Embedded Metric Format. Blocking; not for several threads at once."""

    def __init__(self, namespace: str, minutes: Minutes, write: Callable[[str], None]) -> None:
        """`write` gets whole lines, without their ends."""
        self._namespace = namespace
        self._minutes = minutes
        self._write = write
        self._waiting: list[Minute] = []

    def tell(self, closed: Sequence[Minute], gauges: Mapping[Key, float], now_ms: int) -> int:
        """Tell what has `closed`, if nobody else has; how many minutes were told.

        While the store is gone nobody can say who tells: every process says that it is gone, and
        keeps its minutes.
        """
        self._waiting = [*self._waiting, *closed][-KEPT_MINUTES:]
        told = 0
        while self._waiting:
            minute = self._waiting[0]
            try:
                ours = self._minutes.take(minute.number)
            except StoreError:
                self._write(emf.unreachable(self._namespace, now_ms))
                break
            self._waiting.pop(0)
            if ours:
                # How things stand is known of now alone.
                standing = {} if self._waiting else gauges
                for line in emf.documents(self._namespace, minute, standing):
                    self._write(line)
                told += 1
        return told
