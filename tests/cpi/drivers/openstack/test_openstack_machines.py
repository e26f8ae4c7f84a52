"""One VM with all that a manifest may ask for, as Nova and Neutron have it."""

from __future__ import annotations

import base64
import json
from functools import partial

from peers.openstack_bed import OpenstackBed
from tests.peers.openstack.plane import admin

from coterie.cpi.conformance.expect import together
from coterie.cpi.conformance.lab import Lab


def test_nics_key_hints_names_tags_and_a_public_address(bed: OpenstackBed, lab: Lab) -> None:
    tenant = bed.tenant
    key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDuRarZnRJUz5VFrCszxlkowqY/VWhemiuRpNjD+8mdO"
    second = tenant.call("POST", "neutron", "/networks", {"network": {"name": "second"}})["network"]["id"]
    subnet = {"network_id": second, "ip_version": 4, "cidr": "10.30.0.0/24", "enable_dhcp": False}
    tenant.call("POST", "neutron", "/subnets", {"subnet": subnet})
    public = bed.floating_ip()
    networks = {
        **bed.networks("z1", "10.20.3.3"),
        "back": {
            "type": "manual",
            "ip": "10.30.0.9",
            "netmask": "255.255.255.0",
            "cloud_properties": {"net_id": second},
        },
        "public": {"type": "vip", "ip": public, "cloud_properties": {}},
    }
    networks["default"]["default"] = ["dns", "gateway"]
    properties = {**bed.vm_properties("z1"), "public_key": key, "config_drive": True, "metadata": {"colour": "blue"}}
    vm = lab.vm(cloud_properties=properties, networks=networks)
    lab.cpi.set_vm_metadata(vm, {"deployment": "dep", "job": "broker", "index": "0", "name": "broker/0"})
    server = bed.operator.server(vm)
    ports = {one["network_id"]: one["fixed_ips"][0]["ip_address"] for one in bed.operator.listed("port")}
    assert ports == {tenant.network: "10.20.3.3", second: "10.30.0.9"}
    assert server["OS-EXT-AZ:availability_zone"] == "z1"
    assert server["config_drive"] == "True"
    assert server["metadata"]["colour"] == "blue"
    assert server["metadata"]["deployment"] == "dep"
    assert "broker" in server["name"]
    assert bed.director_uuid in json.dumps(server["tags"])
    (address,) = bed.operator.listed("ip")
    assert address["fixed_ip_address"] == "10.20.3.3"
    lab.cpi.delete_vm(vm)
    (address,) = bed.operator.listed("ip")
    assert address["port_id"] is None
    bed.operator.delete("ip", address["id"])
    tenant.call("DELETE", "neutron", f"/networks/{second}")


def test_the_agents_settings_reach_the_vm_and_nothing_else(bed: OpenstackBed, lab: Lab) -> None:
    secret = "not-for-everyone"
    vm = lab.vm(env={"bosh": {"password": secret}})
    server = admin().get("nova", f"/servers/{vm}")["server"]
    text = base64.b64decode(server.pop("OS-EXT-SRV-ATTR:user_data")).decode()
    assert secret in text
    assert secret not in json.dumps([server, bed.operator.server(vm)])


def test_two_calls_for_one_vm_with_two_nics_without_addresses_make_one(bed: OpenstackBed, lab: Lab) -> None:
    nic = {"type": "dynamic", "cloud_properties": {"net_id": bed.tenant.network}}
    arguments = lab.vm_arguments(networks={"front": {**nic, "default": ["gateway"]}, "back": dict(nic)})
    first, second = together([partial(bed.open().create_vm, **arguments) for _ in range(2)])
    lab.undo(lab.cpi.delete_vm, first.cid)
    assert first.cid == second.cid
    ports = bed.operator.listed("port")
    assert {one["device_id"] for one in ports} == {first.cid}
    addresses = {one["fixed_ips"][0]["ip_address"] for one in ports}
    assert len(addresses) == 2
    for answer in (first, second):
        assert {one["ip"] for one in answer.networks.values()} == addresses
