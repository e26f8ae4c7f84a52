"""Traces, when a collector is configured: spans of requests, steps and cloud calls. Nothing is imported otherwise.

All spans of one task share a trace, on every conductor: its id follows from the Director and the task, so nothing
about traces has to be stored or sent along.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from coterie import __version__
from coterie.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter

Value = str | int | float | bool
_provider: TracerProvider | None = None


class _Nowhere(dict[str, Value]):
    """The attributes of a span while traces are off: dropped."""

    def __setitem__(self, name: str, value: Value) -> None:
        pass


_NOTHING: AbstractContextManager[dict[str, Value]] = nullcontext(_Nowhere())


def start(endpoint: str | None, service: str, instance: str, exporter: SpanExporter | None = None) -> None:
    """Send spans to this collector (OTLP over HTTP) from now on; None leaves traces off."""
    global _provider
    if endpoint is None and exporter is None:
        return
    try:
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise UsageError(
            "otlp_endpoint is set, but OpenTelemetry is not installed",
            why=str(error),
            remedy="install it: pip install 'coterie[otel]', or unset otlp_endpoint",
        ) from error
    about = {"service.name": service, "service.instance.id": instance, "service.version": __version__}
    _provider = TracerProvider(resource=Resource.create(about), shutdown_on_exit=False)
    _provider.add_span_processor(BatchSpanProcessor(exporter or _exporter(endpoint or "")))


def stop() -> None:
    """Send what is left."""
    global _provider
    if _provider is not None:
        _provider.shutdown()
        _provider = None


def on() -> bool:
    return _provider is not None


def span(
    name: str, about: Mapping[str, Value], *, task: str | None = None, headers: Mapping[str, str] | None = None
) -> AbstractContextManager[dict[str, Value]]:
    """Around a piece of work. Its value takes facts that are known only afterwards.

    `task`: director and task, whose trace it belongs to. `headers`: of a request that may name its trace.
    """
    return _NOTHING if _provider is None else _span(_provider, name, task, headers, about)


@contextmanager
def _span(
    provider: TracerProvider,
    name: str,
    task: str | None,
    headers: Mapping[str, str] | None,
    about: Mapping[str, Value],
) -> Iterator[dict[str, Value]]:
    from opentelemetry.trace import Status, StatusCode

    later: dict[str, Value] = {}
    tracer = provider.get_tracer("coterie", __version__)
    # Words of an error may hold what must not leave the site: only its code goes out.
    quiet = {"record_exception": False, "set_status_on_exception": False}
    with tracer.start_as_current_span(name, _parent(task, headers), attributes=about, **quiet) as made:  # type: ignore[arg-type]  # mypy cannot see which keywords `quiet` holds
        try:
            yield later
        except BaseException as error:
            later["error.type"] = str(getattr(error, "code", None) or type(error).__name__)
            made.set_status(Status(StatusCode.ERROR))
            raise
        finally:
            made.set_attributes(later)


def _parent(task: str | None, headers: Mapping[str, str] | None) -> Context | None:
    from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    if headers is not None:
        return TraceContextTextMapPropagator().extract(dict(headers))
    if task is None:
        return None
    digest = hashlib.sha256(task.encode()).digest()
    numbers = int.from_bytes(digest[:16], "big"), int.from_bytes(digest[16:24], "big")
    root = SpanContext(*numbers, is_remote=True, trace_flags=TraceFlags(TraceFlags.SAMPLED))
    return set_span_in_context(NonRecordingSpan(root))


def _exporter(endpoint: str) -> Any:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    where = endpoint if endpoint.rstrip("/").endswith("/v1/traces") else f"{endpoint.rstrip('/')}/v1/traces"
    return OTLPSpanExporter(endpoint=where)
