"""A collector of traces: OTLP over HTTP, as a real one takes it, and what became of each turn."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)


@dataclass(frozen=True)
class Span:
    """A span as it was received."""

    name: str
    trace: str
    id: str
    parent: str
    links: tuple[tuple[str, str], ...]
    """trace and span of each"""
    attributes: dict[str, Any]
    failed: bool
    began_ns: int
    ended_ns: int
    process: dict[str, Any]


@dataclass
class Collector:
    """What has been received so far. `raw`: all bodies, to look for what must not be in them."""

    url: str = ""
    spans: list[Span] = field(default_factory=list)
    raw: bytes = b""
    asked: int = 0
    answers: threading.Event = field(default_factory=threading.Event)
    """Cleared, it keeps every request waiting."""

    def take(self, body: bytes) -> None:
        """One request."""
        request = ExportTraceServiceRequest.FromString(body)
        self.raw += body
        for resource in request.resource_spans:
            process = _plain(resource.resource.attributes)
            for scope in resource.scope_spans:
                self.spans.extend(_span(one, process) for one in scope.spans)

    def named(self, name: str, **attributes: object) -> list[Span]:
        """The spans of that name, with these attributes."""
        return [
            span
            for span in self.spans
            if span.name == name and span.attributes.items() >= attributes.items()
        ]

    def one(self, name: str, **attributes: object) -> Span:
        """The only one."""
        (span,) = self.named(name, **attributes)
        return span

    def whole(self, trace: str) -> list[Span]:
        """The spans of one trace, each of whose parents has been received too, but for the first
        one's."""
        spans = [span for span in self.spans if span.trace == trace]
        ids = {span.id for span in spans}
        assert len(ids) == len(spans), "two spans with one id"
        (first,) = [span for span in spans if not span.parent]
        lost = [span.name for span in spans if span is not first and span.parent not in ids]
        assert not lost, f"these hang on nothing: {lost}"
        return spans


def _span(one: Any, process: dict[str, Any]) -> Span:
    return Span(
        name=one.name,
        trace=one.trace_id.hex(),
        id=one.span_id.hex(),
        parent=one.parent_span_id.hex(),
        links=tuple((link.trace_id.hex(), link.span_id.hex()) for link in one.links),
        attributes=_plain(one.attributes),
        failed=one.status.code == 2,
        began_ns=one.start_time_unix_nano,
        ended_ns=one.end_time_unix_nano,
        process=process,
    )


def _plain(attributes: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in attributes}


@contextmanager
def collecting() -> Iterator[Collector]:
    """A collector on loopback for as long as the block runs."""
    collector = Collector()
    collector.answers.set()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            collector.asked += 1
            collector.answers.wait()
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            collector.take(body)
            answer = ExportTraceServiceResponse().SerializeToString()
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: Any) -> None:
            """The test run's stderr is for people."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        collector.url = f"http://127.0.0.1:{server.server_port}/v1/traces"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield collector
        finally:
            collector.answers.set()
            server.shutdown()
            thread.join()
