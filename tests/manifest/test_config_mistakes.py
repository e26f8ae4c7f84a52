"""Every kind of mistake inside a cloud config: its line, its field, its words, its remedy."""

from __future__ import annotations

import pytest

from tests.manifest.documents import CONFIG, edited, line_of, mistakes_of_config

S = "networks[default].subnets"
WIDE = "static: [10.20.1.10 - 10.20.1.19]"

CASES = [
    ("cloud: lab", "cloud: lav", "lav", "azs[z1].cloud", "no cloud is named 'lav'", "did you mean 'lab'?"),
    ("cloud: lab", "cpi: lab", "- name: z1", "azs[z1].cloud", "'cloud' is missing", "as in cloud: lab"),
    ("driver: sandbox", "driver: sandbx", "sandbx", "clouds[lab].driver", "no driver is named",
     "did you mean 'sandbox'?"),
    ("- name: lab", "- nme: lab", "- nme", "clouds[0].nme", "the key 'nme' is unknown", "did you mean 'name'?"),
    ("driver: sandbox", "driver: sandbox\n  conductor_group: a b", "a b", "clouds[lab].conductor_group",
     "cannot have", "letters"),
    ("driver: sandbox", f"driver: sandbox\n  conductor_group: {'a' * 256}", "aaa", "clouds[lab].conductor_group",
     "256", "255"),
    ("driver: sandbox", "driver: sandbox\n  other_conductor_groups: [r1, a b]", "a b",
     "clouds[lab].other_conductor_groups[1]", "cannot have", "letters"),
    ("driver: sandbox", "driver: sandbox\n  other_conductor_groups: [r1, R1]", "r1",
     "clouds[lab].other_conductor_groups[1]", "'r1' is given twice", "remove one"),
    ("driver: sandbox", "driver: sandbox\n  other_conductor_groups: ['']", "other",
     "clouds[lab].other_conductor_groups[0]", "'' is given twice", "remove one"),
    ("cloud: lab", "cloud: lab\n  conductor_group: r2", "r2", "azs[z1].conductor_group",
     "cloud 'lab' is not sealed to conductor group 'r2'", "add it to other_conductor_groups"),
    ("cloud: lab", "cloud: lab\n  conductor_group: [r2]", "r2", "azs[z1].conductor_group", "text", ""),
    ("driver: sandbox", "driver: sandbox\n  properties: x", "properties", "clouds[lab].properties", "a mapping",
     "key: value"),
    ("disk_size: 10240", "disk_size: 0", "disk_size", "disk_types[log].disk_size", "at least 1", "use 1 or more"),
    ("type: manual", "type: manul", "manul", "networks[default].type", "'manul' is not one", "did you mean 'manual'?"),
    # twice
    ("- name: lab", "- {name: lab, driver: exec}\n- name: lab", "- name: lab", "clouds[1].name", "twice", "rename"),
    ("name: large", "name: small", "- name: small\n  cloud_properties: {cpu: 4", "vm_types[1].name", "twice", "rename"),
    ("- name: log", "- {name: log, disk_size: 1}\n- name: log", "- name: log", "disk_types[1].name", "twice", "rename"),
    ("- name: cloudy", "- name: default", "- name: default\n  type: dyn", "networks[1].name", "twice", "rename"),
    ("- name: z1", "- {name: z1, cloud: lab}\n- name: z1", "- name: z1", "azs[1].name", "twice", "rename"),
    # which fields a network has
    ("type: dynamic", "type: manual", "- name: cloudy", "networks[cloudy].subnets", "has no subnets", "add a subnet"),
    ("type: manual", "type: manual\n  dns: [10.0.0.1]", "dns", "networks[default].dns", "belongs to the subnets",
     "move it"),
    ("type: dynamic", "type: dynamic\n  subnets: [{static: [10.0.0.1]}]", "subnets: [",
     "networks[cloudy].subnets[0].static",
     "for manual networks only", "remove it"),
    ("type: vip", "type: vip\n  subnets: [{az: z1}]", "subnets: [", "networks[floating].subnets", "no meaning",
     "remove it"),
    ("  - range: 10.20.2.0/24\n    gateway: 10.20.2.1\n    static: [10.20.2.10]\n    az: z2", "  - az: z2", "- az: z2",
     f"{S}[1].range", "has no range", "add range"),
    # azs of subnets
    ("az: z2", "az: z9", "z9", f"{S}[1].az", "no az is named 'z9'", "the azs are z1, z2"),
    ("azs: [z1]", "azs: [z1, z7]", "z7", f"{S}[0].azs[1]", "no az is named 'z7'", "the azs are z1, z2"),
    ("az: z2", "az: z2\n    azs: [z2]", "az: z2", f"{S}[1].az", "both 'az' and 'azs'", "keep one"),
    # addresses
    ("10.20.1.0/24", "10.20.1.0", "range: 10.20.1.0", f"{S}[0].range", "not an address block", "such as 10.20.0.0/16"),
    ("10.20.1.0/24", "10.20.1.9/24", "range: 10.20.1.9", f"{S}[0].range", "begins inside the block 10.20.1.0/24",
     "such as"),
    ("gateway: 10.20.1.1", "gateway: 10.20.3.1", "10.20.3.1", f"{S}[0].gateway", "outside the range",
     "an address of the range"),
    ("gateway: 10.20.1.1", "gateway: 10.20.1.255", "10.20.1.255", f"{S}[0].gateway", "outside the range",
     "a machine can have"),
    ("gateway: 10.20.1.1", "gateway: ::1", "::1", f"{S}[0].gateway", "outside the range", "an address of the range"),
    ("gateway: 10.20.1.1", "gateway: 10.20.1", "gateway: 10.20.1", f"{S}[0].gateway", "not an IP address", "such as"),
    ("[10.20.1.2 -", "[10.20.0.2 -", "reserved", f"{S}[0].reserved[0]", "not inside the range",
     "from 10.20.1.0 to 10.20.1.255"),
    ("10.20.1.19]", "10.20.1.255]", "static", f"{S}[0].static[0]", "not inside the range",
     "from 10.20.1.1 to 10.20.1.254"),
    (WIDE, "static: [10.20.1.9]", "static: [10.20.1.9]", f"{S}[0].static[0]", "also reserved, from 10.20.1.9",
     "take it out"),
    (WIDE, "static: [10.20.1.1]", "static: [10.20.1.1]", f"{S}[0].static[0]", "holds the gateway",
     "leave the gateway's"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "at", "field", "what", "remedy"), CASES)
