"""What other clients change in our groups and rules is seen by its value, mended, and never lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from peers.vsphere_bed import VsphereBed
from pyVmomi import vim

from coterie.cpi.conformance.lab import Lab
from coterie.cpi.contract import GroupMissing, Runtime
from coterie.cpi.drivers.vsphere.driver import VsphereCpi
from coterie.engine.coordinator import LedgerCoordinator
from vsphere.test_vsphere_groups import RECONFIGURE, drs_name, host_group, names

HOSTS = {"vm_group": "web", "host_group": "one", "rule": "must", "affine": True}


def write(bed: VsphereBed, operation: str, info: Any) -> None:
    change = {"removeKey": info} if operation == "remove" else {"info": info}
    spec = vim.cluster.ConfigSpecEx(rulesSpec=[vim.cluster.RuleSpec(operation=operation, **change)])
    bed.operator.run(bed.operator.cluster("z1").ReconfigureComputeResource_Task(spec, True))


def edit(bed: VsphereBed, name: str, **fields: Any) -> None:
    info = bed.operator.rules("z1")[name]
    for key, value in fields.items():
        setattr(info, key, value)
    write(bed, "edit", info)


def together(bed: VsphereBed, name: str) -> None:
    old = bed.operator.rules("z1")[name]
    write(bed, "remove", old.key)
    info = vim.cluster.AffinityRuleSpec(name=name, enabled=True, mandatory=True, vm=list(old.vm))
    write(bed, "add", info)


def drop_from_rule(bed: VsphereBed, name: str) -> None:
    edit(bed, name, vm=list(bed.operator.rules("z1")[name].vm)[1:])


@pytest.fixture
def apart(lab: Lab) -> str:
    cid = lab.group("anti-affinity", options={"vm_group": "web"})
    for _ in range(3):
        lab.vm(group=cid)
    return cid


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda bed: edit(bed, "web", mandatory=False), "is soft, not strict"),
        (lambda bed: edit(bed, "web", enabled=False), "is switched off"),
        (lambda bed: together(bed, "web"), "keeps VMs together, not apart"),
        (lambda bed: drop_from_rule(bed, "web"), "was taken out of the rule"),
    ],
    ids=["soft", "off", "together", "a VM less"],
)
def test_a_rule_between_vms_that_was_changed_is_drift_and_is_mended(
    bed: VsphereBed, lab: Lab, apart: str, change: Callable[[VsphereBed], None], word: str
) -> None:
    before = bed.operator.rules("z1")["web"]
    change(bed)
    view = lab.cpi.inspect_server_group(apart)
    assert (view.state, word in view.notes[0]) == ("drifted", True), view.notes
    lab.cpi.update_server_group(apart, lab.metadata("anti-affinity", options={"vm_group": "web"}))
    assert lab.cpi.inspect_server_group(apart).state == "live"
    after = bed.operator.rules("z1")["web"]
    assert (type(after), after.enabled, after.mandatory) == (type(before), True, before.mandatory)
    assert {one._moId for one in after.vm} == {one._moId for one in before.vm}


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"mandatory": False}, "says should, not must"),
        ({"enabled": False}, "is switched off"),
        ({"affineHostGroupName": "two"}, "names the host group 'two', not 'one'"),
        ({"affineHostGroupName": "", "antiAffineHostGroupName": "one"}, "keeps VMs off those hosts, not on"),
    ],
    ids=["should", "off", "other hosts", "off the hosts"],
)
def test_a_rule_about_hosts_that_was_changed_is_drift_and_is_mended(
    bed: VsphereBed, lab: Lab, fields: dict[str, Any], word: str
) -> None:
    host_group(bed, lab, "one", 2)
    host_group(bed, lab, "two", 1)
    cid = lab.group("host-affinity", options=HOSTS)
    lab.vm(group=cid)
    edit(bed, "web.hosts", **fields)
    view = lab.cpi.inspect_server_group(cid)
    assert (view.state, word in view.notes[0]) == ("drifted", True), view.notes
    lab.cpi.update_server_group(cid, lab.metadata("host-affinity", options=HOSTS))
    assert lab.cpi.inspect_server_group(cid).state == "live"
    rule = bed.operator.rules("z1")["web.hosts"]
    assert (rule.enabled, rule.mandatory, rule.affineHostGroupName) == (True, True, "one")


def test_members_that_an_adopted_group_lost_are_drift_and_come_back(bed: VsphereBed, lab: Lab) -> None:
    theirs = bed.operator.create_group("operators-own", "host-affinity", "z1")
    lab.undo(bed.operator.delete, "server_group", theirs)
    options = {"vm_group": "operators-own", "adopt": True}
    cid = lab.group("host-affinity", options=options)
    vm = lab.vm(group=cid)
    bed.operator.rejoin(theirs, drop=[bed.operator.machine(vm)])
    view = lab.cpi.inspect_server_group(cid)
    assert (view.state, vm in view.notes[0]) == ("drifted", True)
    lab.cpi.update_server_group(cid, lab.metadata("host-affinity", options=options))
    view = lab.cpi.inspect_server_group(cid)
    assert (view.state, vm in {one.vm_cid for one in view.members}, len(view.members)) == ("live", True, 3)


def forget(bed: VsphereBed) -> None:
    """An administrator tidies up odd empty folders."""
    bed.operator.run(bed.operator.find(f"DC0/vm/coterie/{bed.director_uuid}/groups").UnregisterAndDestroy_Task())


@pytest.mark.parametrize("options", [{}, {"vm_group": "web"}], ids=["an automatic name", "the user's name"])
def test_a_group_whose_folder_was_deleted_is_repaired(bed: VsphereBed, lab: Lab, options: dict[str, str]) -> None:
    cid = lab.group("anti-affinity", options=options)
    vms = {lab.vm(group=cid) for _ in range(2)}
    forget(bed)
    assert lab.cpi.inspect_server_group(cid).state == "missing"
    with pytest.raises(GroupMissing) as caught:
        lab.vm(group=cid)
    assert "repair" in caught.value.remedy
    lab.cpi.update_server_group(cid, lab.metadata("anti-affinity", options=options))
    view = lab.cpi.inspect_server_group(cid)
    assert (view.state, {one.vm_cid for one in view.members}) == ("live", vms)
    vms.add(lab.vm(group=cid))
    assert {one.vm_cid for one in lab.cpi.inspect_server_group(cid).members} == vms


@pytest.mark.parametrize("options", [{}, {"vm_group": "web"}], ids=["an automatic name", "the user's name"])
def test_a_group_whose_folder_was_deleted_is_listed_and_leaves_nothing(
    bed: VsphereBed, lab: Lab, options: dict[str, str]
) -> None:
    host_group(bed, lab, "one", 2)
    mark = lab.mark()
    metadata = lab.metadata("anti-affinity", options={**options, "host_group": "one"})
    cid = lab.cpi.create_server_group(metadata, mark=mark)
    vms = [lab.vm(group=cid) for _ in range(2)]
    forget(bed)
    found = lab.cpi.find("server_group", mark)
    assert found is not None
    assert (found.cid, set(found.in_use_by or ())) == (cid, set(vms))
    listed = {one.cid for one in lab.cpi.survey("server_group", bed.director_uuid).objects}
    assert (cid in listed) is not bool(options)  # a name of the user's bears no mark; the ledger knows it
    for vm in vms:
        lab.cpi.delete_vm(vm)
    lab.cpi.delete_server_group(cid)
    assert (names(bed), set(bed.operator.rules("z1"))) == ({"one"}, set())


def test_a_group_of_the_users_name_that_nothing_remembers_is_neither_listed_nor_touched(
    bed: VsphereBed, lab: Lab
) -> None:
    """Its folder was deleted, and the ledger is another one: it could be an administrator's."""
    mark = lab.mark()
    cid = lab.cpi.create_server_group(lab.metadata("anti-affinity", options={"vm_group": "web"}), mark=mark)
    vms = [lab.vm(group=cid) for _ in range(2)]
    forget(bed)
    stranger = VsphereCpi("lab", bed.properties(), Runtime(bed.director_uuid, bed.runtime().coordinator))
    assert stranger.find("server_group", mark) is None
    assert stranger.survey("server_group", bed.director_uuid).objects == ()
    for vm in vms:
        stranger.delete_vm(vm)
    stranger.delete_server_group(cid)
    assert (names(bed), set(bed.operator.rules("z1"))) == ({"web"}, {"web"})
    bed.operator.remove("DC0_C0/web")


