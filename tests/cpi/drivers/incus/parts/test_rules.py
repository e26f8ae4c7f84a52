"""Rules of ACLs: what an entry means, and what of it goes. Entries as the real server takes and answers them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.cpi.contract import Mark, SecurityGroup, SecurityRule, compare_rules, read_rules
from coterie.cpi.contract.rules import make_rule
from coterie.cpi.drivers.incus import security_groups
from coterie.cpi.drivers.incus.marks import mark_config
from coterie.cpi.drivers.incus.security_groups import NetworkAcls
from coterie.cpi.kit.parts import Parts
from coterie.cpi.kit.security_groups import ExistingSecurityGroup, SecurityGroups

Entry = dict[str, Any]
MARK = Mark("8d8c4a1e-54c2-4f8e-9d53-1f0b6f2a7c10", "01m7t7m7sreqd2ghvd8g85qerp")
WEB: Entry = {
    "action": "allow",
    "state": "enabled",
    "source": "10.0.0.0/8",
    "protocol": "tcp",
    "destination_port": "443",
}
WEB_RULE = make_rule("ingress", "tcp", (443, 443), "10.0.0.0/8")


class Acl:
    """The client's part that these need: one ACL, which refuses repeated entries as Incus does."""

    director_uuid = MARK.director

    def __init__(self, *ingress: Entry, egress: tuple[Entry, ...] = ()) -> None:
        self.row: Entry = {"name": "web", "config": mark_config(MARK), "ingress": [*ingress], "egress": [*egress]}

    def offers(self, extension: str) -> bool:
        return extension == "network_bridge_acl_devices"

    def ask(self, what: str, path: str) -> Entry:
        return self.row

    def edit(self, what: str, path: str, change: Any) -> None:
        changed = {**self.row, "ingress": [*self.row["ingress"]], "egress": [*self.row["egress"]]}
        if change(changed):
            for entries in (changed["ingress"], changed["egress"]):
                assert not any(one in entries[:number] for number, one in enumerate(entries)), "Duplicate of rule"
            self.row = changed

    @property
    def cloud(self) -> NetworkAcls:
        return NetworkAcls(self, self, Parts())  # type: ignore[arg-type]

    def rules(self) -> list[SecurityRule]:
        return [one.rule for one in self.cloud.rules_of(ExistingSecurityGroup("web", None, self.row))]

    def mend(self, *wanted: Entry) -> None:
        """As `deploy` does with a group of ours."""
        SecurityGroups(self.cloud, None).ensure([SecurityGroup("web", wanted)], MARK)  # type: ignore[arg-type]


@given(
    st.sampled_from(["ingress", "egress"]),
    st.sampled_from(["tcp", "udp", "icmp", "any"]),
    st.none() | st.tuples(st.integers(1, 255), st.integers(0, 100)).map(lambda one: (one[0], one[0] + one[1])),
    st.sampled_from(["10.0.0.0/8", "::/0", "0.0.0.0/0", "fd00::/8"]),
)
def test_a_rule_reads_as_it_was_written(
    direction: str, protocol: str, ports: tuple[int, int] | None, cidr: str
) -> None:
    rule = make_rule(direction, protocol, ports or (None, None), cidr)
    (found,) = security_groups._read(direction, [security_groups._entry(rule)])
    assert found.rule == rule


@pytest.mark.parametrize(
    "more",
    [
        {"action": "drop"},
        {"action": "reject"},
        {"action": "allow-stateless"},
        {"state": "disabled"},
        {"source_port": "53"},
        {"destination": "10.1.0.0/16"},
        {"source": "@internal"},
        {"source": "another-acl"},
        {"source": "10.0.0.1-10.0.0.9"},
        {"protocol": "icmp4", "destination_port": "", "icmp_type": "8"},
        {"something_new": "yes"},
    ],
)
@pytest.mark.parametrize("beside", [(), (WEB,)])
def test_what_no_manifest_can_say_is_drift_and_exactly_that_goes(more: Entry, beside: tuple[Entry, ...]) -> None:
    acl = Acl({**WEB, **more}, *beside)
    changes = compare_rules(acl.rules(), [WEB_RULE])
    assert changes.come == (() if beside else (WEB_RULE,))
    (gone,) = changes.go
    for key, value in more.items():
        assert f"{key}={value}" in str(gone) or not value
    assert read_rules([gone.wire()]) == (gone,)
    acl.mend({"protocol": "tcp", "ports": "443", "cidr": "10.0.0.0/8"})
    assert acl.row["ingress"] == [WEB]


