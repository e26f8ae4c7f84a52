"""Starting, stopping and rebooting VMs, and changing what only a stopped one lets change."""

from __future__ import annotations

from coterie.sandbox import membership, placement, records, vms
from coterie.sandbox.api import work_of
from coterie.sandbox.fit import Demand
from coterie.sandbox.fronts.cloudstack import places, shelf
from coterie.sandbox.fronts.cloudstack.call import Call
from coterie.sandbox.fronts.cloudstack.command_table import answers, job
from coterie.sandbox.fronts.cloudstack.deploy_request import groups, security_groups
from coterie.sandbox.fronts.cloudstack.entities import inner_id, outer_id
from coterie.sandbox.fronts.cloudstack.listing import Row, records_of
from coterie.sandbox.fronts.cloudstack.machine_rows import machine_row, nic_id, state_of
from coterie.sandbox.fronts.cloudstack.nat import addresses_of_vm
from coterie.sandbox.fronts.cloudstack.refusals import CAPACITY, INTERNAL, ApiError, refuse
from coterie.sandbox.nics import replug
from coterie.sandbox.security_groups import protect, unprotect
from coterie.sandbox.twist import Tx
from coterie.sandbox.vm_shape import SHAPE, Vm


@job("startVirtualMachine")
def start_machine(call: Call, wanted: str) -> Row:
    _require(call.tx, wanted, "Stopped", "Running")
    start(call, wanted, places.find_host(call.tx, call.params["hostid"]) if "hostid" in call.params else None)
    return machine_row(call.tx, fetch(call.tx, wanted))


@job("stopVirtualMachine")
def stop_machine(call: Call, wanted: str) -> Row:
    _require(call.tx, wanted, "Running", "Stopped", "Error")
    stop(call.tx, fetch(call.tx, wanted))
    return machine_row(call.tx, fetch(call.tx, wanted))


@job("rebootVirtualMachine")
def reboot_machine(call: Call, wanted: str) -> Row:
    _require(call.tx, wanted, "Running")
    work_of(vms.reboot_vm)(call.tx, inner_id("vm", wanted))
    return machine_row(call.tx, fetch(call.tx, wanted))


@job("migrateVirtualMachine")
def migrate(call: Call, wanted: str) -> Row:
    """An administrator may start a VM on any host, even against anti-affinity."""
    found = _require(call.tx, wanted, "Running")
    call.needs("hostid")
    stop(call.tx, found)
    start(call, wanted, places.find_host(call.tx, call.params["hostid"]))
    return machine_row(call.tx, fetch(call.tx, wanted))


@job("updateVMAffinityGroup")
def change_groups(call: Call, wanted: str) -> Row:
    """These groups and no others, and only while the VM is stopped."""
    found = _require(call.tx, wanted, "Stopped", why="Unable update affinity groups, unless VM is stopped")
    membership.leave_all(call.tx, found.seq, found.host)
    for group in groups(call):
        membership.join(call.tx, group, found.seq)
    return machine_row(call.tx, fetch(call.tx, wanted))


def _owner_of_nic(call: Call) -> str:
    wanted = str(call.params["nicid"])
    for vm in records_of(call.tx, SHAPE):
        if wanted in [nic_id(vm, nic) for nic in vm.nics]:
            return outer_id(vm.id)
    raise refuse(f"There is no nic with id {wanted}")


@job("updateVmNicIp", begin=_owner_of_nic)
def change_address(call: Call, wanted: str) -> Row:
    """Only while the VM is stopped; without an address the network picks one."""
    found = _require(call.tx, wanted, "Stopped", why="VM is not Stopped, unable to update the vm nic")
    if addresses_of_vm(call.tx, wanted):
        raise refuse("Static NAT is enabled for the nic's address; disable it first")
    wanted_nic = next(nic for nic in found.nics if nic_id(found, nic) == call.params["nicid"])
    replug(call.tx, found.seq, wanted_nic, call.get("ipaddress"))
    return machine_row(call.tx, fetch(call.tx, wanted))


@answers("updateVirtualMachine", writes=True)
def update(call: Call) -> Row:
    wanted = call.params["id"]
    found = fetch(call.tx, wanted)
    if "securitygroupids" in call.params or "securitygroupnames" in call.params:
        _require(call.tx, wanted, "Stopped", why="Virtual machine must be stopped prior to update security groups")
        unprotect(call.tx, found.seq)
        protect(call.tx, found.seq, security_groups(call, str(found.zone)))
    if "displayname" in call.params:
        shelf.note(call.tx, wanted, displayname=call.params["displayname"])
    return machine_row(call.tx, fetch(call.tx, wanted))


def start(call: Call, wanted: str, host: str | None) -> None:
    """On this host, or on the one that the scheduler finds."""
    tx = call.tx
    found = fetch(tx, wanted)
    if found.state == "running":
        return
    groups = [] if call.flag("coterie.forget.affinity") else membership.groups_of(tx, found.seq)
    size = Demand(found.cpu, found.ram_mb, found.disk_mb, found.zone)
    chosen = host or placement.find_host(tx, size, groups)
    _require_storage(tx, wanted, chosen)
    if tx.twist.broken_vm:
        raise ApiError(INTERNAL, "Unable to start a VM due to an injected fault")
    placement.claim(tx, chosen, size, membership.groups_of(tx, found.seq))
    tx.db.execute("UPDATE vms SET state = 'running', ready_at = 0, host = ? WHERE object = ?", (chosen, found.seq))
    shelf.note(tx, wanted, state=None)
    records.revise(tx, found.seq)


def stop(tx: Tx, vm: Vm) -> None:
    """Off its host; a stopped VM takes no room and keeps its addresses and memberships."""
    if vm.host is None:
        return
    placement.release(tx, vm.host, Demand(vm.cpu, vm.ram_mb, vm.disk_mb, vm.zone))
    for group in membership.groups_of(tx, vm.seq):
        placement.count_member(tx, group, vm.host, -1)
    tx.db.execute("UPDATE vms SET state = 'stopped', host = NULL WHERE object = ?", (vm.seq,))
    records.revise(tx, vm.seq)


def fetch(tx: Tx, wanted: str) -> Vm:
    return records.fetch(tx, SHAPE, inner_id("vm", wanted))


def _require(tx: Tx, wanted: str, *states: str, why: str = "") -> Vm:
    found = fetch(tx, wanted)
    state = state_of(found, shelf.doc_of(tx.db, wanted))
    if state not in states:
        raise refuse(f"{why or 'the command does not fit'}: VM {wanted} is in state {state}")
    return found


def _require_storage(tx: Tx, wanted: str, host: str) -> None:
    """A volume on local storage is on one host, and so must be the VM that has it."""
    for row in tx.db.execute(
        "SELECT t.doc ->> 'host' FROM disks d JOIN objects o ON o.seq = d.object JOIN objects v ON v.seq = d.vm "
        "JOIN cloudstack_things t ON o.id = 'disk-' || t.id WHERE v.id = ?",
        (inner_id("vm", wanted),),
    ).fetchall():
        if row[0] and row[0] != host:
            raise ApiError(CAPACITY, f"a volume of VM {wanted} is on local storage of another host than {host}")