def test_a_rule_that_was_left_alone_is_listed_and_deleted(bed: VsphereBed, lab: Lab) -> None:
    mark = lab.mark()
    cid = lab.cpi.create_server_group(lab.metadata("anti-affinity"), mark=mark)
    vms = [lab.vm(group=cid) for _ in range(2)]
    cluster, name = bed.operator.cluster("z1"), drs_name(lab, cid).partition("/")[2]
    removal = vim.cluster.ConfigSpecEx(groupSpec=[vim.cluster.GroupSpec(operation="remove", removeKey=name)])
    bed.operator.run(cluster.ReconfigureComputeResource_Task(removal, True))
    forget(bed)
    assert [one.cid for one in lab.cpi.survey("server_group", bed.director_uuid).objects] == [cid]
    for vm in vms:
        lab.cpi.delete_vm(vm)
    lab.cpi.delete_server_group(cid)
    assert bed.operator.rules("z1") == {}


@pytest.fixture
def tied(bed: VsphereBed, lab: Lab) -> Iterator[tuple[str, str]]:
    """A group, and a VM in it; an administrator's rule names the group."""
    host_group(bed, lab, "licensed", 2)
    cid = lab.group("host-affinity")
    vm = lab.vm(group=cid)
    name = f"kit.broker.{cid}"
    info = vim.cluster.VmHostRuleInfo(name="theirs", enabled=True, vmGroupName=name, affineHostGroupName="licensed")
    write(bed, "add", info)
    yield cid, vm
    bed.operator.remove_rule("z1", "theirs")


