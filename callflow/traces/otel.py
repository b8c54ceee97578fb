"""Spans of OpenTelemetry: imported where traces are configured, and nowhere else."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import Decision
from opentelemetry.trace import Link, NonRecordingSpan, SpanContext, Status, StatusCode, TraceFlags

from callflow.traces import HEADER, Span, Value

EXPORT_TIMEOUT_S = 5.0
"""A collector that takes longer for one batch does not get it."""

_TRACEPARENT = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")

_given: ContextVar[SpanContext | None] = ContextVar("callflow_traces_given", default=None)
"""The ids of the span that is being begun, where they are not left to chance."""


class _Ids(RandomIdGenerator):
    """Random ids, but for the span that a turn begins with."""

    def generate_trace_id(self) -> int:
        given = _given.get()
        return super().generate_trace_id() if given is None else given.trace_id

    def generate_span_id(self) -> int:
        given = _given.get()
        return super().generate_span_id() if given is None else given.span_id


class _Noted:
    """A span as the rest of callflow knows it."""

    def __init__(self, span: trace.Span) -> None:
        self._span = span

    def note(self, **attributes: Value | None) -> None:
        self._span.set_attributes(_known(attributes))


class Tracing:
    """What one process needs to trace."""

    def __init__(self, url: str, part: str) -> None:
        named = {} if "OTEL_SERVICE_NAME" in os.environ else {SERVICE_NAME: "callflow"}
        self._provider = TracerProvider(
            id_generator=_Ids(),
            resource=Resource.create({**named, "callflow.part": part, "process.pid": os.getpid()}),
            # `traces.end` sees to it, and waits no longer than a worker that ends may.
            shutdown_on_exit=False,
        )
        exporter = OTLPSpanExporter(endpoint=url, timeout=EXPORT_TIMEOUT_S)
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("callflow")

    def close(self) -> None:
        """Send what is left."""
        self._provider.shutdown()

    @contextmanager
    def span(
        self,
        name: str,
        since_ns: int,
        attributes: Mapping[str, Value | None],
        *,
        parent: Context | None = None,
        links: Sequence[Link] = (),
        ids: SpanContext | None = None,
    ) -> Iterator[Span]:
        """A span within the one that is going on, or within `parent`."""
        token = _given.set(ids)
        try:
            span = self._tracer.start_span(
                name,
                parent,
                attributes=_known(attributes),
                links=links,
                start_time=since_ns or None,
            )
        finally:
            _given.reset(token)
        # What an exception says is not for traces: it may quote what it was raised for.
        with trace.use_span(
            span, end_on_exit=True, record_exception=False, set_status_on_exception=False
        ):
            try:
                yield _Noted(span)
            except Exception as error:
                span.set_attribute("error.type", type(error).__name__)
                span.set_status(Status(StatusCode.ERROR))
                raise

    def turn(
        self,
        name: str,
        whose: tuple[str, int],
        since_ns: int,
        attributes: Mapping[str, Value | None],
        *,
        first: bool,
    ) -> AbstractContextManager[Span]:
        """A span in the trace of a turn: CallSid and number."""
        here = trace.get_current_span().get_span_context()
        begun = self._beginning_of(whose, name)
        if here.trace_id == begun.trace_id:
            return self.span(name, since_ns, attributes)
        if first and not here.is_valid:
            return self.span(name, since_ns, attributes, ids=begun)
        return self.span(
            name,
            since_ns,
            attributes,
            parent=trace.set_span_in_context(NonRecordingSpan(begun), Context()),
            links=[Link(here)] if here.is_valid else (),
        )

    def _beginning_of(self, whose: tuple[str, int], name: str) -> SpanContext:
        """The span that a turn begins with, which some other process may have begun."""
        digest = hashlib.sha256(f"callflow/{whose[0]}/{whose[1]}".encode()).digest()
        trace_id = int.from_bytes(digest[:16])
        # The same sampler decides everywhere, by the trace's id.
        decision = self._provider.sampler.should_sample(Context(), trace_id, name).decision
        sampled = decision is Decision.RECORD_AND_SAMPLE
        return SpanContext(
            trace_id,
            int.from_bytes(digest[16:24]),
            is_remote=True,
            trace_flags=TraceFlags(TraceFlags.SAMPLED if sampled else 0),
        )

    def inject(self) -> dict[str, str]:
        """The header that carries the span that is going on."""
        here = trace.get_current_span().get_span_context()
        if not here.is_valid:
            return {}
        return {HEADER: f"00-{here.trace_id:032x}-{here.span_id:016x}-{here.trace_flags:02x}"}

    def extract(self, header: object) -> AbstractContextManager[object]:
        """Within the block, the span in `header` is the one that is going on."""
        found = _TRACEPARENT.fullmatch(header) if isinstance(header, str) else None
        if found is None:
            return nullcontext()
        trace_id, span_id, flags = (int(part, 16) for part in found.groups())
        begun = SpanContext(trace_id, span_id, is_remote=True, trace_flags=TraceFlags(flags))
        return trace.use_span(NonRecordingSpan(begun))


def _known(attributes: Mapping[str, Value | None]) -> dict[str, Value]:
    return {name: value for name, value in attributes.items() if value is not None}
