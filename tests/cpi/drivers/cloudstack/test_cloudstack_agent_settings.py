"""What a VM reads of itself: where its userdata is, found out from its networks; all public keys; and a registry for
agents of old. Read as the VM reads it."""

from __future__ import annotations

import base64
import http.client
import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from peers.agent_rules import AGENT, TWO_NICS_AND_A_VIP, broken_rules
from peers.cloudstack_bed import CloudstackBed
from tests.cpi.drivers.cloudstack import keys

from coterie.cpi.conformance.expect import expect_error
from coterie.cpi.conformance.lab import Lab
from coterie.cpi.contract import NotSupported
from coterie.cpi.kit.key_pairs import public_half

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIA somebody"
DATA_SERVER = {"type": "http", "url": "http://data-server./latest/user-data"}
DHCP = {"type": "dhcp-server", "path": "/latest/user-data"}
DRIVE = {"type": "config-drive", "path": "/cloudstack/userdata/user_data.txt"}


def agent_settings(bed: CloudstackBed, lab: Lab, **changed: Any) -> dict[str, Any]:
    vm = bed.open().create_vm(**{**lab.vm_arguments(), **changed}).cid
    lab.undo(lab.cpi.delete_vm, vm)
    data = bed.client().getVirtualMachineUserData(virtualmachineid=vm)["virtualmachineuserdata"]["userdata"]
    found: dict[str, Any] = json.loads(base64.b64decode(data))
    return found


def network(bed: CloudstackBed, lab: Lab, offering: str, block: str) -> dict[str, Any]:
    """One more network of the account, and a VM's request to be on it."""
    client = bed.client()
    wanted = client.listNetworkOfferings(name=offering)["networkoffering"][0]["id"]
    zone = client.listZones(name=lab.az)["zone"][0]["id"]
    made = client.createNetwork(
        name=offering,
        displaytext="x",
        networkofferingid=wanted,
        zoneid=zone,
        gateway=f"{block}.0.1",
        netmask="255.255.0.0",
    )["network"]["id"]
    lab.undo(lambda: client.deleteNetwork(id=made))
    return {"type": "manual", "ip": f"{block}.0.9", "cloud_properties": {"id": made}}


def test_an_isolated_network_is_served_by_its_gateway(bed: CloudstackBed, lab: Lab) -> None:
    router = {"type": "http", "url": "http://127.40.0.1/latest/user-data"}
    assert agent_settings(bed, lab)["userdata_sources"] == [DATA_SERVER, router, DHCP]


def test_a_shared_network_is_served_by_a_router_that_administrators_see(bed: CloudstackBed, lab: Lab) -> None:
    shared = {"default": network(bed, lab, "DefaultSharedNetworkOfferingWithSGService", "127.61")}
    router = {"type": "http", "url": "http://127.61.255.254/latest/user-data"}
    assert agent_settings(bed, lab, networks=shared)["userdata_sources"] == [DATA_SERVER, router, DHCP]
    bed.more = {"host_visibility": False}
    shared["default"]["ip"] = "127.61.0.10"
    assert agent_settings(bed, lab, networks=shared)["userdata_sources"] == [DATA_SERVER, DHCP]


def test_the_settings_are_enough_for_an_agent(bed: CloudstackBed, lab: Lab) -> None:
    bed.more = {"agent": AGENT}
    back = network(bed, lab, "DefaultSharedNetworkOfferingWithSGService", "127.61")
    only = next(iter(bed.networks(lab.az, lab.address()).values()))
    requested = {
        "front": {**only, **TWO_NICS_AND_A_VIP["front"], "netmask": "255.255.0.0"},
        "back": {**TWO_NICS_AND_A_VIP["back"], "cloud_properties": back["cloud_properties"]},
        "public": {**TWO_NICS_AND_A_VIP["public"], "ip": "127.200.0.20"},
    }
    settings = agent_settings(bed, lab, networks=requested)
    rows = bed.client().listVirtualMachines(name=settings["vm"]["name"])["virtualmachine"]
    macs = [nic["macaddress"] for nic in rows[0]["nic"]]
    assert len(macs) == 2
    assert broken_rules(settings, requested, macs) == []


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"prefix": "28"}, "prefix is 28"),
        ({"ip": "fd00::9", "prefix": "128"}, "ip is an IPv6 address"),
        ({"nic_group": "shared"}, "nic_group is shared"),
    ],
)
def test_what_cloudstack_cannot_give_a_nic_is_refused_with_the_reason(
    bed: CloudstackBed, lab: Lab, change: dict[str, str], reason: str
) -> None:
    first, second = (next(iter(bed.networks(lab.az, lab.address()).values())) for _ in range(2))
    requested = {"one": {**first, "nic_group": "shared"}, "two": {**second, **change}}
    arguments = lab.vm_arguments(networks=requested)
    before = bed.inventory()
    error = expect_error(NotSupported, lambda: bed.open().create_vm(**arguments))
    assert f"networks.two.{reason}" in str(error)
    assert error.why
    assert error.remedy
    assert bed.inventory() - before == set()


