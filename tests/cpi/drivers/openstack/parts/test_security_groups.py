"""Rules of security groups as Neutron takes and lists them."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.cpi.contract import InvalidCall
from coterie.cpi.drivers.openstack.security_groups import has_rule, rule_bodies

GROUP = "286584e6-c6ea-4a80-9b7c-33dc3d0dbafd"


def test_rules_in_the_words_of_manifests_and_of_the_kit() -> None:
    (web,) = rule_bodies({"protocol": "tcp", "ports": "8000-8080", "cidr": "10.0.0.0/8"}, {})
    assert (web["direction"], web["port_range_min"], web["port_range_max"]) == ("ingress", 8000, 8080)
    assert web["ethertype"] == "IPv4"
    (out,) = rule_bodies({"protocol": "any", "cidr": "2001:db8::/32", "direction": "egress"}, {})
    assert (out["direction"], out["protocol"], out["ethertype"]) == ("egress", None, "IPv6")
    both = rule_bodies({"protocol": "tcp", "ports": "9", "group": "kafka", "direction": "in"}, {"kafka": GROUP})
    assert [(one["remote_group_id"], one["ethertype"]) for one in both] == [(GROUP, "IPv4"), (GROUP, "IPv6")]
    assert all(one["remote_ip_prefix"] is None for one in both)


@pytest.mark.parametrize("rule", [{"direction": "up"}, {"ports": "http"}, {"cidr": "everywhere"}])
def test_a_wrong_rule_is_refused(rule: dict[str, Any]) -> None:
    with pytest.raises(InvalidCall):
        rule_bodies(rule, {})


def test_a_rule_that_is_there_is_known_however_neutron_writes_everywhere() -> None:
    (body,) = rule_bodies({"protocol": "tcp", "ports": "22"}, {})
    assert has_rule({"security_group_rules": [{**body, "remote_ip_prefix": None}]}, body)
    assert not has_rule({"security_group_rules": [{**body, "port_range_max": 23}]}, body)
    assert not has_rule({"security_group_rules": [{**body, "remote_group_id": GROUP}]}, body)
