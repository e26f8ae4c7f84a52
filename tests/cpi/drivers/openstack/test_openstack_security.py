"""Security groups as Neutron has them: used if there is one, refused if there are two, made with rules if none."""

from __future__ import annotations

from typing import Any

import pytest
from peers.openstack_bed import OpenstackBed
from tests.cpi.drivers.openstack.killing import Killed, noting

from coterie.cpi.conformance.expect import expect_error
from coterie.cpi.conformance.lab import Lab
from coterie.cpi.contract import CpiError, SecurityGroup

RULES = (
    {"protocol": "tcp", "ports": "9092-9094", "cidr": "10.0.0.0/8"},
    {"protocol": "icmp", "cidr": "10.20.0.0/16"},
    {"protocol": "udp", "ports": "53", "cidr": "0.0.0.0/0", "direction": "egress"},
)


def rules(bed: OpenstackBed, name: str) -> set[tuple[Any, ...]]:
    (found,) = [one for one in bed.operator.listed("security_group") if one["name"] == name]
    fields = ("direction", "protocol", "port_range_min", "port_range_max", "remote_ip_prefix")
    return {tuple(rule[field] for field in fields) for rule in found["security_group_rules"]}


def test_one_that_is_missing_is_made_with_the_manifests_rules(bed: OpenstackBed, lab: Lab) -> None:
    lab.group(security_groups=[SecurityGroup("kafka", RULES)])
    assert rules(bed, "kafka") >= {
        ("ingress", "tcp", 9092, 9094, "10.0.0.0/8"),
        ("ingress", "icmp", None, None, "10.20.0.0/16"),
        ("egress", "udp", 53, 53, "0.0.0.0/0"),
    }


def test_a_vm_of_the_group_has_it_on_its_port(bed: OpenstackBed, lab: Lab) -> None:
    cid = lab.group(security_groups=[SecurityGroup("kafka", RULES)])
    lab.vm(group=cid)
    (port,) = bed.operator.listed("port")
    names = {one["id"]: one["name"] for one in bed.tenant.get("neutron", "/security-groups")["security_groups"]}
    assert "kafka" in {names[one] for one in port["security_groups"]}


def test_a_name_that_two_have_is_refused(bed: OpenstackBed, lab: Lab) -> None:
    for _ in range(2):
        lab.undo(bed.operator.delete, "security_group", bed.operator.create_security_group("twice"))
    before = bed.inventory()
    error = expect_error(CpiError, lambda: lab.group(security_groups=[SecurityGroup("twice")]))
    text = f"{error} {error.why} {error.remedy}"
    assert "twice" in text
    assert bed.inventory() == before


def test_one_whose_creator_died_before_its_rules_gets_them_from_the_next_user(bed: OpenstackBed, lab: Lab) -> None:
    wanted, first, cpi = lab.metadata(security_groups=[SecurityGroup("kafka", RULES)]), lab.mark(), bed.open()
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Killed):
        noting(cpi, patch, lambda kinds: kinds[-1].startswith("POST network /security-groups "))
        cpi.create_server_group(wanted, mark=first)
    assert rules(bed, "kafka") == {("egress", None, None, None, None)}  # Neutron's own
    lab.group(security_groups=[SecurityGroup("kafka", RULES)])
    assert ("ingress", "tcp", 9092, 9094, "10.0.0.0/8") in rules(bed, "kafka")
    lab.group(security_groups=[SecurityGroup("kafka", ({"ports": "22"},))])
    assert not any(rule[2] == 22 for rule in rules(bed, "kafka"))


def test_one_of_ours_that_another_port_uses_is_kept(bed: OpenstackBed, lab: Lab) -> None:
    cid = lab.group(security_groups=[SecurityGroup("kafka", RULES)])
    (group,) = bed.operator.listed("security_group")
    order = {"network_id": bed.tenant.network, "security_groups": [group["id"]]}
    port = bed.tenant.call("POST", "neutron", "/ports", {"port": order})["port"]["id"]
    try:
        lab.cpi.delete_server_group(cid)
    except CpiError as error:
        assert "kafka" in f"{error} {error.why} {error.details}" or group["id"] in f"{error} {error.why}"
    assert bed.operator.exists("security_group", group["id"])
    bed.operator.delete("port", port)
    lab.cpi.delete_server_group(cid)
    assert not bed.operator.exists("security_group", group["id"])
