"""NICs of VMs: on port groups of one host's switch, by name; on those of a distributed switch, by key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from peers.vsphere_bed import VsphereBed
from pyVmomi import vim
from tests.peers.vcenter import vcenter

from coterie.cpi.conformance.expect import expect_error
from coterie.cpi.conformance.lab import Lab
from coterie.cpi.contract import InvalidCall, NetworkNotFound

SWITCHED = "DC0_DVPG0"


def on(*port_groups: str) -> dict[str, Any]:
    return {
        f"net{number}": {"type": "manual", "ip": f"127.20.0.{number + 1}", "cloud_properties": {"name": name}}
        for number, name in enumerate(port_groups)
    }


def backings(bed: VsphereBed, cid: str) -> list[Any]:
    devices = bed.operator.get(bed.operator.machine(cid), "config.hardware.device")
    return [one.backing for one in devices if isinstance(one, vim.vm.device.VirtualEthernetCard)]


def test_a_nic_on_a_distributed_switch_is_tied_to_the_port_groups_key(bed: VsphereBed, lab: Lab) -> None:
    cid = lab.vm(networks=on(SWITCHED, "VM Network"))
    switched, plain = backings(bed, cid)
    port_group = bed.operator.find(f"DC0/network/{SWITCHED}")
    switch = bed.operator.get(port_group, "config.distributedVirtualSwitch")
    assert switched.port.portgroupKey == bed.operator.get(port_group, "key")
    assert switched.port.switchUuid == bed.operator.get(switch, "uuid")
    assert plain.deviceName == "VM Network"


def test_networks_of_one_nic_group_share_a_nic_of_one_port_group(bed: VsphereBed, lab: Lab) -> None:
    shared = {name: {**spec, "nic_group": "lan"} for name, spec in on("VM Network", "VM Network").items()}
    alone = {"aside": {"type": "manual", "ip": "127.20.0.9", "cloud_properties": {"name": "VM Network"}}}
    order = lab.vm_arguments(networks={**shared, **alone})
    made = lab.cpi.create_vm(**order)
    lab.undo(lab.cpi.delete_vm, made.cid)
    assert len(backings(bed, made.cid)) == 2
    macs = [made.networks[name]["mac"] for name in ("net0", "net1", "aside")]
    assert (macs[0] == macs[1], macs[1] == macs[2]) == (True, False)
    apart = {name: {**spec, "nic_group": "lan"} for name, spec in on("VM Network", SWITCHED).items()}
    error = expect_error(InvalidCall, lambda: lab.vm(networks=apart))
    assert "networks.net1.nic_group" in error.what


def test_a_port_group_that_is_not_there_is_named_with_those_that_are(bed: VsphereBed, lab: Lab) -> None:
    error = expect_error(NetworkNotFound, lambda: lab.vm(networks=on("nobody-has-this")))
    assert "nobody-has-this" in error.what
    assert SWITCHED in error.remedy


def test_a_name_that_two_port_groups_have_is_refused(tmp_path: Path) -> None:
    with vcenter() as server:
        bed = VsphereBed(tmp_path, server)
        lab = Lab(bed)
        folder = bed.operator.find("DC0/network").CreateFolder("aside")
        config = vim.DistributedVirtualSwitch.ConfigSpec(name="aside")
        switch = bed.operator.run(folder.CreateDVS_Task(vim.DistributedVirtualSwitch.CreateSpec(configSpec=config)))
        order = vim.dvs.DistributedVirtualPortgroup.ConfigSpec(name="VM Network", type="earlyBinding", numPorts=1)
        bed.operator.run(switch.AddDVPortgroup_Task([order]))
        error = expect_error(InvalidCall, lambda: lab.vm(networks=on("VM Network")))
        assert "more than one" in error.what
        bed.operator.run(switch.Destroy_Task())
        bed.operator.run(folder.Destroy_Task())
        lab.close()
        bed.close()
