"""Traces turns by OpenTelemetry: one trace each, from the webhook through Celery to the reply.

The trace of a turn is computed and not remembered: its ids follow from the CallSid and the number
of the turn. So a worker that takes over and the web process that speaks the reply, whichever they
are, add to the turn's own trace, and no record and no address carries anything for it. Spans carry
CallSid, turn, fence and the like, and never what people said.

Without CALLFLOW_TRACES_URL a span is OpenTelemetry's own that records nothing, and its SDK is not
imported. With it spans are sent by a thread of their own, from a queue that loses what it cannot
hold: a collector that is slow or gone costs no caller anything.
"""

from __future__ import annotations

import atexit
import hashlib
import importlib.util
import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, NonRecordingSpan, SpanContext, Status, StatusCode
from opentelemetry.trace import Span as Span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from callflow.errors import CallflowError

Value = str | int | bool

HEADER = "traceparent"
"""What carries a trace in a Celery message, as W3C Trace Context writes it."""

LEAVE_WITHIN_S = 1.0
"""How long the end of a process may wait for what has not been sent yet."""

EXPORT_TIMEOUT_S = 5.0
"""A collector that takes longer for one batch does not get it."""

_NEEDS = ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")
_PROPAGATOR = TraceContextTextMapPropagator()

_provider: Any = None
"""The SDK's TracerProvider; None where nothing is traced."""

_ids_of_next: ContextVar[SpanContext | None] = ContextVar("callflow_tracing_ids", default=None)
"""The ids of the span that is being begun, where they are not left to chance."""


class TracesMissing(CallflowError):
    """CALLFLOW_TRACES_URL is set, and what sends traces is not installed."""

    def __init__(self, module: str) -> None:
        self.module = module
        super().__init__(
            f"CALLFLOW_TRACES_URL is set, and {module} is not installed: pip install "
            "'callflow[traces]', or unset it"
        )


def check(url: str | None) -> None:
    """Raises TracesMissing where `begin(url)` would."""
    for module in () if url is None else _NEEDS:
        try:
            found = importlib.util.find_spec(module)
        except ModuleNotFoundError:
            found = None
        if found is None:
            raise TracesMissing(module)


def begin(url: str | None, part: str) -> None:
    """Send this process's spans to `url` from now on; with None there are none. Twice, the first
    stands. `part`: which kind of process this is, for people who look. Raises TracesMissing."""
    global _provider
    if url is not None and _provider is None:
        check(url)
        _provider = _sending_to(url, part)
        atexit.register(end)


def _sending_to(url: str, part: str) -> Any:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import SERVICE_NAME, Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.sdk.trace.id_generator import RandomIdGenerator

    class Ids(RandomIdGenerator):
        """Random ids, but for the span that a turn begins with."""

        def generate_trace_id(self) -> int:
            given = _ids_of_next.get()
            return super().generate_trace_id() if given is None else given.trace_id

        def generate_span_id(self) -> int:
            given = _ids_of_next.get()
            return super().generate_span_id() if given is None else given.span_id

    named = {} if "OTEL_SERVICE_NAME" in os.environ else {SERVICE_NAME: "callflow"}
    provider = TracerProvider(
        id_generator=Ids(),
        resource=Resource.create({**named, "callflow.part": part, "process.pid": os.getpid()}),
        # `end` sees to it, and waits no longer than a worker that ends may.
        shutdown_on_exit=False,
    )
    exporter = OTLPSpanExporter(endpoint=url, timeout=EXPORT_TIMEOUT_S)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider


def end() -> None:
    """Send what is left, for a second at most, and trace no more. Twice is once."""
    global _provider
    provider, _provider = _provider, None
    if provider is not None:
        # The exporter itself would wait for 30 s, and a worker that ends has no such time.
        sending = threading.Thread(target=provider.shutdown, daemon=True)
        sending.start()
        sending.join(LEAVE_WITHIN_S)


def _forget() -> None:
    global _provider
    _provider = None


