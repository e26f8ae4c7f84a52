"""Traces: off and free unless configured; then requests, steps and cloud calls arrive at a collector."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from coterie.director.app import build
from coterie.director.context import AppContext
from coterie.director.process.state_folder import StateFolder
from coterie.errors import UsageError
from coterie.sandbox import faults
from coterie.sandbox.datacenter import open_datacenter
from coterie.settings import load
from coterie.telemetry import trace
from tests.director.asgi import Client
from tests.ledger.blank import sqlite_ledger
from tests.requests.site import Site, group, manifest, site
from tests.telemetry.collector import Collector, collecting


@pytest.fixture
def collector() -> Iterator[Collector]:
    with collecting() as found:
        trace.start(found.url, "test", "here")
        try:
            yield found
        finally:
            trace.stop()


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Site]:
    ledger = sqlite_ledger(tmp_path / "ledger.db")
    with site(ledger, tmp_path) as made:
        yield made
    ledger.close()


def test_a_deployment_is_one_trace_of_steps_and_their_calls(local: Site, collector: Collector) -> None:
    local.cpi().check()
    store = open_datacenter(local.folder / "sandbox.db").store
    faults.add(store, "create_vm", "throttle", times=1)
    task = local.deploy(manifest(group("a", 2)))
    local.conductor.drain(10)
    trace.stop()
    steps = [span for span in collector.spans if span.name.startswith("step ") and span.about["coterie.task"] == task]
    assert len({span.trace for span in steps}) == 1
    made = [span for span in steps if span.name == "step node.create.create_vm"]
    assert {span.about["coterie.subject"] for span in made} == {"a/0", "a/1"}
    calls = [span for span in collector.spans if span.name == "cpi create_vm"]
    assert {span.parent for span in calls} == {span.id for span in made}, "a call belongs to its step"
    assert {span.about["coterie.driver"] for span in calls} == {"sandbox"}
    (failed,) = [span for span in calls if span.failed]
    assert failed.about["error.type"] == "throttled"
    assert {span.about.get("coterie.move") for span in made if not span.failed} == {"next"}


def test_a_request_takes_up_the_trace_of_its_caller(local: Site, collector: Collector) -> None:
    context = AppContext(local.ledger, local.director, load({}, {"HOME": str(local.folder)}), StateFolder(local.folder))
    client = Client(build(context))
    mine = "0af7651916cd43dd8448eb211c80319c"
    client.get("/v1/nodes", traceparent=f"00-{mine}-b7ad6b7169203331-01")
    client.get("/v1/nodes/none")
    client.close()
    trace.stop()
    first, second = [span for span in collector.spans if span.name.startswith("GET ")]
    assert (first.trace, first.parent, first.about["http.response.status_code"]) == (mine, "b7ad6b7169203331", 200)
    assert (second.trace != mine, second.about["http.response.status_code"]) == (True, 404)


def test_nothing_is_imported_while_traces_are_off() -> None:
    script = (
        "import sys\nfrom coterie.telemetry import trace\ntrace.start(None, 'x', 'y')\n"
        "with trace.span('a', {}) as said:\n    said['b'] = 1\n"
        "assert not trace.on() and not [n for n in sys.modules if n.startswith('opentelemetry')]\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_traces_without_the_library_are_refused_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(UsageError, match="not installed") as refused:
        trace.start("http://127.0.0.1:1", "x", "y")
    assert "coterie[otel]" in refused.value.remedy
    assert not trace.on()