def test_drift_of_outgoing_traffic_is_seen_and_goes() -> None:
    out = [security_groups._entry(rule) for rule in read_rules([{"direction": "egress", "cidr": "10.0.0.0/8"}])]
    acl = Acl(egress=(*out, {"action": "drop", "state": "enabled", "destination": "10.0.0.7/32"}))
    assert "action=drop destination=10.0.0.7/32" in str(acl.rules()[-1])
    acl.mend({"direction": "egress", "cidr": "10.0.0.0/8"})
    assert acl.row["egress"] == out


@pytest.mark.parametrize("more", [{"state": "logged"}, {"description": "why"}, {"source": "10.0.0.1/8"}])
def test_what_lets_the_same_through_is_no_drift(more: Entry) -> None:
    acl = Acl({**WEB, **more})
    assert acl.rules() == [WEB_RULE]
    acl.mend({"protocol": "tcp", "ports": "443", "cidr": "10.0.0.0/8"})
    assert acl.row["ingress"] == [{**WEB, **more}]


def test_an_entry_with_lists_is_the_rules_that_it_equals() -> None:
    acl = Acl({**WEB, "source": "10.0.0.0/8,fd00::/8", "destination_port": "443, 8000-8080"})
    wanted = [
        {"protocol": "tcp", "ports": ports, "cidr": cidr}
        for cidr in ("10.0.0.0/8", "fd00::/8")
        for ports in ("443", "8000-8080")
    ]
    assert acl.rules() == list(read_rules(wanted))
    before = acl.row
    acl.mend(*wanted)
    assert acl.row == before


def test_of_an_entry_with_lists_only_what_is_too_much_goes() -> None:
    acl = Acl({**WEB, "source": "10.0.0.0/8,@internal,fd00::/8", "description": "theirs"})
    acl.mend({"protocol": "tcp", "ports": "443", "cidr": "10.0.0.0/8"})
    assert acl.row["ingress"] == [{**WEB, "description": "theirs"}]


@pytest.mark.parametrize(("protocol", "families"), [("", 2), ("tcp", 2), ("icmp4", 1), ("icmp6", 1)])
def test_an_entry_without_an_end_lets_all_in_of_its_families(protocol: str, families: int) -> None:
    rules = Acl({"action": "allow", "state": "enabled", "protocol": protocol}).rules()
    assert {rule.cidr for rule in rules} <= {"0.0.0.0/0", "::/0"}
    assert len(rules) == families
    assert protocol != "icmp6" or rules[0].cidr == "::/0"


def test_one_of_both_families_goes_and_the_other_stays() -> None:
    acl = Acl({"action": "allow", "state": "enabled", "protocol": "udp"})
    acl.mend({"protocol": "udp", "cidr": "::/0"})
    assert acl.rules() == [make_rule("ingress", "udp", cidr="::/0")]


@pytest.mark.parametrize(
    "entries",
    [
        (WEB, {**WEB, "source": "10.0.0.1/8"}),
        (WEB, {**WEB, "state": "logged"}),
        (WEB, {**WEB, "destination_port": "443,80"}),
        ({**WEB, "destination_port": "443,80"}, WEB),
        ({**WEB, "source": "10.0.0.0/8,10.0.0.1/8"}, WEB),
    ],
)
def test_of_what_is_there_twice_one_stays(entries: tuple[Entry, ...]) -> None:
    acl = Acl(*entries)
    acl.mend({"protocol": "tcp", "ports": "443", "cidr": "10.0.0.0/8"})
    assert acl.rules() == [WEB_RULE]


def test_what_is_there_twice_and_too_much_goes_whole() -> None:
    acl = Acl(WEB, {**WEB, "state": "logged"}, {**WEB, "destination_port": "80"})
    acl.mend({"protocol": "tcp", "ports": "80", "cidr": "10.0.0.0/8"})
    assert acl.row["ingress"] == [{**WEB, "destination_port": "80"}]
