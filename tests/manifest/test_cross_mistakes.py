"""Every kind of mistake between a manifest and a cloud config: its line, its field, its words, its remedy."""

from __future__ import annotations

import pytest

from tests.manifest.documents import CONFIG, DEPLOYMENT, edited, line_of, mistakes_of_both

G = "instance_groups[controller]"
IPS = f"{G}.networks[0].static_ips"
STATIC = "10.20.1.10 - 10.20.1.11"

CASES = [
    ("azs: [z1]", "azs: [z1, zz1]", "zz1", "instance_groups[connect].azs[1]", "no az is named 'zz1'",
     "azs of cloud.yml are z1"),
    ("vm_type: large", "vm_type: lage", "lage", "instance_groups[broker].vm_type", "no vm type is named",
     "mean 'large'?"),
    ("disk_type: log", "disk_type: lg", "lg", "instance_groups[broker].persistent_disk_type", "no disk type",
     "mean 'log'?"),
    ("  - name: default", "  - name: defult", "defult", f"{G}.networks[0].name", "no network is named",
     "mean 'default'?"),
    # static addresses
    ("10.20.2.10]", "10.20.9.9]", "10.20.9.9", f"{IPS}[1]", "outside the ranges of the network 'default'",
     "10.20.1.10 - "),
    (STATIC, "10.20.1.254 - 10.20.2.0", "254", f"{IPS}[0]", "outside the ranges", "use an address of"),
    ("10.20.2.10]", "10.20.2.11]", "10.20.2.11", f"{IPS}[1]", "not among the static addresses",
     "'static' in cloud.yml"),
    (STATIC, "10.20.1.8 - 10.20.1.9", "10.20.1.8", f"{IPS}[0]", "is reserved in the network",
     "take it out of 'reserved'"),
    (STATIC, "10.20.1.10, 10.20.1.10", "static_ips", f"{IPS}[1]", "10.20.1.10 is used twice, first in line 19",
     "its own"),
    (STATIC, "10.20.1.10 - 10.20.1.12", "static_ips", IPS, "4 static IPs are given for 3 instances", "give exactly 3"),
    (STATIC, "10.20.1.10", "static_ips", IPS, "2 static IPs are given for 3 instances", "give exactly 3"),
    (STATIC, "10.20.1.10 - 10.20.1.12, 10.20.1.12", "static", f"{IPS}[1]", "10.20.1.12 is used twice", "its own"),
    ("azs: [z1, z2]", "azs: [z1]", "static_ips", f"{IPS}[1]", "in a subnet of z2, where", "add z2 to azs"),
    ("  - name: default\n  placement:\n    server_group: data",
     "  - name: default\n    static_ips: [10.20.1.11 - 10.20.1.14]\n  placement:\n    server_group: data",
     "static_ips: [10.20.1.11 - ", "instance_groups[broker].networks[0].static_ips[0]",
     "10.20.1.11 is used twice", "its own"),
    # kinds of networks
    ("  - name: default\n    static", "  - name: cloudy\n    static", "static_ips", IPS,
     "is dynamic: the cloud chooses", "manual"),
    ("  - name: default\n    s", "  - name: floating\n  - name: default\n    s", "- name: floating", IPS, "is a vip",
     "one for each"),
    ("  - name: default\n    static", "  - name: floating\n    static", "  - name: floating", f"{G}.networks",
     "all networks", "add"),
    ("  - name: default\n    s", "  - name: cloudy\n  - name: default\n    default: [dns]\n    s", "- name: cloudy",
     f"{G}.networks", "none of the 2 networks is the default for gateway", "default: [gateway]"),
    # room
    ("instances: 4", "instances: 600", "600", "instance_groups[broker].instances",
     "300 addresses are needed in 10.20.1.0/24",
     "a larger range in cloud.yml"),
    ("instances: 2", "instances: 234", "234", "instance_groups[connect].instances", "236 addresses are needed",
     "fewer"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "at", "field", "what", "remedy"), CASES)
def test_mistake(old: str, new: str, at: str, field: str, what: str, remedy: str) -> None:
    text = edited(DEPLOYMENT, (old, new))
    found = [m for m in mistakes_of_both(text) if m["field"] == field]
    assert len(found) == 1
    assert found[0]["file"] == "kafka.yml"
    assert found[0]["line"] == line_of(text, at)
    assert what in found[0]["what"]
    assert remedy in found[0]["remedy"]


def test_a_network_must_reach_every_az_of_a_group() -> None:
    found = mistakes_of_both(DEPLOYMENT, edited(CONFIG, ("az: z2", "az: z1")))
    fields = ["instance_groups[controller].networks[0].name", "instance_groups[broker].networks[0].name"]
    assert [m["field"] for m in found] == fields
    assert {m["what"] for m in found} == {"the network 'default' has no subnet in the az 'z2'"}
    assert {m["file"] for m in found} == {"kafka.yml"}


def test_a_subnet_without_azs_serves_all() -> None:
    assert mistakes_of_both(DEPLOYMENT, edited(CONFIG, ("    az: z2\n", ""))) == []


def test_groups_that_only_together_exceed_the_addresses() -> None:
    """z1 has 235 free addresses: two for connect, so 233 are left for half of broker."""
    assert mistakes_of_both(edited(DEPLOYMENT, ("instances: 4", "instances: 466"))) == []
    (mistake,) = mistakes_of_both(edited(DEPLOYMENT, ("instances: 4", "instances: 467")))
    assert mistake["field"] == "instance_groups[connect].instances"
    assert "236 addresses are needed in 10.20.1.0/24" in mistake["what"]
    assert "235 are free" in mistake["what"]


def test_static_addresses_in_two_networks_must_agree_on_the_az() -> None:
    second = "- name: second\n  subnets:\n  - {range: 10.30.1.0/24, static: [10.30.1.10 - 10.30.1.19], azs: [z1]}\n"
    second += "  - {range: 10.30.2.0/24, static: [10.30.2.10 - 10.30.2.19], azs: [z2]}\n"
    other = "    default: [dns, gateway]\n  - name: second\n    static_ips: [{}]\n  placement:\n    policy"
    config = CONFIG + second

    def found(ips: str) -> list[str]:
        text = edited(DEPLOYMENT, ("  placement:\n    policy", other.format(ips)))
        return [m["what"] for m in mistakes_of_both(text, config)]

    assert found("10.30.1.10 - 10.30.1.11, 10.30.2.10") == []
    assert found("10.30.1.10, 10.30.2.10, 10.30.2.11") == ["the static IPs of controller/1 are in different azs"]


def test_ranges_are_never_expanded() -> None:
    """A whole IPv6 block as static addresses is counted, not walked."""
    config = edited(CONFIG, ("10.20.1.0/24", "2001:db8::/32"), ("gateway: 10.20.1.1", "gateway: 2001:db8::1"))
    config = edited(config, ("[10.20.1.2 - 10.20.1.9]", "[]"), ("10.20.1.10 - 10.20.1.19", '"2001:db8:1::/64"'))
    text = edited(DEPLOYMENT, (STATIC, '"2001:db8:1::/64"'))
    (mistake,) = mistakes_of_both(text, config)
    assert mistake["what"] == f"{2**64 + 1:,} static IPs are given for 3 instances"
