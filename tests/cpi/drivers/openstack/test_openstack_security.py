"""Security groups as Neutron has them: made with rules, changed in place, refused where two have the name."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
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


def test_changed_rules_are_changed_in_place_and_neutrons_own_are_kept(bed: OpenstackBed, lab: Lab) -> None:
    cid = lab.group(security_groups=[SecurityGroup("kafka", ({"protocol": "any", "cidr": "0.0.0.0/0"},))])
    lab.vm(group=cid)
    (before,) = bed.operator.listed("security_group")
    ssh = {"protocol": "tcp", "ports": "22", "cidr": "10.1.2.3/8"}
    lab.cpi.update_server_group(cid, lab.metadata(security_groups=[SecurityGroup("kafka", (ssh,))]))
    out = ("egress", None, None, None, None)
    assert rules(bed, "kafka") == {("ingress", "tcp", 22, 22, "10.0.0.0/8"), out}
    lab.cpi.update_server_group(cid, lab.metadata(security_groups=[SecurityGroup("kafka", (ssh, RULES[2]))]))
    assert rules(bed, "kafka") == {
        ("ingress", "tcp", 22, 22, "10.0.0.0/8"),
        ("egress", "udp", 53, 53, "0.0.0.0/0"),
    }
    lab.cpi.update_server_group(cid, lab.metadata(security_groups=[SecurityGroup("kafka", ())]))
    left = rules(bed, "kafka")
    assert {rule[:4] for rule in left} == {out[:4]} and len(left) in (1, 2)  # with or without prefixes
    (after,) = bed.operator.listed("security_group")
    assert after["id"] == before["id"]


def test_a_rule_that_is_there_twice_is_removed_once(bed: OpenstackBed, lab: Lab) -> None:
    """Two server groups that are made at once ask for the same rules, and Neutron does not always refuse the second."""
    wanted = [SecurityGroup("kafka", ({"protocol": "tcp", "ports": "9094", "group": "kafka"}, *RULES))]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: lab.group(security_groups=wanted), range(4)))
    (found,) = bed.operator.listed("security_group")
    fields = ("direction", "ethertype", "protocol", "port_range_min", "remote_ip_prefix", "remote_group_id")
    listed = [tuple(rule[field] for field in fields) for rule in found["security_group_rules"]]
    assert len(listed) == len(set(listed)) == 5


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


@pytest.mark.short
def test_a_security_group_that_comes_after_its_call_was_given_up_goes(bed: OpenstackBed, lab: Lab) -> None:
    """Neutron carries out the request of a dead conductor when its successor has created its own already."""
    mark = lab.mark()
    bed.runtime().parts.intend(mark, "security_group", "web")  # by the dead one
    cid = lab.group(mark=mark, security_groups=[SecurityGroup("web")])
    (used,) = bed.operator.listed("security_group")
    late = {"security_group": {"name": "web", "description": used["description"]}}
    bed.tenant.call("POST", "neutron", "/security-groups", late)
    lab.cpi.update_server_group(cid, lab.metadata(security_groups=[SecurityGroup("web")]))
    assert [one["id"] for one in bed.operator.listed("security_group")] == [used["id"]]
    lab.cpi.delete_server_group(cid)
    assert bed.operator.listed("security_group") == []
