"""Mistakes of all kinds, in both documents, are told together and in order; consequences are not told at all."""

from __future__ import annotations

import pytest

from coterie.errors import InvalidDocument
from coterie.manifest import load_both
from tests.manifest.documents import CONFIG, DEPLOYMENT, edited, mistakes_of_both

SPOILT = edited(
    DEPLOYMENT,
    ("name: kafka", "nam: kafka"),
    ('version: "1.1"', "version: 1.1"),
    ("instances: 3", "instances: three"),
    ("azs: [z1, z2]", "azs: [z1, z3]"),
    ("10.20.2.10]", "10.20.9.10]"),
    ("policy: anti-affinity", "policy: never"),
    ("vm_type: large", "vm_type: huge"),
    ("instances: 2", "instances: 2\n  instances: 3"),
)
SPOILT_CONFIG = edited(CONFIG, ("cloud: lab", "cloud: lib"), ("disk_size: 10240", "size: 10240"))


def test_every_mistake_of_both_documents_is_in_the_one_error() -> None:
    fields = [(m["file"], m["line"], m["field"]) for m in mistakes_of_both(SPOILT, SPOILT_CONFIG)]
    assert fields == [
        ("cloud.yml", 6, "azs[z1].cloud"),
        ("cloud.yml", 18, "disk_types[log].size"),
        ("kafka.yml", 1, "nam"),
        ("kafka.yml", 5, "stemcells[default].version"),
        ("kafka.yml", 12, "instance_groups[controller].instances"),
        ("kafka.yml", 13, "instance_groups[controller].azs[1]"),
        ("kafka.yml", 19, "instance_groups[controller].networks[0].static_ips[1]"),
        ("kafka.yml", 21, "instance_groups[controller].placement.policy"),
        ("kafka.yml", 25, "instance_groups[broker].vm_type"),
        ("kafka.yml", 35, "instance_groups[connect].instances"),
    ]


def test_the_error_shows_all_of_them_as_text() -> None:
    with pytest.raises(InvalidDocument) as caught:
        load_both((SPOILT, "kafka.yml"), (SPOILT_CONFIG, "cloud.yml"))
    lines = str(caught.value).splitlines()
    assert lines[0].startswith("10 mistakes in cloud.yml and kafka.yml")
    assert lines[3] == (
        "kafka.yml:1:1: nam: the key 'nam' is unknown here. did you mean 'name'? the keys here are "
        "name, stemcells, instance_groups, security_groups, update, features, resurrection, ssh and 1 more"
    )
    assert len(lines) == 11
    assert caught.value.exit_code == 2
    assert caught.value.facts()["details"]["mistakes"][0]["file"] == "cloud.yml"


def test_a_document_that_cannot_be_read_does_not_hide_the_other_s_mistakes() -> None:
    found = mistakes_of_both("name: [", SPOILT_CONFIG)
    assert [m["file"] for m in found] == ["cloud.yml"] * 2 + ["kafka.yml"]


CONSEQUENCES = [
    (("azs:\n- name: z1", "azs:\n- nme: z1"), (), "azs[0].nme"),
    ((), ("instances: 3", "instances: x"), "instance_groups[controller].instances"),
    (("10.20.1.0/24", "10.20.1.0/42"), (), "networks[default].subnets[0].range"),
    (("type: manual", "type: x"), (), "networks[default].type"),
    ((), ("10.20.2.10]", "no]"), "instance_groups[controller].networks[0].static_ips[1]"),
    (("- name: small", "- name: 7"), (), "vm_types[0].name"),
    ((), ("- alias: default", "- alias: [a]"), "stemcells[debian-12].alias"),
    (("networks:\n", "networks: 5\nx:\n"), (), "networks"),
    ((), ("    server_group: data", "    server_group: ''"), "instance_groups[broker].placement.server_group"),
    (
        ("networks:\n- name: default", "networks:\n- name: net"),
        ("instance_groups:", "instance_group:"),
        "instance_group",
    ),
    (("networks:\n- name: default", "network:\n- name: default"), (), "network"),
    (("azs:\n- name: z1", "azz:\n- name: z1"), (), "azz"),
]


@pytest.mark.parametrize(("config", "deployment", "field"), CONSEQUENCES)
def test_what_follows_from_a_mistake_is_not_another_one(
    config: tuple[str, str], deployment: tuple[str, str], field: str
) -> None:
    text = edited(DEPLOYMENT, deployment) if deployment else DEPLOYMENT
    found = mistakes_of_both(text, edited(CONFIG, config) if config else CONFIG)
    assert [m["field"] for m in found if m["field"] != "x"] == [field]
