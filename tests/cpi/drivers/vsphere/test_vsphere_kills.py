"""Killed after any of its calls and repeated by another process, a method ends as if it had never been interrupted.

The points are discovered: a method is run again and again, and dies one call later each time, until it lives.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from peers.leases import end_leases
from peers.vsphere_bed import CLUSTERS, VsphereBed
from pyVmomi import vim

from coterie.cpi.conformance.lab import Lab
from coterie.cpi.contract import Cpi, CpiError, GroupMetadata, Runtime
from coterie.cpi.drivers.vsphere.client import Session
from coterie.cpi.drivers.vsphere.driver import VsphereCpi
from coterie.cpi.drivers.vsphere.sdk import call_failure
from coterie.engine.coordinator import LedgerCoordinator
from coterie.ids import Ids
from coterie.ledger.store import Ledger
from coterie.ledger.work import domains
from vsphere.test_vsphere_groups import host_group, names


class Killed(BaseException):
    """Nothing in the driver may catch it, as nothing catches SIGKILL."""


class Processes:
    """Opens drivers as new processes would: each under a name of its own, on the same ledger."""

    def __init__(self, bed: VsphereBed, ledger: Ledger) -> None:
        self._bed = bed
        self._ledger = ledger

    def open_driver(self) -> VsphereCpi:
        coordinator = LedgerCoordinator(self._ledger, Ids().uuid())
        return VsphereCpi("lab", self._bed.properties(), Runtime(self._bed.director_uuid, coordinator))

    def every_point(self, act: Callable[[Cpi], Any], after: Callable[[int], None]) -> int:
        """How many points there were. After each, `act` is repeated by another, and then `after` looks."""
        for calls in itertools.count(1):
            try:
                with pytest.MonkeyPatch.context() as patch:
                    act(kill_after(self.open_driver(), calls, patch))
                after(calls)
                return calls
            except Killed:
                end_leases(self._ledger)
                act(self.open_driver())
                after(calls)
        raise AssertionError("unreachable")

    def every_lost_answer(self, act: Callable[[Cpi], Any], after: Callable[[int], None]) -> int:
        """How many calls there were. The answer of each is lost once; an `act` that fails for it is repeated."""
        for calls in itertools.count(1):
            with pytest.MonkeyPatch.context() as patch:
                cpi, left = self.open_driver(), itertools.count(calls, -1)
                is_lost = lose_answer(cpi, left, patch)
                with suppress(CpiError):
                    act(cpi)
            if not is_lost():
                return calls
            end_leases(self._ledger)
            act(self.open_driver())
            after(calls)
        raise AssertionError("unreachable")


@pytest.fixture
def processes(bed: VsphereBed, tmp_path: Path) -> Iterator[Processes]:
    bed.more = {"agent_settings": "guestinfo"}
    ledger = Ledger.open(f"sqlite:///{tmp_path}/kills.db")
    yield Processes(bed, ledger)
    ledger.close()


def kill_after(cpi: VsphereCpi, calls: int, patch: pytest.MonkeyPatch) -> VsphereCpi:
    """The process dies when this many calls were answered; what it submitted stays submitted."""
    once, left = Session.call, itertools.count(calls, -1)

    def counted(self: Session, *arguments: Any) -> Any:
        answer = once(self, *arguments)
        if self is cpi.client.session and next(left) == 1:
            patch.setattr(domains, "withdraw", lambda tx, number: None)
            raise Killed
        return answer

    patch.setattr(Session, "call", counted)
    return cpi


def lose_answer(cpi: VsphereCpi, left: Iterator[int], patch: pytest.MonkeyPatch) -> Callable[[], bool]:
    """Of the call at which `left` comes to 1: it was carried out. Whether that has happened."""
    once, lost = Session.call, list[bool]()

    def call(self: Session, changes: bool, *arguments: Any) -> Any:
        answer = once(self, changes, *arguments)
        if self is cpi.client.session and next(left) == 1:
            lost.append(True)
            raise call_failure(ConnectionResetError("lost"), changes=changes)
        return answer

    patch.setattr(Session, "call", call)
    return lambda: bool(lost)


def members(lab: Lab, cid: str) -> set[str]:
    view = lab.cpi.inspect_server_group(cid)
    assert view.state in ("live", "reserved"), view
    return {one.vm_cid for one in view.members}


def test_a_vm_that_changes_its_group_is_never_in_none(bed: VsphereBed, lab: Lab, processes: Processes) -> None:
    first, second = lab.group("host-affinity"), lab.group("anti-affinity")
    vm, neighbour = lab.vm(group=first), lab.vm(group=second)
    way = itertools.cycle([(second, first), (first, second)])

    def act(cpi: Cpi) -> None:
        try:
            cpi.change_server_group(vm, goal[0])
        except Killed:
            found = [lab.cpi.inspect_server_group(cid).members for cid in goal]
            assert vm in {one.vm_cid for some in found for one in some}
            raise

    def after(calls: int) -> None:
        nonlocal goal
        target, origin = goal
        assert vm in members(lab, target), f"killed after call {calls}"
        assert vm not in members(lab, origin), f"killed after call {calls}"
        assert neighbour in members(lab, second)
        goal = next(way)

    goal = next(way)
    assert processes.every_point(act, after) > 10


@pytest.mark.parametrize("options", [{}, {"vm_group": "licensed"}], ids=["an automatic name", "the user's name"])
def test_a_vm_joins_and_leaves_while_it_runs(lab: Lab, processes: Processes, options: dict[str, str]) -> None:
    cid = lab.group("host-affinity", options=options)
    vm = lab.vm()
    way = itertools.cycle([cid, None])

    def after(calls: int) -> None:
        nonlocal goal
        assert members(lab, cid) == ({vm} if goal else set()), f"killed after call {calls}"
        goal = next(way)

    goal = next(way)
    assert processes.every_point(lambda cpi: cpi.change_server_group(vm, goal), after) > 8


def test_a_group_is_tied_to_other_hosts_and_to_none(bed: VsphereBed, lab: Lab, processes: Processes) -> None:
    cluster = bed.operator.cluster("z1")
    for name, host in zip(("one", "two"), bed.operator.get(cluster, "host"), strict=False):
        change = vim.cluster.GroupSpec(operation="add", info=vim.cluster.HostGroup(name=name, host=[host]))
        spec = vim.cluster.ConfigSpecEx(groupSpec=[change])
        bed.operator.run(cluster.ReconfigureComputeResource_Task(spec, True))
        lab.undo(bed.operator.remove, f"DC0_C0/{name}")
    specs: list[dict[str, Any]] = [
        {"host_group": "two", "rule": "should", "affine": False},
        {},
        {"host_group": "one", "rule": "must", "affine": True},
    ]
    way = itertools.cycle(specs)
    cid = lab.group("host-affinity", options={"vm_group": "licensed", **specs[-1]})
    lab.vm(group=cid)

    def metadata() -> GroupMetadata:
        return lab.metadata("host-affinity", options={"vm_group": "licensed", **goal})

    def after(calls: int) -> None:
        nonlocal goal
        rules = [
            (one.name, one.affineHostGroupName or one.antiAffineHostGroupName, bool(one.mandatory))
            for one in bed.operator.rules("z1").values()
        ]
        expected = [("licensed.hosts", goal["host_group"], goal["rule"] == "must")] if goal else []
        assert rules == expected, f"killed after call {calls}"
        assert len(members(lab, cid)) == 1
        goal = next(way)

    goal = next(way)
    assert processes.every_point(lambda cpi: cpi.update_server_group(cid, metadata()), after) > 10


def test_a_vm_is_made_in_its_group_once_and_goes_whole(bed: VsphereBed, lab: Lab, processes: Processes) -> None:
    cid, image = lab.group("anti-affinity"), lab.image()
    lab.vm(group=cid)
    before, order = bed.inventory(), lab.vm_arguments(group=cid, stemcell_cid=image)

    def act(cpi: Cpi) -> None:
        cpi.delete_vm(cpi.create_vm(**order).cid)

    def after(calls: int) -> None:
        nonlocal order
        assert bed.inventory() == before, f"killed after call {calls}"
        assert len(members(lab, cid)) == 1
        order = lab.vm_arguments(group=cid, stemcell_cid=image)

    assert processes.every_point(act, after) > 30


def test_a_group_is_made_and_deleted(bed: VsphereBed, lab: Lab, processes: Processes) -> None:
    before, mark = bed.inventory(), lab.mark()

    def act(cpi: Cpi) -> None:
        cpi.delete_server_group(cpi.create_server_group(lab.metadata("affinity"), mark=mark))

    def after(calls: int) -> None:
        nonlocal mark
        assert bed.inventory() == before, f"killed after call {calls}"
        mark = lab.mark()

    assert processes.every_point(act, after) > 10


ELSEWHERE = {"cpu": 1, "ram": 512, "disk": 0, "zone": "z1", "datastores": ["LocalDS_1"]}


def copies(bed: VsphereBed, lab: Lab) -> list[Any]:
    """What there is of the template's copy, on the datastore that VMs go to here."""
    name = bed.operator.get(bed.operator.machine(lab.image()), "name")
    return [one for one in bed.operator.templates(name) if bed.operator.get(one, "name") != name]


