"""What the guest itself sees: settings, address, disks, their size, and the data after it was made anew."""

from __future__ import annotations

import urllib.error
from typing import Any

from peers.incus_bed import CLUSTER, IncusBed
from peers.incus_operator import VOLUMES
from tests.cpi.drivers.incus.guest import facts, get

from coterie.cpi.conformance.lab import Lab
from coterie.cpi.contract import SecurityGroup


def machine(lab: Lab, ip: str, **more: Any) -> str:
    return lab.vm(networks=lab.bed.networks("z1", ip), **more)


def test_a_guest_has_its_settings_and_its_address(lab: Lab) -> None:
    ip = str(lab.bed.address("z1"))
    arguments = lab.vm_arguments(networks=lab.bed.networks("z1", ip))
    vm = lab.cpi.create_vm(**arguments).cid
    lab.undo(lab.cpi.delete_vm, vm)
    found = facts(ip)
    assert found["hostname"] == vm
    assert found["agent_id"] == arguments["agent_id"]
    assert found["address"] == f"{ip}/16"
    assert get(ip, "/health") == "ok\n"


def test_data_survives_a_new_machine_at_the_same_address(bed: IncusBed, lab: Lab) -> None:
    ip = str(bed.address("z1"))
    first, disk = machine(lab, ip), lab.disk()
    facts(ip)
    lab.cpi.attach_disk(first, disk)
    store = {"path": "/var/vcap/store", "mounted": True}
    facts(ip, store={**store, "files": []})
    assert get(ip, "/cgi-bin/write?hello") == "written\n"
    facts(ip, store={**store, "files": ["hello"]})
    home = bed.operator.locations(first)
    lab.cpi.delete_vm(first)
    second = machine(lab, ip, disk_cids=[disk])
    lab.cpi.attach_disk(second, disk)
    facts(ip, hostname=second, store={**store, "files": ["hello"]})
    assert bed.operator.locations(second) == home
    lab.cpi.detach_disk(second, disk)
    facts(ip, store={"path": "/var/vcap/store", "mounted": False, "files": []})


def test_data_comes_along_to_another_cluster_group(bed: IncusBed, lab: Lab) -> None:
    """With its snapshots; and the volume where it was is gone."""
    ip = str(bed.address("z1"))
    first, disk = machine(lab, ip), lab.disk()
    lab.cpi.attach_disk(first, disk)
    store = {"path": "/var/vcap/store", "mounted": True}
    facts(ip, store={**store, "files": []})
    assert get(ip, "/cgi-bin/write?hello") == "written\n"
    assert get(ip, "/cgi-bin/write?big=40", 20) == "written\n"
    snapshot = lab.cpi.snapshot_disk(disk, {}, mark=lab.mark())
    lab.cpi.delete_vm(first)
    there = str(bed.address("z2"))
    second = lab.vm("z2", networks=bed.networks("z2", there), disk_cids=[disk])
    assert bed.operator.locations(second) == ["inc3"]
    lab.cpi.attach_disk(second, disk)
    facts(there, store={**store, "files": ["big", "hello"]})
    assert [row["location"] for row in bed.operator.rows(VOLUMES)] == ["inc3", "inc3"]
    (found,) = lab.cpi.survey("snapshot", bed.director_uuid).objects
    assert found.cid == snapshot
    lab.cpi.detach_disk(second, disk)
    lab.cpi.delete_snapshot(snapshot)


def test_a_disk_is_as_large_as_requested_and_grows(lab: Lab) -> None:
    ip = str(lab.bed.address("z1"))
    vm = machine(lab, ip)
    disk = lab.cpi.create_disk(64, {}, vm, mark=lab.mark())
    lab.undo(lab.cpi.delete_disk, disk)
    lab.cpi.attach_disk(vm, disk)
    facts(ip)
    try:
        get(ip, "/cgi-bin/write?big=100", 20)
    except urllib.error.HTTPError as error:
        assert error.code == 507
    else:
        raise AssertionError("100 MiB fit on a disk of 64")
    lab.cpi.detach_disk(vm, disk)
    lab.cpi.resize_disk(disk, 256)
    lab.cpi.attach_disk(vm, disk)
    assert get(ip, "/cgi-bin/write?big=100", 20) == "written\n"
    lab.cpi.detach_disk(vm, disk)


def test_rules_of_a_security_group_reach_the_guest_in_place(lab: Lab) -> None:
    def rules(port: str) -> SecurityGroup:
        return SecurityGroup("guest-web", ({"protocol": "tcp", "ports": port, "cidr": f"{CLUSTER.guests}.0.0/16"},))

    lab.needs_security_groups()
    group, ip = lab.group(security_groups=[rules("80")]), str(lab.bed.address("z1"))
    machine(lab, ip, group=group)
    facts(ip)
    lab.cpi.update_server_group(group, lab.metadata(security_groups=[rules("443")]))
    try:
        get(ip, "/health", 1.0)
    except OSError:
        pass
    else:
        raise AssertionError("port 80 is still open")
    lab.cpi.update_server_group(group, lab.metadata(security_groups=[rules("80")]))
    facts(ip)


def test_a_rebooted_guest_answers_again(lab: Lab) -> None:
    ip = str(lab.bed.address("z1"))
    vm = machine(lab, ip)
    facts(ip)
    lab.cpi.reboot_vm(vm)
    facts(ip, hostname=vm)


def test_a_guest_that_says_it_is_ready_runs(bed: IncusBed, lab: Lab) -> None:
    """Incus then shows another state. Here its own note of that is written, as the guest's request does."""
    arguments = lab.vm_arguments()
    vm = lab.cpi.create_vm(**arguments).cid
    lab.undo(lab.cpi.delete_vm, vm)
    bed.operator.call("PATCH", f"/1.0/instances/{vm}", {"config": {"volatile.last_state.ready": "true"}})
    assert bed.operator.call("GET", f"/1.0/instances/{vm}")["status"] == "Ready"
    (found,) = lab.cpi.survey("vm", bed.director_uuid).objects
    assert found.state == "running"
    assert lab.cpi.create_vm(**arguments).cid == vm, "it is whole, not half-made"
    lab.cpi.reboot_vm(vm)
