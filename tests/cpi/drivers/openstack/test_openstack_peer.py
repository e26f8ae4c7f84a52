"""What the driver is built on, as the real services answer it: a release that answers otherwise is noticed here."""

from __future__ import annotations

import pytest
from peers.openstack_bed import COMPUTES, OpenstackBed
from peers.openstack_operator import until
from tests.peers.openstack import rest
from tests.peers.openstack.rest import Refused


def test_names_of_groups_are_not_unique(bed: OpenstackBed) -> None:
    made = {bed.operator.create_group("same", "soft-anti-affinity") for _ in range(2)}
    made |= {bed.operator.create_security_group("same") for _ in range(2)}
    assert len(made) == 4
    for kind in ("server_group", "security_group"):
        for one in bed.operator.listed(kind):
            bed.operator.delete(kind, one["id"])


def test_a_port_that_is_bound_takes_no_second_server_and_outlives_its_own(bed: OpenstackBed) -> None:
    port = _port(bed)
    first = _boot(bed, port)
    bed.operator.wait_for(first)
    with pytest.raises(Refused) as caught:
        _boot(bed, port)
    assert caught.value.status == 409
    bed.operator.delete("vm", first)
    assert bed.operator.exists("port", port)
    bed.operator.delete("port", port)


def test_a_port_that_no_host_has_bound_yet_takes_any_number_of_boots(bed: OpenstackBed) -> None:
    """So it does not prevent two boots: of two, one fails, and may take the other's port with it."""
    port = _port(bed)
    with bed.frozen(*COMPUTES):
        both = [_boot(bed, port) for _ in range(2)]
    until(lambda: "BUILD" not in [bed.operator.server(one)["status"] for one in both])
    assert sorted(bed.operator.server(one)["status"] for one in both) == ["ACTIVE", "ERROR"]
    for one in both:
        bed.operator.delete("vm", one)
    bed.operator.delete("port", port)


def _port(bed: OpenstackBed) -> str:
    order = {"port": {"network_id": bed.tenant.network, "tags": ["t"]}}
    return str(bed.tenant.call("POST", "neutron", "/ports", order)["port"]["id"])


def _boot(bed: OpenstackBed, port: str) -> str:
    image = bed.tenant.get("glance", "/images?name=lab-image")["images"][0]["id"]
    flavor = next(one["id"] for one in bed.tenant.get("nova", "/flavors")["flavors"] if one["name"] == "m1.tiny")
    order = {"name": "one", "imageRef": image, "flavorRef": flavor, "networks": [{"port": port}]}
    return str(bed.tenant.call("POST", "nova", "/servers", {"server": order})["server"]["id"])


def test_tags_of_servers_filter_and_metadata_does_not(bed: OpenstackBed) -> None:
    vm = bed.operator.boot("one", "z1", tags=["mine"], metadata={"whose": "mine"})
    assert [one["id"] for one in bed.tenant.get("nova", "/servers?tags=mine")["servers"]] == [vm]
    assert bed.tenant.get("nova", "/servers?tags=theirs")["servers"] == []
    assert len(bed.tenant.get("nova", "/servers?metadata=%7B%22whose%22:%22theirs%22%7D")["servers"]) == 1
    bed.operator.delete("vm", vm)


def test_the_door_counts_refuses_loses_and_hides(bed: OpenstackBed) -> None:
    front, tenant = bed.front, bed.tenant
    groups, body = (
        f"{front.origin}/nova/v2.1/os-server-groups",
        {"server_group": {"name": "g", "policies": ["affinity"]}},
    )
    request = ("nova", "POST", "/v2.1/os-server-groups")
    front.bend(*request, "refuse", status=503, headers={"Retry-After": "7"})
    status, headers, _ = rest.ask("POST", groups, body, tenant.token)
    assert (status, headers["Retry-After"]) == (503, "7")
    front.bend(*request, "lose")
    front.bend(*request, "late", seconds=30)
    with pytest.raises(OSError):
        rest.ask("POST", groups, body, tenant.token)
    assert rest.call("GET", groups, token=tenant.token)["server_groups"] == []
    front.straighten()
    (made,) = rest.call("GET", groups, token=tenant.token)["server_groups"]
    assert [call.status for call in front.calls] == [503, None, 200, 200]
    front.expire()
    assert rest.ask("GET", groups, token=tenant.token)[0] == 401
    bed.operator.delete("server_group", made["id"])