def test_mistake(old: str, new: str, at: str, field: str, what: str, remedy: str) -> None:
    text = edited(CONFIG, (old, new))
    found = [m for m in mistakes_of_config(text, drivers=["sandbox", "exec"]) if m["field"] == field]
    assert len(found) == 1
    assert found[0]["file"] == "cloud.yml"
    assert found[0]["line"] == line_of(text, at)
    assert what in found[0]["what"]
    assert remedy in found[0]["remedy"]


def test_subnets_of_one_network_may_not_overlap() -> None:
    text = edited(CONFIG, ("10.20.1.0/24", "10.20.0.0/16"))
    (mistake,) = mistakes_of_config(text)
    assert mistake["field"] == f"{S}[1].range"
    assert f"in line {line_of(text, '10.20.0.0/16')}" in mistake["what"]


def test_bosh_s_word_for_a_cloud_is_translated() -> None:
    found = mistakes_of_config(edited(CONFIG, ("cloud: lab", "cpi: lab")))
    assert [m["remedy"] for m in found if m["field"] == "azs[z1].cpi"] == [
        "use 'cloud': the name of an entry of clouds"
    ]


def test_the_valid_one_is_valid() -> None:
    assert mistakes_of_config(CONFIG, drivers=["sandbox"]) == []


def test_drivers_are_checked_only_against_a_list() -> None:
    assert mistakes_of_config(edited(CONFIG, ("driver: sandbox", "driver: other"))) == []


IPV6 = """\
clouds: [{name: lab, driver: sandbox}]
azs: [{name: z1, cloud: lab}]
networks:
- name: six
  subnets:
  - range: 2001:db8::/64
    gateway: fe80::1
    reserved: ["2001:db8::1 - 2001:db8::ff"]
    static: ["2001:db8::100/120"]
"""


def test_ipv6_ranges_and_link_local_gateways() -> None:
    assert mistakes_of_config(IPV6) == []
    (mistake,) = mistakes_of_config(edited(IPV6, ("2001:db8::100/120", "2001:db9::1")))
    assert mistake["field"] == "networks[six].subnets[0].static[0]"


def test_secrets_in_properties_are_never_repeated() -> None:
    spoilt = edited(
        CONFIG, ("driver: sandbox", "driver: 5\n  properties: {password: hunter2}\n  propertes: {k: hunter2}")
    )
    found = mistakes_of_config(spoilt)
    assert len(found) == 2
    assert "hunter2" not in str(found)
