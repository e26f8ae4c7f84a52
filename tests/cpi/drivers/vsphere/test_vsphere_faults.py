"""Faults in the write of a cluster's groups: a join is acknowledged when it is seen, refused when it cannot be."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from http.client import RemoteDisconnected
from typing import Any

import pytest
from peers.vsphere_bed import VsphereBed

from coterie.cpi.conformance.expect import expect_error
from coterie.cpi.conformance.lab import Lab
from coterie.cpi.contract import CpiError, OutcomeUnknown, Throttled, Unavailable, always_held
from coterie.cpi.drivers.vsphere.client import Client, Row
from coterie.cpi.drivers.vsphere.settings import read_settings
from coterie.cpi.kit.call_limit import CallLimit

RECONFIGURE = "ReconfigureComputeResource_Task"
PASSING: dict[str, Callable[[VsphereBed], None]] = {
    "another client was faster": lambda bed: bed.server.bend(RECONFIGURE, "fault", fault="ConcurrentAccess"),
    "a task is in progress": lambda bed: bed.server.bend(RECONFIGURE, "fault", fault="TaskInProgress"),
    "the request is lost": lambda bed: bed.server.bend(RECONFIGURE, "drop_before"),
    "the answer is lost": lambda bed: bed.server.bend(RECONFIGURE, "drop_after"),
    "the session ends": lambda bed: bed.server.bend(RECONFIGURE, "fault", fault="NotAuthenticated"),
    "all sessions end": lambda bed: bed.server.expire(),
}


@pytest.mark.parametrize("fault", PASSING)
def test_a_passing_fault_does_not_keep_a_vm_from_its_group(bed: VsphereBed, lab: Lab, fault: str) -> None:
    cid = lab.group()
    vms = {lab.vm(group=cid)}
    PASSING[fault](bed)
    vms.add(lab.vm(group=cid))
    view = lab.cpi.inspect_server_group(cid)
    assert (view.state, {one.vm_cid for one in view.members}) == ("live", vms)


@pytest.mark.parametrize("fault", [one for one in PASSING if "session" not in one])
def test_a_passing_fault_does_not_keep_a_vm_in_its_group(bed: VsphereBed, lab: Lab, fault: str) -> None:
    cid = lab.group()
    kept, allow_not_found = lab.vm(group=cid), lab.vm(group=cid)
    PASSING[fault](bed)
    lab.cpi.delete_vm(allow_not_found)
    assert [one.vm_cid for one in lab.cpi.inspect_server_group(cid).members] == [kept]


def test_a_fault_that_stays_is_reported_and_leaves_neither_vm_nor_member(bed: VsphereBed, lab: Lab) -> None:
    cid = lab.group()
    kept = lab.vm(group=cid)
    before = bed.inventory()
    bed.server.bend(RECONFIGURE, "fault", fault="ConcurrentAccess", times=6)
    error = expect_error(CpiError, lambda: lab.vm(group=cid))
    assert error.retryable
    assert bed.inventory() == before
    assert [one.vm_cid for one in lab.cpi.inspect_server_group(cid).members] == [kept]


def test_a_first_join_that_fails_leaves_the_group_reserved(bed: VsphereBed, lab: Lab) -> None:
    cid = lab.group()
    lab.image()
    bed.server.bend("PowerOnVM_Task", "fault", fault="SystemError")
    expect_error(CpiError, lambda: lab.vm(group=cid))
    assert lab.cpi.inspect_server_group(cid).state == "reserved"


def test_a_clone_that_cannot_be_read_at_first_is_removed(
    bed: VsphereBed, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.image()
    before, read, refused = bed.inventory(), Client.read, [Throttled("too many calls", remedy="repeat")]

    def read_throttled(client: Client, ref: Any, *paths: str) -> Row:
        if "config.files.vmPathName" in paths and refused:
            raise refused.pop()
        return read(client, ref, *paths)

    monkeypatch.setattr(Client, "read", read_throttled)
    expect_error(Throttled, lambda: lab.vm())
    assert (refused, bed.inventory()) == ([], before)


def test_messages_of_a_login_that_fails_do_not_hold_the_password(bed: VsphereBed) -> None:
    bed.more = {"user": "nobody", "password": "very-secret-word"}
    bed.server.bend("Login", "fault", fault="InvalidLogin")
    error = expect_error(CpiError, lambda: bed.open().has_vm("8d8c4a1e-54c2-4f8e-9d53-1f0b6f2a7c10"))
    shown = [str(error), error.why, error.remedy, repr(bed.open().settings)]  # type: ignore[attr-defined] # its own
    assert "very-secret-word" not in "".join(shown)
    assert "very-secret-word" not in repr(error.__cause__) + repr(error.__context__)


PROGRAM = """
import json, sys
from coterie.cpi.contract import Runtime
from coterie.cpi.drivers.vsphere.driver import VsphereCpi
VsphereCpi("lab", json.load(sys.stdin), Runtime("u", None)).has_vm("8d8c4a1e-54c2-4f8e-9d53-1f0b6f2a7c10")
"""


def test_a_process_that_ends_ends_its_session(bed: VsphereBed) -> None:
    before = bed.server.sessions()
    bed.server.forget_calls()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    words = [sys.executable, "-c", PROGRAM]
    subprocess.run(words, input=json.dumps(bed.properties()), text=True, check=True, env=environment)
    assert "Login" in bed.server.methods()
    assert bed.server.sessions() == before


def test_no_more_calls_run_at_once_than_the_cloud_allows(bed: VsphereBed) -> None:
    bed.more = {"max_parallel_calls": 2}
    cpi = bed.open()
    bed.server.bend("FindByUuid", "delay", ms=30, times=12)
    with ThreadPoolExecutor(6) as threads:
        list(threads.map(lambda _: cpi.has_vm("8d8c4a1e-54c2-4f8e-9d53-1f0b6f2a7c10"), range(12)))
    calls = [call for call in bed.server.calls() if call["method"] == "FindByUuid"]
    at_once = [sum(other["began"] <= call["began"] < other["ended"] for other in calls) for call in calls]
    assert (len(calls), max(at_once)) == (12, 2)


def test_an_upload_takes_a_slot_of_the_call_limit(bed: VsphereBed) -> None:
    limit = CallLimit(1, wait_s=0.01)
    client = Client(read_settings(bed.properties()), limit, always_held)
    with ThreadPoolExecutor(1) as other:
        with client.connect("127.0.0.1:9"), pytest.raises(Unavailable):
            other.submit(limit.__enter__).result()
        other.submit(limit.__enter__).result()


def test_only_a_question_is_asked_again_on_a_connection_that_had_been_closed(bed: VsphereBed) -> None:
    session = Client(read_settings(bed.properties()), CallLimit(1), always_held).session
    answers: list[Any] = [RemoteDisconnected("closed"), "here", RemoteDisconnected("closed")]

    def ask() -> Any:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert session.call(False, ask) == "here"
    expect_error(OutcomeUnknown, lambda: session.call(True, ask))


def test_a_folder_that_is_renamed_just_after_it_was_in_the_way_is_made_anew(bed: VsphereBed, lab: Lab) -> None:
    """As a second maker of the same group sees it."""
    lab.group()
    duplicate = '<name>new</name><object type="Folder">group-v1</object>'
    bed.server.bend("CreateFolder", "fault", fault="DuplicateName", detail=duplicate)
    assert lab.cpi.inspect_server_group(lab.group()).state == "reserved"
