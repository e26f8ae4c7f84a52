"""An OpenTelemetry collector on loopback: takes OTLP over HTTP, and remembers the spans."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass(frozen=True)
class Span:
    service: str
    name: str
    trace: str
    id: str
    parent: str
    failed: bool
    about: dict[str, Any]


@dataclass
class Collector:
    url: str = ""
    spans: list[Span] = field(default_factory=list)

    def take(self, body: bytes) -> None:
        request = ExportTraceServiceRequest.FromString(body)
        for resource in request.resource_spans:
            service = _values(resource.resource.attributes)["service.name"]
            for scope in resource.scope_spans:
                self.spans += [_span(service, one) for one in scope.spans]


def _span(service: str, one: Any) -> Span:
    about = _values(one.attributes)
    failed = one.status.code == 2
    return Span(service, one.name, one.trace_id.hex(), one.span_id.hex(), one.parent_span_id.hex(), failed, about)


def _values(attributes: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in attributes}


@contextmanager
def collecting() -> Iterator[Collector]:
    found = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            assert self.path == "/v1/traces"
            found.take(gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *words: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    found.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield found
    finally:
        server.shutdown()
        server.server_close()
