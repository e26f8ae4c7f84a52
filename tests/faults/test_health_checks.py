"""A node is up when its health check passes: waited for, and given up after its time with the reason."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.faults.trial import Trial, states, trial
from tests.kill.bench import Bench
from tests.kill.labels import labels_in
from tests.kill.points import read_trace
from tests.kill.scenario import Json, group, manifest

ADDRESS = "127.20.0.10"


def test_an_update_waits_until_the_new_check_passes(bench: Bench) -> None:
    with trial(bench, _checked(None)) as tried, _reserved_port() as door:
        tried.deploy()
        tried.change(_checked(door.getsockname()[1]))
        tried.since = 1
        order = tried.order()
        pid = bench.nursery.start(order)
        _wait_for_waiting_step(tried)
        door.listen()
        assert bench.nursery.wait(pid) == 0, order.log.read_text()[-2000:]
        tried.assert_converged()
        assert "node.update.await_up" in labels_in(point.kind for point in read_trace(order.trace))


def test_a_check_that_never_passes_fails_the_node_with_the_reason(bench: Bench) -> None:
    with _reserved_port() as door, trial(bench, _checked(door.getsockname()[1], watch_s=0.3)) as tried:
        book = tried.deploy()
        assert states(book) == {"one/0": "failing"}
        assert "did not come up within" in book.nodes[0].problem["what"]
        assert f"tcp check of {ADDRESS}" in book.nodes[0].problem["why"]
        assert {row.cid for row in book.of("vm", "live")} == {vm.id for vm in tried.cloud().vms}


def _checked(port: int | None, watch_s: float = 60.0) -> Json:
    network = [{"name": "default", "static_ips": [ADDRESS]}]
    health = {"health": {"kind": "tcp", "port": port, "interval_s": 0.1, "timeout_s": 0.5}} if port else {}
    update = {"canary_watch_s": watch_s, "update_watch_s": watch_s}
    return manifest(group("one", 1, networks=network, **health), update=update)


@contextmanager
def _reserved_port() -> Iterator[socket.socket]:
    """A port of the node's (loopback) address that refuses connections before `listen`."""
    with socket.socket() as door:
        door.bind((ADDRESS, 0))
        yield door


def _wait_for_waiting_step(tried: Trial) -> None:
    for _ in range(600):
        if any(step.label == "await_up" and step.state == "ready" for step in tried.book().steps):
            return
        time.sleep(0.1)
    raise AssertionError("no step ever waited for the check")
