"""The role in the documents allows every request of a life of everything, and nothing that none of them needs."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from peers.gcp_bed import PUBLIC_IMAGE, GcpBed
from ruamel.yaml import YAML

from coterie.cpi.conformance.lab import Lab
from coterie.cpi.contract import Needs, NoPlacement, SecurityGroup
from coterie.cpi.drivers.gcp.checks import RIGHTS

ROLE = Path(__file__).parents[4] / "docs" / "gcp-role.yaml"
# What no method shows: rights to name a resource in the body of another's request.
UNSEEN = {
    "compute.addresses.use",
    "compute.disks.use",
    "compute.disks.createSnapshot",
    "compute.images.useReadOnly",
    "compute.images.setLabels",
    "compute.images.getFromFamily",
    "compute.instances.setServiceAccount",
    "compute.networks.updatePolicy",
    "compute.resourcePolicies.use",
    "compute.snapshots.setLabels",
    "compute.subnetworks.use",
    "compute.subnetworks.useExternalIp",
}
_WORDS = {"insert": "create", "aggregatedList": "list", "wait": "get", "patch": "update", "listNodes": "get"}
WEB = SecurityGroup("kit-web", ({"protocol": "tcp", "ports": "80", "cidr": "10.0.0.0/8"},))


def right_of(method: str) -> str:
    kind, _, action = method.partition(".")
    return f"compute.{kind}.{_WORDS.get(action, action)}"


def test_the_role_is_what_the_driver_needs_and_what_check_asks_for(bed: GcpBed, lab: Lab) -> None:
    public, _ = bed.operator.create_public_address("public"), bed.operator.create_nodes("licensed", "z1", 1)
    used = set[str]()
    bed.front.watch = lambda method: used.add(right_of(method))
    live(bed, lab, public)
    bed.front.watch = lambda method: None
    used = {one for one in used if not one.startswith("compute.objects.")}  # the bucket has rights of its own
    allowed = YAML(typ="safe").load(ROLE.read_text())["includedPermissions"]
    assert sorted(allowed) == sorted(RIGHTS)
    assert len(set(allowed)) == len(allowed)
    assert used - set(allowed) == set()
    assert set(allowed) - used == UNSEEN


def live(bed: GcpBed, lab: Lab, public: str) -> None:
    """Everything that a deployment can ask for."""
    bed.more["policies"] = ["anti-affinity", "soft-anti-affinity", "host-affinity"]
    cpi = bed.open()
    cpi.check(Needs(groups=({"name": "x", "policy": "anti-affinity", "options": {"name": "y", "adopt": True}},)))
    group = lab.group("anti-affinity", security_groups=[WEB])
    networks = {**bed.networks(lab.az, lab.address()), "public": {"type": "vip", "ip": public}}
    vm, disk = lab.vm(group=group, networks=networks), lab.disk()
    cpi.attach_disk(vm, disk)
    cpi.detach_disk(vm, disk)
    cpi.set_vm_metadata(vm, {"a": "B b"})
    cpi.set_disk_metadata(disk, {"a": "b"})
    cpi.update_disk(disk, 2048, {"iops": 3000})
    cpi.delete_snapshot(cpi.snapshot_disk(disk, {}, mark=lab.mark()))
    cpi.reboot_vm(vm)
    path = f"zones/z1/instances/{vm.split('/')[1]}"
    for action in ("stop", "suspend"):
        found = bed.front.shelf.get(path)
        assert found
        found.row["status"] = {"stop": "TERMINATED", "suspend": "SUSPENDED"}[action]
        bed.front.shelf.put(found)
        cpi.reboot_vm(vm)
    with suppress(NoPlacement):
        lab.vm(cloud_properties=bed.huge_vm_properties(lab.az))
    lab.vm(
        stemcell_cid=PUBLIC_IMAGE,
        networks={"default": {"type": "dynamic", "cloud_properties": {"network_name": "default"}}},
    )
    cpi.calculate_vm_cloud_properties({"cpu": 1, "ram": 512, "ephemeral_disk_size": 1024})
    cpi.update_server_group(group, lab.metadata("anti-affinity", security_groups=[SecurityGroup("kit-ssh")]))
    nodes = cpi.create_server_group(
        lab.metadata("host-affinity", options={"name": "licensed", "adopt": True}), mark=lab.mark()
    )
    cpi.inspect_server_group(nodes)
    cpi.delete_network(cpi.create_network(bed.subnet(), mark=lab.mark()).cid)
    for kind in ("vm", "disk", "snapshot", "image", "server_group", "security_group", "network"):
        cpi.survey(kind, bed.director_uuid)  # type: ignore[arg-type] # words of the contract
    cpi.delete_vm(vm)
    cpi.delete_server_group(group)
    cpi.delete_disk(disk)
    cpi.delete_stemcell(lab.image())