# A forked child must not write into its parent's connection: it begins anew, or does not trace.
os.register_at_fork(after_in_child=_forget)


def now_ns() -> int:
    """When a piece of work began of which nobody knows yet what it is; 0 where nothing is traced.
    This machine's clock."""
    return 0 if _provider is None else time.time_ns()


def note(span: Span, **attributes: Value | None) -> None:
    """Say more about a piece of work that goes on; None is left out."""
    if span.is_recording():
        span.set_attributes(_without_none(attributes))


def span(
    name: str, *, since_ns: int = 0, **attributes: Value | None
) -> AbstractContextManager[Span]:
    """A piece of work, within the one that is going on in this thread or task.

    `since_ns`: when it began, where that was before the block. An exception that leaves it marks it
    as failed, by its type alone.
    """
    return trace.INVALID_SPAN if _provider is None else _recorded(name, since_ns, attributes)


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
    if _provider is None:
        return trace.INVALID_SPAN
    attributes |= {"call_sid": call_sid, "turn": number}
    here = trace.get_current_span().get_span_context()
    begun = _beginning_of(call_sid, number, name)
    if here.trace_id == begun.trace_id:
        return _recorded(name, since_ns, attributes)
    if first and not here.is_valid:
        return _recorded(name, since_ns, attributes, ids=begun)
    parent = trace.set_span_in_context(NonRecordingSpan(begun), Context())
    links = [Link(here)] if here.is_valid else ()
    return _recorded(name, since_ns, attributes, parent=parent, links=links)


def _beginning_of(call_sid: str, number: int, name: str) -> SpanContext:
    """The span that a turn begins with, which some other process may have begun."""
    digest = hashlib.sha256(f"callflow/{call_sid}/{number}".encode()).digest()
    trace_id = int.from_bytes(digest[:16])
    # The same sampler decides everywhere, by the trace's id.
    sampled = _provider.sampler.should_sample(Context(), trace_id, name).decision.is_sampled()
    flags = trace.TraceFlags(trace.TraceFlags.SAMPLED if sampled else 0)
    span_id = int.from_bytes(digest[16:24])
    return SpanContext(trace_id, span_id, is_remote=True, trace_flags=flags)


@contextmanager
def _recorded(
    name: str,
    since_ns: int,
    attributes: Mapping[str, Value | None],
    *,
    parent: Context | None = None,
    links: Sequence[Link] = (),
    ids: SpanContext | None = None,
) -> Iterator[Span]:
    """A span within the one that is going on, or within `parent`."""
    token = _ids_of_next.set(ids)
    try:
        begun: Span = _provider.get_tracer("callflow").start_span(
            name,
            parent,
            attributes=_without_none(attributes),
            links=links,
            start_time=since_ns or None,
        )
    finally:
        _ids_of_next.reset(token)
    # What an exception says is not for traces: it may quote what it was raised for.
    with trace.use_span(
        begun, end_on_exit=True, record_exception=False, set_status_on_exception=False
    ):
        try:
            yield begun
        except Exception as error:
            begun.set_attribute("error.type", type(error).__name__)
            begun.set_status(Status(StatusCode.ERROR))
            raise


def _without_none(attributes: Mapping[str, Value | None]) -> dict[str, Value]:
    return {name: value for name, value in attributes.items() if value is not None}


def inject() -> dict[str, str]:
    """The header that carries what is going on here to another process; empty where nothing is."""
    headers: dict[str, str] = {}
    if _provider is not None:
        _PROPAGATOR.inject(headers)
    return headers


def extract(headers: Mapping[str, object]) -> AbstractContextManager[object]:
    """Go on, within the block, with what another process began and `inject` put into `headers`.
    What is not there, or none, is as if nothing had been begun."""
    header = headers.get(HEADER)
    if _provider is None or not isinstance(header, str):
        return nullcontext()
    return trace.use_span(trace.get_current_span(_PROPAGATOR.extract({HEADER: header})))
