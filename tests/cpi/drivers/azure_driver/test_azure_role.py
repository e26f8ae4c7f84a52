"""The role in the documents allows every request of a life of everything, and nothing that none of them needs."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

from peers.azure_bed import AzureBed, Witness

from coterie.cpi.conformance.lab import Lab
from coterie.cpi.contract import Cpi, Needs, NoPlacement, SecurityGroup

ROLE = Path(__file__).parents[4] / "docs" / "azure-role.json"
# What no path shows: rights to name a resource in the body of another's request, and light stemcells, which the front
# has none of.
UNSEEN = {
    "Microsoft.Network/networkInterfaces/join/action",
    "Microsoft.Network/networkSecurityGroups/join/action",
    "Microsoft.Network/applicationSecurityGroups/joinIpConfiguration/action",
    "Microsoft.Network/applicationSecurityGroups/joinNetworkSecurityRule/action",
    "Microsoft.Network/publicIPAddresses/join/action",
    "Microsoft.Network/virtualNetworks/subnets/join/action",
    "Microsoft.Compute/galleries/images/versions/read",
}
VERBS = {"GET": "read", "PUT": "write", "PATCH": "write", "DELETE": "delete", "POST": "action"}
WEB = SecurityGroup("kit-web", ({"protocol": "tcp", "ports": "80", "cidr": "10.0.0.0/8"},))
ASKED = Needs(groups=({"name": "x", "policy": "anti-affinity", "options": {"name": "y", "adopt": True}},))


def action_of(method: str, path: str) -> str:
    _, found, rest = path.partition("/providers/")
    if not found:
        return "microsoft.resources/subscriptions/resourcegroups/read"
    provider, *parts = rest.lower().split("/")
    return "/".join([provider, *parts[::2], VERBS[method]])


def test_the_role_is_what_the_driver_needs(bed: AzureBed, lab: Lab) -> None:
    public = bed.operator.create_public_address("public")
    front, used = bed.peer.front, set[str]()
    front.watch = lambda method, path: used.add(action_of(method, path))
    bed.more |= {"spread": "scale-set", "settle_s": 0.1}
    move(bed.open(), lab)
    bed.more.clear()
    live(bed, lab, public)
    used.remove("microsoft.compute/virtualmachines/deallocate/action")  # the operator's
    allowed = {one.lower() for one in json.loads(ROLE.read_text())["Actions"]}
    assert used - allowed == set()
    assert allowed - used == {one.lower() for one in UNSEEN}


def live(bed: AzureBed, lab: Lab, public: str) -> None:
    """Everything that a deployment can ask for."""
    cpi = lab.cpi
    cpi.check(ASKED)
    group = lab.group(security_groups=[WEB])
    networks = {**bed.networks(lab.az, lab.address()), "public": {"type": "vip", "ip": public}}
    vm, disk = lab.vm(group=group, networks=networks), lab.disk()
    cpi.attach_disk(vm, disk)
    cpi.detach_disk(vm, disk)
    cpi.set_vm_metadata(vm, {"a": "b"})
    cpi.set_disk_metadata(disk, {"a": "b"})
    cpi.resize_disk(disk, 2048)
    cpi.delete_snapshot(cpi.snapshot_disk(disk, {}, mark=lab.mark()))
    cpi.reboot_vm(vm)
    bed.operator.deallocate(vm)
    cpi.reboot_vm(vm)
    with suppress(NoPlacement):  # its NIC is deleted by itself, and the sizes of the set are told
        lab.vm(group=group, cloud_properties=bed.huge_vm_properties(lab.az))
    cpi.survey("image", bed.director_uuid)
    cpi.calculate_vm_cloud_properties({"cpu": 1, "ram": 512, "ephemeral_disk_size": 1024})
    cpi.update_server_group(group, lab.metadata(security_groups=[SecurityGroup("kit-web", ())]))
    cpi.delete_vm(vm)
    cpi.delete_server_group(group)
    cpi.delete_disk(disk)
    cpi.delete_stemcell(lab.image())


def move(cpi: Cpi, lab: Lab) -> None:
    """With server groups that are scale sets."""
    group = cpi.create_server_group(lab.metadata("soft-anti-affinity"), mark=lab.mark())
    vm = cpi.create_vm(**lab.vm_arguments()).cid
    cpi.change_server_group(vm, group)
    cpi.change_server_group(vm, None)
    cpi.delete_vm(vm)
    cpi.survey("server_group", lab.bed.director_uuid)
    cpi.delete_server_group(group)


def test_no_right_stands_twice_and_none_has_a_wildcard() -> None:
    actions = json.loads(ROLE.read_text())["Actions"]
    assert len(set(actions)) == len(actions)
    assert not [one for one in actions if "*" in one]


def test_a_witness_without_a_token_is_refused(bed: AzureBed) -> None:
    witness = Witness(bed.peer)
    bed.peer.identity.expire()
    try:
        witness.ask("GET", "/subscriptions/x/resourceGroups/y/providers/Microsoft.Compute/disks")
    except LookupError as error:
        assert "ExpiredAuthenticationToken" in str(error)
    else:
        raise AssertionError("an expired token was taken")
