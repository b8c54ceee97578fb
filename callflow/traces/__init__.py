"""Traces of OpenTelemetry: one for each turn, from the webhook through Celery to the reply.

The trace of a turn is computed and not remembered: its ids follow from the CallSid and the number
of the turn. So a worker that takes over and the web process that speaks the reply, whichever they
are, add to the turn's own trace, and no record and no address carries anything for it. Spans carry
CallSid, turn, fence and the like, and never what people said.

Without CALLFLOW_TRACES_URL nothing of it is imported, and a span is an object that does nothing.
With it spans are sent by a thread of their own, from a queue that loses what it cannot hold: a
collector that is slow or gone costs no caller anything.
"""

from __future__ import annotations

import atexit
import importlib.util
import os
import threading
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

from callflow.errors import CallflowError

if TYPE_CHECKING:
    from callflow.traces.otel import Tracing

Value = str | int | bool

HEADER = "traceparent"
"""What carries a trace in a Celery message, as W3C Trace Context writes it."""

LEAVE_WITHIN_S = 1.0
"""How long the end of a process may wait for what has not been sent yet."""

_NEEDS = ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")

_tracing: Tracing | None = None


class TracesMissing(CallflowError):
    """CALLFLOW_TRACES_URL is set, and what sends traces is not installed."""

    def __init__(self, module: str) -> None:
        self.module = module
        super().__init__(
            f"CALLFLOW_TRACES_URL is set, and {module} is not installed: pip install "
            "'callflow[traces]', or unset it"
        )


class Span(Protocol):
    """A piece of work while it goes on."""

    def note(self, **attributes: Value | None) -> None:
        """Say more about it; None is left out."""


class _Nothing:
    """The span of a process that does not trace: one for all."""

    def note(self, **attributes: Value | None) -> None:
        """Nobody listens."""

    def __enter__(self) -> Span:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing was begun."""


_NOTHING = _Nothing()


def check(url: str | None) -> None:
    """Raises TracesMissing where `begin(url)` would."""
    if url is None:
        return
    for module in _NEEDS:
        try:
            found = importlib.util.find_spec(module)
        except ModuleNotFoundError:
            found = None
        if found is None:
            raise TracesMissing(module)


def begin(url: str | None, part: str) -> None:
    """Send this process's spans to `url` from now on; with None there are none. Twice, the first
    stands. `part`: which kind of process this is, for people who look. Raises TracesMissing."""
    global _tracing
    if url is None or _tracing is not None:
        return
    check(url)
    from callflow.traces.otel import Tracing

    _tracing = Tracing(url, part)
    atexit.register(end)


def end() -> None:
    """Send what is left, for a second at most, and trace no more. Twice is once."""
    global _tracing
    tracing, _tracing = _tracing, None
    if tracing is not None:
        # The exporter itself would wait for 30 s, and a worker that ends has no such time.
        sending = threading.Thread(target=tracing.close, daemon=True)
        sending.start()
        sending.join(LEAVE_WITHIN_S)


def _forget() -> None:
    global _tracing
    _tracing = None


# A forked child must not write into its parent's connection: it begins anew, or does not trace.
os.register_at_fork(after_in_child=_forget)


def now_ns() -> int:
    """When a piece of work began of which nobody knows yet what it is; 0 where nothing is traced.
    This machine's clock."""
    return 0 if _tracing is None else time.time_ns()


def span(
    name: str, *, since_ns: int = 0, **attributes: Value | None
) -> AbstractContextManager[Span]:
    """A piece of work, within the one that is going on in this thread or task.

    `since_ns`: when it began, where that was before the block. An exception that leaves it marks it
    as failed, by its type alone.
    """
    if _tracing is None:
        return _NOTHING
    return _tracing.span(name, since_ns, attributes)


def turn(
    name: str,
    call_sid: str,
    number: int,
    *,
    first: bool = False,
    since_ns: int = 0,
    **attributes: Value | None,
) -> AbstractContextManager[Span]:
    """A piece of work of one turn, in the turn's own trace, whoever else works on it.

    `first`: it is what the turn begins with, unless another piece of the same turn is going on
    here. What is going on here in another trace is linked: the watchdog that took the call back,
    for one.
    """
    if _tracing is None:
        return _NOTHING
    attributes |= {"call_sid": call_sid, "turn": number}
    return _tracing.turn(name, (call_sid, number), since_ns, attributes, first=first)


def inject() -> dict[str, str]:
    """The header that carries what is going on here to another process; empty where nothing is."""
    return {} if _tracing is None else _tracing.inject()


def extract(headers: Mapping[str, object]) -> AbstractContextManager[object]:
    """Go on, within the block, with what another process began and `inject` put into `headers`.
    What is not there, or none, is as if nothing had been begun."""
    return _NOTHING if _tracing is None else _tracing.extract(headers.get(HEADER))