def test_a_network_without_a_router_gives_a_drive(bed: CloudstackBed, lab: Lab) -> None:
    drive = network(bed, lab, "IsolatedNetworkOfferingWithConfigDrive", "127.62")
    assert agent_settings(bed, lab, networks={"only": drive})["userdata_sources"] == [DRIVE]
    both = {**bed.networks(lab.az, lab.address()), "drive": {**drive, "ip": "127.62.0.10"}}
    sources = agent_settings(bed, lab, networks=both)["userdata_sources"]
    assert (sources[0], sources[-1]) == (DATA_SERVER, DRIVE)


def test_a_vm_reads_its_settings_and_its_id_at_the_router(bed: CloudstackBed, lab: Lab) -> None:
    """From its own address, as every client on its network; the emulator's router listens beside the API."""
    address = str(lab.address())
    vm = lab.vm(networks=bed.networks(lab.az, address))
    host, _, port = bed.server.origin.removeprefix("http://").partition(":")
    with closing(http.client.HTTPConnection(host, int(port), source_address=(address, 0))) as connection:
        connection.request("GET", "/latest/user-data")
        assert json.loads(connection.getresponse().read())["vm"]["name"]
        connection.request("GET", "/latest/vm-id")
        assert connection.getresponse().read().decode() == vm


def test_a_vm_reads_its_own_id(bed: CloudstackBed, lab: Lab) -> None:
    """This machine's own address is 127.0.0.1 when it reads; so a VM is given it."""
    client = bed.client()
    offering = client.listNetworkOfferings(name="DefaultIsolatedNetworkOfferingWithSourceNatService")
    here = client.createNetwork(
        name="here",
        displaytext="here",
        networkofferingid=offering["networkoffering"][0]["id"],
        zoneid=client.listZones(name=lab.az)["zone"][0]["id"],
        gateway="127.0.0.254",
        netmask="255.255.255.0",
    )["network"]["id"]
    lab.undo(lambda: client.deleteNetwork(id=here))
    networks = {"default": {"type": "manual", "ip": "127.0.0.1", "cloud_properties": {"id": here}}}
    vm = lab.vm(networks=networks)
    assert lab.cpi.current_vm_id() == vm


@pytest.mark.parametrize("as_file", [True, False])
def test_all_public_keys_reach_the_agent(bed: CloudstackBed, lab: Lab, tmp_path: Path, as_file: bool) -> None:
    (tmp_path / "key").write_text(keys.ED25519)
    bed.more = {"ssh_public_keys": [KEY], "private_key": str(tmp_path / "key") if as_file else keys.ED25519}
    properties = {**bed.vm_properties(lab.az), "public_key": f"{KEY}-and-another"}
    bosh = agent_settings(bed, lab, cloud_properties=properties, env={"bosh": {"authorized_keys": ["first"]}})["env"][
        "bosh"
    ]
    assert bosh["authorized_keys"] == ["first", KEY, keys.ED25519_PUBLIC, f"{KEY}-and-another"]


def test_an_agent_of_old_gets_the_address_of_its_registry(bed: CloudstackBed, lab: Lab) -> None:
    registry = {"endpoint": "http://us:s3cret@127.0.0.1:25777", "instance": "cot-it"}
    found = agent_settings(bed, lab, env={"bosh": {"group": "g", "registry": registry}})
    assert found["registry"] == {"endpoint": registry["endpoint"]}
    assert found["server"] == {"name": "cot-it"}
    assert found["env"] == {"bosh": {"group": "g"}}
    assert "registry" not in agent_settings(bed, lab)


@pytest.mark.parametrize(
    ("private", "public"),
    [
        (keys.ED25519, keys.ED25519_PUBLIC),
        (keys.RSA, keys.RSA_PUBLIC),
        (keys.RSA_PKCS8, keys.RSA_PUBLIC),
        (keys.RSA_WITH_PASSWORD, keys.RSA_PUBLIC),
    ],
)
def test_the_public_half_of_a_private_key(private: str, public: str) -> None:
    assert public_half(private) == public


@pytest.mark.parametrize("wrong", ["", "no key", "-----BEGIN X-----\nAAAA\n-----END X-----", "-----BEGIN X-----\nMIIB"])
def test_what_is_no_key_has_no_public_half(wrong: str) -> None:
    assert public_half(wrong) is None
