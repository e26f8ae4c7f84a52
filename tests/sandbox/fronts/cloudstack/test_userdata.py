"""Userdata: how long it may be, and where a VM reads it: at its router, known by its address there, or on a drive."""

from __future__ import annotations

import http.client
from contextlib import closing
from typing import Any

import pytest

from tests.sandbox.fronts.cloudstack.rig import Rig, encoded, refused

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIA"


def asked_from(rig: Rig, address: str, path: str) -> tuple[int, bytes]:
    """As the VM with this address asks its router."""
    host, _, port = rig.server.origin.removeprefix("http://").partition(":")
    with closing(http.client.HTTPConnection(host, int(port), timeout=60, source_address=(address, 0))) as connection:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read()


def network(rig: Rig, offering: str, **more: Any) -> dict[str, Any]:
    wanted = rig.admin.listNetworkOfferings(name=offering)["networkoffering"][0]["id"]
    made: dict[str, Any] = rig.admin.createNetwork(
        name="n", displaytext="n", networkofferingid=wanted, zoneid=rig.zone(), **more
    )["network"]
    return made


@pytest.mark.parametrize(
    ("method", "size", "taken"),
    [("get", 3000, True), ("get", 3100, False), ("post", 32768, True), ("post", 32769, False)],
)
def test_userdata_has_limits(rig: Rig, method: str, size: int, taken: bool) -> None:
    client = rig.client("admin", method=method)
    order = rig.order(userdata=encoded(b"x" * size))
    if taken:
        vm = client.deployVirtualMachine(**order)["virtualmachine"]["id"]
        data = rig.admin.getVirtualMachineUserData(virtualmachineid=vm)["virtualmachineuserdata"]
        assert data["userdata"] == encoded(b"x" * size)
        return
    with refused(431):
        client.deployVirtualMachine(**order)


def test_a_higher_limit_of_the_server_ends_at_a_mebibyte(rig: Rig) -> None:
    rig.set(vm_userdata_max_length=str(2**21))
    rig.deploy(userdata=encoded(b"x" * (2**20 * 3 // 4)))
    with refused(431):
        rig.deploy(userdata=encoded(b"x" * (2**20 * 3 // 4 + 3)))


def test_userdata_must_be_base64(rig: Rig) -> None:
    with refused(431):
        rig.deploy(userdata="{not base64}")


def test_the_router_tells_a_vm_its_userdata_and_who_it_is(rig: Rig) -> None:
    rig.admin.registerSSHKeyPair(name="mine", publickey=KEY)
    vm = rig.deploy(ipaddress="127.40.3.3", userdata=encoded(b"hello"), keypair="mine", name="alpha")
    told = {
        path: asked_from(rig, "127.40.3.3", f"/latest/{path}")
        for path in ("user-data", "vm-id", "meta-data/local-hostname", "public-keys", "no-such")
    }
    assert told["user-data"] == (200, b"hello")
    assert told["vm-id"] == (200, vm["id"].encode())
    assert told["meta-data/local-hostname"] == (200, b"alpha")
    assert told["public-keys"] == (200, KEY.encode())
    assert told["no-such"][0] == 404
    assert asked_from(rig, "127.40.3.4", "/latest/user-data")[0] == 404


def test_a_network_with_a_config_drive_has_no_router(rig: Rig) -> None:
    made = network(rig, "IsolatedNetworkOfferingWithConfigDrive", gateway="127.60.0.1", netmask="255.255.0.0")
    (service,) = [one for one in made["service"] if one["name"] == "UserData"]
    assert service["provider"] == [{"name": "ConfigDrive"}]
    assert rig.admin.listRouters(networkid=made["id"]) == {}
    nics = [{"networkid": made["id"], "ip": "127.60.3.3"}]
    rig.deploy(iptonetworklist=nics, userdata=encoded(b"hello"))
    assert asked_from(rig, "127.60.3.3", "/latest/user-data")[0] == 404


def test_a_router_is_the_gateway_or_on_a_shared_network_beside_it(rig: Rig) -> None:
    made = network(rig, "DefaultSharedNetworkOfferingWithSGService", gateway="127.61.0.1", netmask="255.255.255.0")
    assert made["type"] == "Shared"
    routers = {row["guestnetworkid"]: row["guestipaddress"] for row in rig.admin.listRouters()["router"]}
    assert routers[made["id"]] == "127.61.0.254"
    assert routers[rig.network()] == "127.40.0.1"
    with refused(432):
        rig.user.listRouters()
    shared = rig.admin.listNetworkOfferings(guestiptype="Shared")["networkoffering"][0]["id"]
    with refused(531):
        rig.user.createNetwork(name="n", displaytext="n", networkofferingid=shared, zoneid=rig.zone())