def test_a_group_that_an_administrators_rule_names_is_deleted_without_it(
    bed: VsphereBed, lab: Lab, tied: tuple[str, str]
) -> None:
    cid, vm = tied
    resources = lab.cpi.inspect_server_group(cid).resources
    assert [one.cid for one in resources if one.kind == "rule" and not one.created_by_us] == ["DC0_C0/theirs"]
    lab.cpi.delete_vm(vm)
    lab.cpi.delete_server_group(cid)
    assert (names(bed), set(bed.operator.rules("z1"))) == ({"licensed"}, {"theirs"})


def test_the_last_vm_leaves_a_group_that_an_administrators_rule_names(
    bed: VsphereBed, lab: Lab, tied: tuple[str, str]
) -> None:
    cid, vm = tied
    lab.cpi.change_server_group(vm, None)
    assert list(bed.operator.group(f"DC0_C0/kit.broker.{cid}").vm) == []
    lab.cpi.change_server_group(vm, cid)
    assert [one.vm_cid for one in lab.cpi.inspect_server_group(cid).members] == [vm]


def test_what_an_administrator_adds_and_drops_while_we_write_is_put_back(bed: VsphereBed, lab: Lab) -> None:
    cid = lab.group("host-affinity")
    lab.vm(group=cid)
    where = drs_name(lab, cid)
    stays, comes = (bed.operator.boot("admin", "z1") for _ in range(2))
    for one in (stays, comes):
        lab.undo(bed.operator.delete, "vm", bed.operator.get(one, "config.instanceUuid"))
    bed.operator.rejoin(where, add=[stays])
    bed.server.forget_calls()
    bed.server.bend(RECONFIGURE, "slow", ms=700, user="root")
    joining = threading.Thread(target=lab.vm, kwargs={"group": cid})
    hands = type(bed.operator)(bed.server, {"z1": "DC0_C0"}, user="administrator")
    joining.start()
    while RECONFIGURE not in bed.server.methods():
        time.sleep(0.01)
    hands.rejoin(where, add=[comes], drop=[stays])
    joining.join()
    hands.close()
    present = {one._moId for one in bed.operator.group(where).vm}
    assert (comes._moId in present, stays._moId in present, len(present)) == (True, False, 3)
    ((kind, body),) = bed.reports
    added, dropped = (str(bed.operator.get(one, "name")) for one in (comes, stays))
    group = where.partition("/")[2]
    told = f"another client added {added} and took out {dropped} in DRS group {group!r} of cluster DC0_C0"
    assert (kind, told in body) == ("group.restored", True), body


def test_what_could_not_be_put_back_is_told(bed: VsphereBed, lab: Lab) -> None:
    cid = lab.group("host-affinity")
    lab.vm(group=cid)
    where = drs_name(lab, cid)
    comes = bed.operator.boot("admin", "z1")
    lab.undo(bed.operator.delete, "vm", bed.operator.get(comes, "config.instanceUuid"))
    bed.server.forget_calls()
    bed.server.bend(RECONFIGURE, "slow", ms=700, user="root")
    joining = threading.Thread(target=lab.vm, kwargs={"group": cid})
    hands = type(bed.operator)(bed.server, {"z1": "DC0_C0"}, user="administrator")
    joining.start()
    while RECONFIGURE not in bed.server.methods():
        time.sleep(0.01)
    hands.rejoin(where, add=[comes])
    bed.server.bend(RECONFIGURE, "fault", fault="ConcurrentAccess", user="root")
    joining.join()
    hands.close()
    assert [kind for kind, _ in bed.reports] == ["group.overwritten"], bed.reports
    assert (str(bed.operator.get(comes, "name")) in bed.reports[0][1], "ConcurrentAccess" in bed.reports[0][1]) == (
        True,
        True,
    )


def test_what_an_administrator_adds_between_our_reading_and_our_write_stays(bed: VsphereBed, lab: Lab) -> None:
    """The write is planned again if the group is another than the one that it was planned for."""
    cid = lab.group("host-affinity")
    lab.vm(group=cid)
    where = drs_name(lab, cid)
    added = bed.operator.boot("admin", "z1")
    lab.undo(bed.operator.delete, "vm", bed.operator.get(added, "config.instanceUuid"))
    once: list[str] = []
    hold = LedgerCoordinator.hold

    def hold_after_them(self: Any, domain: str) -> None:
        if not once:
            once.append(domain)
            bed.operator.rejoin(where, add=[added])
        hold(self, domain)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LedgerCoordinator, "hold", hold_after_them)
        lab.vm(group=cid)
    assert added._moId in {one._moId for one in bed.operator.group(where).vm}
    assert len(bed.operator.group(where).vm) == 3
