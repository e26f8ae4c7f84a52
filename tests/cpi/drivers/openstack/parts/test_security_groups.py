"""Rules of security groups as Neutron takes and lists them."""

from __future__ import annotations

from coterie.cpi.contract import read_rules
from coterie.cpi.drivers.openstack.security_groups import read_rule, rule_body

GROUP = "286584e6-c6ea-4a80-9b7c-33dc3d0dbafd"


def test_rules_as_neutron_takes_them() -> None:
    (web,) = map(rule_body, read_rules([{"protocol": "tcp", "ports": "8000-8080", "cidr": "10.0.0.0/8"}]))
    assert (web["direction"], web["port_range_min"], web["port_range_max"]) == ("ingress", 8000, 8080)
    assert web["ethertype"] == "IPv4"
    (out,) = map(rule_body, read_rules([{"protocol": "any", "cidr": "2001:db8::/32", "direction": "egress"}]))
    assert (out["direction"], out["protocol"], out["ethertype"]) == ("egress", None, "IPv6")
    both = read_rules([{"protocol": "tcp", "ports": "9", "group": "kafka", "direction": "in"}])
    bodies = [rule_body(rule.with_group({"kafka": GROUP})) for rule in both]
    assert [(one["remote_group_id"], one["ethertype"]) for one in bodies] == [(GROUP, "IPv4"), (GROUP, "IPv6")]
    assert all(one["remote_ip_prefix"] is None for one in bodies)


def test_a_rule_is_the_same_however_neutron_lists_it() -> None:
    (rule,) = read_rules([{"protocol": "tcp", "ports": "22"}])
    row = {**rule_body(rule), "id": "1"}
    assert read_rule(row).rule == read_rule({**row, "remote_ip_prefix": None}).rule == rule
    assert read_rule({**row, "port_range_max": 23}).rule != rule
    assert read_rule({**row, "remote_group_id": GROUP}).rule != rule
    (ping,) = read_rules([{"protocol": "icmp", "cidr": "2001:db8::/32"}])
    assert read_rule({**rule_body(ping), "id": "1", "protocol": "ipv6-icmp"}).rule == ping
