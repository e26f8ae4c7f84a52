"""Waiting for a task that runs: whatever becomes of the looks at it, it was started."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyVmomi import vim, vmodl

from coterie.cpi.conformance.expect import expect_error
from coterie.cpi.contract import AuthenticationFailed, OutcomeUnknown, Throttled, always_held
from coterie.cpi.drivers.vsphere.client import Client, Row
from coterie.cpi.drivers.vsphere.drs import Clusters
from coterie.cpi.drivers.vsphere.sdk import Refusal
from coterie.cpi.drivers.vsphere.settings import read_settings
from coterie.cpi.kit.call_limit import CallLimit

TASK = vim.Task("task-1")
RUNS, DONE = ({"info.state": state, "info.result": "vm-1"} for state in ("running", "success"))


class Scripted(Client):
    """Answers looks at the task with what the test says, in order."""

    def __init__(self, *looks: dict[str, Any] | Exception) -> None:
        given = {"url": "https://vcenter.example.org", "user": "u", "password": "p", "datacenter": "DC0"}
        super().__init__(read_settings(given), CallLimit(1), always_held)
        self.looks: Iterator[dict[str, Any] | Exception] = iter(looks)

    def change(self, method: Any, *arguments: Any) -> Any:
        return TASK

    def read(self, ref: Any, *paths: str) -> Row:
        look = next(self.looks)
        if isinstance(look, Exception):
            raise look
        return Row(ref, look)


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coterie.cpi.drivers.vsphere.client._LONGEST_PAUSE_S", 0.0)


def test_a_task_is_waited_for_while_the_vcenter_takes_no_more_questions() -> None:
    refused = [Throttled("too many calls", details={"retry_after": 11.0})] * 20
    assert Scripted(RUNS, *refused, RUNS, DONE).run(print) == "vm-1"


def test_a_write_of_groups_is_waited_for_while_the_vcenter_takes_no_more_questions() -> None:
    """The looks at the cluster on the way, too."""
    throttled = Throttled("too many calls")
    client = Scripted(throttled, throttled, throttled, DONE)
    cluster = vim.ClusterComputeResource("domain-c1")
    assert Clusters(client, None).write(cluster, []) == []  # type: ignore[arg-type] # no placement is asked


@pytest.mark.parametrize(
    "unreadable",
    [
        Refusal(vmodl.fault.ManagedObjectNotFound(obj=TASK)),
        AuthenticationFailed("the certificate of vCenter is not trusted", remedy="trust it"),
    ],
)
def test_a_task_that_cannot_be_read_any_more_may_have_done_its_work(unreadable: Exception) -> None:
    """As after a fail-over of vCenter, which forgets its tasks."""
    expect_error(OutcomeUnknown, lambda: Scripted(RUNS, unreadable).run(print))


def test_the_error_of_a_task_is_a_refusal() -> None:
    failed = {"info.state": "error", "info.error": vmodl.fault.ManagedObjectNotFound(obj=TASK)}
    with pytest.raises(Refusal):
        Scripted(RUNS, failed).run(print)
