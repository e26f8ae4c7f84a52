"""Faults beyond refusals: calls that hang, are done twice, answer an error though they were done, build slowly."""

from __future__ import annotations

import threading
import uuid
from typing import Any

from coterie.sandbox import faults
from tests.sandbox.fronts.cloudstack.rig import Rig, eventually, refused


def volumes(rig: Rig) -> list[dict[str, Any]]:
    return list(rig.admin.listVolumes(type="DATADISK").get("volume", []))


def test_a_call_hangs_until_it_is_let_go(rig: Rig) -> None:
    zone, offering = rig.zone(), rig.disk_offering()
    fault = faults.add(rig.datacenter.store, "createVolume", "hang", times=1)
    order = {"name": "late", "zoneid": zone, "diskofferingid": offering, "size": 1}
    caller = threading.Thread(target=rig.client("admin").createVolume, kwargs=order)
    caller.start()
    assert eventually(lambda: faults.list_faults(rig.datacenter.store)[0].times == 0)  # the call is in it
    assert volumes(rig) == []
    assert caller.is_alive()
    faults.clear(rig.datacenter.store, fault.id)
    caller.join()
    assert [one["name"] for one in volumes(rig)] == ["late"]


def test_a_call_is_done_twice_unless_its_job_has_a_uuid(rig: Rig) -> None:
    rig.zone()
    faults.add(rig.datacenter.store, "createVolume", "twice", times=1)
    counts = rig.volume()["id"]
    assert len(volumes(rig)) == 2
    assert counts == volumes(rig)[-1]["id"]
    faults.add(rig.datacenter.store, "createVolume", "twice", times=1)
    with refused(431):
        rig.volume(customjobid=str(uuid.uuid4()))
    assert len(volumes(rig)) == 3


def test_an_error_is_answered_though_the_work_was_done(rig: Rig) -> None:
    order = rig.order(name="orphan")
    faults.add(rig.datacenter.store, "deployVirtualMachine", "error-after-commit", times=1)
    with refused(530):
        rig.admin.deployVirtualMachine(**order)
    (found,) = eventually(lambda: rig.admin.listVirtualMachines(name="orphan", state="Running").get("virtualmachine"))
    assert found["name"] == "orphan"


def test_a_vm_builds_slowly_and_is_destroyed_only_afterwards(rig: Rig) -> None:
    """Jobs about one thing are done one after the other."""
    order = rig.order()
    faults.add(rig.datacenter.store, "deployVirtualMachine", "slow-build", times=1, ms=2000)
    started = rig.plain.deployVirtualMachine(**order)
    destroyed = rig.plain.destroyVirtualMachine(id=started["id"])
    found = rig.vm(started["id"])
    assert found and found["state"] == "Starting"
    assert rig.plain.queryAsyncJobResult(jobid=destroyed["jobid"])["jobstatus"] == 0
    ended = eventually(lambda: (one := rig.plain.queryAsyncJobResult(jobid=destroyed["jobid"]))["jobstatus"] and one)
    assert rig.plain.queryAsyncJobResult(jobid=started["jobid"])["jobstatus"] == 1
    assert ended["jobresult"]["virtualmachine"]["state"] == "Destroyed"