def remove_copies(bed: VsphereBed, lab: Lab) -> None:
    for one in copies(bed, lab):
        bed.operator.run(one.Destroy_Task())


def test_a_template_is_copied_to_a_datastore_once(bed: VsphereBed, lab: Lab, processes: Processes) -> None:
    image, before = lab.image(), bed.inventory()
    order = lab.vm_arguments(cloud_properties=ELSEWHERE, stemcell_cid=image)

    def after(calls: int) -> None:
        nonlocal order
        (copy,) = copies(bed, lab)
        assert bed.operator.get(copy, "config.template"), f"killed after call {calls}"
        assert bed.operator.get(copy, "snapshot.currentSnapshot"), f"killed after call {calls}"
        remove_copies(bed, lab)
        assert bed.inventory() == before, f"killed after call {calls}"
        order = lab.vm_arguments(cloud_properties=ELSEWHERE, stemcell_cid=image)

    assert processes.every_point(lambda cpi: cpi.delete_vm(cpi.create_vm(**order).cid), after) > 30


@pytest.mark.parametrize("action", ["drop_before", "drop_after"])
@pytest.mark.parametrize("method", ["CloneVM_Task", "CreateSnapshot_Task", "MarkAsTemplate"])
def test_a_lost_answer_of_a_copy_is_settled_by_the_next_call(
    bed: VsphereBed, lab: Lab, processes: Processes, method: str, action: str
) -> None:
    bed.more = {**bed.more, "settle_s": 0.2}
    order = lab.vm_arguments(cloud_properties=ELSEWHERE, stemcell_cid=lab.image())
    bed.server.bend(method, action)
    try:
        made = processes.open_driver().create_vm(**order)
    except CpiError as error:
        assert error.retryable  # nothing is in doubt: there is no VM
        made = processes.open_driver().create_vm(**order)
    lab.undo(remove_copies, bed, lab)
    lab.undo(lab.cpi.delete_vm, made.cid)
    (copy,) = copies(bed, lab)
    assert bed.operator.get(copy, "config.template")
    assert bed.operator.get(copy, "snapshot.currentSnapshot")


