"""Rules of security groups: one form for what manifests and clouds write in many."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.cpi.contract import InvalidCall, SecurityGroup, compare_rules, read_rules
from coterie.cpi.contract.rules import EVERYTHING_OUT, make_rule

WEB = {"protocol": "tcp", "ports": "443", "cidr": "10.0.0.0/8"}


@pytest.mark.parametrize(
    ("written", "listed"),
    [
        (WEB, make_rule("ingress", "6", (443, 443), "10.9.8.7/8")),
        ({"protocol": "any", "cidr": "0.0.0.0/0"}, make_rule("ingress", None, (None, None), None)),
        ({"protocol": "any", "cidr": "0.0.0.0/0"}, make_rule("ingress", "-1", (0, 65535), "0.0.0.0/0")),
        ({"protocol": "any", "cidr": "::/0"}, make_rule("ingress", "all", (None, None), None, None, "IPv6")),
        ({"protocol": "tcp", "ports": "1-65535", "cidr": "0.0.0.0/0"}, make_rule("ingress", "tcp")),
        ({"protocol": "tcp", "ports": "1-65535", "cidr": "0.0.0.0/0"}, make_rule("ingress", "TCP", (0, 65535))),
        ({"protocol": "icmp", "cidr": "0.0.0.0/0"}, make_rule("ingress", "icmp", (-1, -1))),
        (
            {"protocol": "icmp", "cidr": "2001:db8::/32"},
            make_rule("ingress", "ipv6-icmp", (None, None), "2001:0db8::1/32", None, "IPv6"),
        ),
        ({**WEB, "direction": "out"}, make_rule("egress", "tcp", ("443", "443"), "10.0.0.0/8")),
    ],
)
def test_the_same_rule_in_the_words_of_a_manifest_and_of_a_cloud(written: dict[str, Any], listed: Any) -> None:
    assert read_rules([written]) == (listed,)
    assert read_rules([listed.wire()]) == (listed,)


def test_traffic_with_a_group_is_of_both_families_and_one_line() -> None:
    rules = read_rules([{"protocol": "tcp", "ports": "80-90", "group": "web"}])
    assert [rule.family for rule in rules] == ["IPv4", "IPv6"]
    assert compare_rules((), rules).lines() == ["+ ingress tcp 80-90 from group web"]
    assert read_rules(rule.wire() for rule in rules) == rules
    assert [rule.with_group({"web": "id-1"}).group for rule in rules] == ["id-1", "id-1"]


def test_what_comes_and_what_goes() -> None:
    changes = compare_rules(read_rules([{"protocol": "any", "cidr": "0.0.0.0/0"}]), read_rules([WEB]))
    assert changes.lines() == ["+ ingress tcp 443 from 10.0.0.0/8", "- ingress any from 0.0.0.0/0"]
    assert not compare_rules(read_rules([WEB, WEB]), read_rules([WEB]))
    assert make_rule("ingress", "icmp", (8, 0)) != make_rule("ingress", "icmp")


def test_egress_rules_of_the_cloud_itself_are_no_difference_unless_others_are_requested() -> None:
    out = {**WEB, "direction": "egress"}
    assert not compare_rules([*read_rules([WEB]), *EVERYTHING_OUT], read_rules([WEB]))
    assert compare_rules([*EVERYTHING_OUT], read_rules([out])).lines() == [
        "+ egress tcp 443 to 10.0.0.0/8",
        "- egress any to 0.0.0.0/0",
        "- egress any to ::/0",
    ]


@pytest.mark.parametrize("rule", [{"direction": "up"}, {"ports": "http"}, {"cidr": "everywhere"}])
def test_a_wrong_rule_is_refused(rule: dict[str, Any]) -> None:
    with pytest.raises(InvalidCall):
        read_rules([rule])


def test_security_groups_on_the_wire() -> None:
    for group in (
        SecurityGroup("a"),
        SecurityGroup("a", ()),
        SecurityGroup("a", (WEB,)),
        SecurityGroup("a", None, True),
    ):
        assert SecurityGroup.of_wire(group.wire()) == group
    assert SecurityGroup.of_wire("a") == SecurityGroup.of_wire({"name": "a", "rules": []}) == SecurityGroup("a")


def test_what_no_manifest_can_write_is_no_rule_that_was_requested() -> None:
    """Least of all one from everywhere, as a rule without another end is."""
    foreign = make_rule("ingress", "tcp", (443, 443), other="service tag Internet")
    assert read_rules([foreign.wire()]) == (foreign,)
    everywhere = read_rules([{"protocol": "tcp", "ports": "443", "cidr": "0.0.0.0/0"}])
    changes = compare_rules([foreign], everywhere)
    assert changes.lines() == ["+ ingress tcp 443 from 0.0.0.0/0", "- ingress tcp 443 from service tag Internet"]