def test_many_vms_wait_for_one_copy(bed: VsphereBed, lab: Lab, processes: Processes) -> None:
    lab.image()
    bed.server.forget_calls()
    with ThreadPoolExecutor(6) as pool:
        orders = [lab.vm_arguments(cloud_properties=ELSEWHERE, stemcell_cid=lab.image()) for _ in range(6)]
        made = list(pool.map(lambda order: processes.open_driver().create_vm(**order), orders))
    assert bed.server.methods().count("CloneVM_Task") == 7  # six VMs, one copy
    lab.undo(remove_copies, bed, lab)
    for one in made:
        lab.undo(lab.cpi.delete_vm, one.cid)
    assert len(copies(bed, lab)) == 1


def test_no_lost_answer_of_a_regroup_loses_a_member(bed: VsphereBed, lab: Lab, processes: Processes) -> None:
    first, second = lab.group("host-affinity"), lab.group("anti-affinity")
    vm, neighbour = lab.vm(group=first), lab.vm(group=second)
    way = itertools.cycle([second, None, first])
    goal = next(way)

    def after(calls: int) -> None:
        nonlocal goal
        assert members(lab, first) == ({vm} if goal == first else set()), f"lost was the answer of call {calls}"
        assert members(lab, second) == ({vm, neighbour} if goal == second else {neighbour}), calls
        goal = next(way)

    assert processes.every_lost_answer(lambda cpi: cpi.change_server_group(vm, goal), after) > 20


def test_no_lost_answer_of_a_copy_leaves_half_of_one(bed: VsphereBed, lab: Lab, processes: Processes) -> None:
    bed.more = {**bed.more, "settle_s": 0.2}
    image, before = lab.image(), bed.inventory()
    order = lab.vm_arguments(cloud_properties=ELSEWHERE, stemcell_cid=image)

    def after(calls: int) -> None:
        nonlocal order
        (copy,) = copies(bed, lab)
        assert bed.operator.get(copy, "config.template"), f"lost was the answer of call {calls}"
        assert bed.operator.get(copy, "snapshot.currentSnapshot"), calls
        remove_copies(bed, lab)
        assert bed.inventory() == before, calls
        order = {**order, "mark": lab.mark()}

    assert processes.every_lost_answer(lambda cpi: cpi.delete_vm(cpi.create_vm(**order).cid), after) > 30
    remove_copies(bed, lab)


def test_a_vm_of_a_zone_with_a_host_group_is_tied_and_leaves_nothing(
    bed: VsphereBed, lab: Lab, processes: Processes
) -> None:
    host_group(bed, lab, "site-a", 2)
    bed.more = {**bed.more, "zones": {"a": {"cluster": CLUSTERS["z1"], "host_group": "site-a"}}}
    image, before = lab.image(), bed.inventory()
    order = lab.vm_arguments(
        cloud_properties={**ELSEWHERE, "zone": "a", "datastores": ["LocalDS_0"]}, stemcell_cid=image
    )

    def act(cpi: Cpi) -> None:
        vm = cpi.create_vm(**order).cid
        (rule,) = bed.operator.rules("z1").values()
        group = bed.operator.group(f"{CLUSTERS['z1']}/{rule.vmGroupName}")
        assert (rule.affineHostGroupName, rule.mandatory, len(group.vm)) == ("site-a", True, 1)
        cpi.delete_vm(vm)

    def after(calls: int) -> None:
        nonlocal order
        assert bed.inventory() == before, f"killed after call {calls}"
        assert names(bed) == {"site-a"}, calls
        assert bed.operator.rules("z1") == {}, calls
        order = {**order, "mark": lab.mark()}

    assert processes.every_point(act, after) > 30
