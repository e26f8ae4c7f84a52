"""Every kind of mistake inside a manifest: its line, its field, its words, its remedy."""

from __future__ import annotations

import pytest

from coterie.cpi.contract import POLICIES
from coterie.manifest.schema.fields import view
from coterie.manifest.schema.placement import Placement
from tests.manifest.documents import DEPLOYMENT, edited, line_of, mistakes_of_deployment

G = "instance_groups[controller]"
HEALTH = "instances: 3\n  health: "
RULE = "{protocol: tcp, ports: 9092, cidr: 10.0.0.0/8}"

CASES = [
    # unknown keys
    ("vm_type: small", "vmtype: small", "vmtype", f"{G}.vmtype", "the key 'vmtype' is unknown",
     "did you mean 'vm_type'?"),
    ("name: kafka", "name: kafka\nzzz: 1", "zzz", "zzz", "the key 'zzz' is unknown",
     "the keys here are name, stemcells"),
    ("name: kafka", "name: kafka\nreleases: []", "releases", "releases", "not a key of Coterie's", "deploys machines"),
    ("instances: 3", "instances: 3\n  jobs: []", "jobs", f"{G}.jobs", "not a key of Coterie's", "remove it"),
    # wrong types
    ("instances: 3", "instances: '3'", "'3'", f"{G}.instances", "a whole number, not text", "without quotes"),
    ("instances: 3", "instances: 3.5", "3.5", f"{G}.instances", "a whole number, not a number", "write a whole number"),
    ("instances: 3", "instances: true", "true", f"{G}.instances", "not true or false", "write a whole number"),
    ('version: "1.1"', "version: 1.10", "1.10", "stemcells[default].version", "text, not a number", "in quotes"),
    ("azs: [z1, z2]", "azs: z1", "azs: z1", f"{G}.azs", "it must be a list, not text", "- item"),
    ("azs: [z1, z2]", "azs: [z1, [z2]]", "[z2]", f"{G}.azs[1]", "it must be text, not a list", "write text here"),
    ("- name: broker", "- 5\n- name: broker", "- 5", "instance_groups[1]", "a mapping, not a whole number",
     "key: value"),
    ("name: kafka", "name: kafka\ntags: {a: 5}", "tags: {a", "tags.a", "it must be text", "put the value in quotes"),
    ("name: kafka", "name: kafka\ntags: [a]", "tags: [a]", "tags", "it must be a mapping, not a list", "key: value"),
    ("name: kafka", "name: kafka\nresurrection: yes", "yes", "resurrection", "true or false, not text", "as in true"),
    ("name: kafka", "name: kafka\nupdate: {canary_watch_s: x}", "update", "update.canary_watch_s", "a number",
     "as in 3"),
    # missing
    ("  instances: 3\n", "", "- name: controller", f"{G}.instances", "'instances' is missing", "as in instances: 3"),
    ("  azs: [z1, z2]\n", "", "- name: controller", f"{G}.azs", "'azs' is missing", "add azs"),
    ("name: kafka\n", "", "stemcells:", "name", "'name' is missing", "as in name: kafka"),
    ("  name: debian-12\n", "", "- alias", "stemcells[default].name", "neither 'name' nor 'os'", "add name"),
    ("cidr: 10.0.0.0/8", "direction: egress", "{protocol", "security_groups[kafka].rules[0].cidr", "neither",
     "add cidr"),
    # bounds and names
    ("instances: 3", "instances: -1", "s: -1", f"{G}.instances", "at least 0", "use 0 or more"),
    ("instances: 3", "instances: 100001", "100001", f"{G}.instances", "at most 100,000", "use 100,000 or less"),
    ("azs: [z1, z2]", "azs: []", "azs: []", f"{G}.azs", "the list is empty", "at least one"),
    ("name: broker", "name: bro ker", "bro ker", "instance_groups[1].name", "characters that a name cannot", "letters"),
    ("name: broker", f"name: {'b' * 64}", "bbb", f"instance_groups[{'b' * 64}].name", "64 characters", "1 to 63"),
    ("name: broker", "name: ''", "''", "instance_groups[1].name", "0 characters", "1 to 63"),
    ("[kafka]", "[' kafka']", "' kafka'", "instance_groups[broker].security_groups[0]", "blanks", "remove them"),
    ("[kafka]", f"[{'k' * 256}]", "kkk", "instance_groups[broker].security_groups[0]", "256 characters", "1 to 255"),
    ('"1.1"', '"1 1"', "1 1", "stemcells[default].version", "'1 1' is not a version", "latest"),
    ("name: kafka", f"name: kafka\ntags: {{{'a' * 129}: x}}", "aaa", f"tags.{'a' * 129}", "too long", "at most 128"),
    ("name: kafka", f"name: kafka\ntags: {{a: {'x' * 257}}}", "xxx", "tags.a", "too long", "at most 256"),
    ("name: kafka", "name: kafka\ntags: {'': x}", "tags", "tags['']", "it is empty", "at least one character"),
    # one of several, and the choice of words
    ("policy: anti-affinity", "policy: anti-afinity", "afin", f"{G}.placement.policy", "'anti-afinity'",
     "'anti-affinity'?"),
    ("name: kafka", "name: kafka\nupdate: {max_in_flight: 0}", "update", "update.max_in_flight", "neither", '"20%"'),
    ("name: kafka", 'name: kafka\nupdate: {max_in_flight: "101%"}', "101", "update.max_in_flight", "neither", '"20%"'),
    ("name: kafka", "name: kafka\nupdate: {update_watch_s: 0}", "update:", "update.update_watch_s", "more than 0",
     "above 0"),
    # health
    ("instances: 3", HEALTH + "{kind: tcp}", "health", f"{G}.health.port", "has no port", "add port"),
    ("instances: 3", HEALTH + "{port: 80}", "health", f"{G}.health.port", "no meaning", "add kind: tcp"),
    ("instances: 3", HEALTH + "{kind: tcp, port: 1, path: /a}", "health", f"{G}.health.path", "no meaning",
     "kind: http"),
    ("instances: 3", HEALTH + "{kind: http, port: 1, path: a}", "health", f"{G}.health.path", "not the path", "'/'"),
    ("instances: 3", HEALTH + "{kind: udp}", "health", f"{G}.health.kind", "'udp' is not one", "none, tcp, http"),
    # references and pairs inside the manifest
    ("stemcell: default", "stemcell: defalt", "defalt", f"{G}.stemcell", "the alias 'defalt'",
     "did you mean 'default'?"),
    ("cidr: 10.0.0.0/8", "group: kafak", "kafak", "security_groups[kafka].rules[0].group", "'kafak'", "mean 'kafka'?"),
    ("  persistent_disk: 1024", "  persistent_disk: 1024\n  persistent_disk_type: log", "type: log",
     f"{G}.persistent_disk_type", "both 'persistent_disk' and", "keep one"),
    ("  name: debian-12", "  name: debian-12\n  os: x", "os: x", "stemcells[default].os", "both 'name' and 'os'",
     "keep one"),
    (RULE, "{protocol: udp, ports: 1, cidr: ::/0, group: kafka}", "udp", "security_groups[kafka].rules[0].group",
     "both", "keep"),
    (RULE, "{protocol: tcp, cidr: ::/0}", "tcp", "security_groups[kafka].rules[0].ports", "has no ports", "add ports"),
    (RULE, "{protocol: icmp, ports: 1, cidr: ::/0}", "icmp", "security_groups[kafka].rules[0].ports", "cannot",
     "remove"),
    (RULE, "{protocol: tcp, ports: 9-1, cidr: ::/0}", "9-1", "security_groups[kafka].rules[0].ports", "not a port",
     "443"),
    (RULE, "{protocol: tcp, ports: 1, cidr: 10.0.0.1/8}", "0.1/8", "security_groups[kafka].rules[0].cidr", "inside",
     "block"),
    ("static_ips: [10.20.1.10 -", "static_ips: [10.20.1.300 -", "300", f"{G}.networks[0].static_ips[0]", "not an IP",
     "range"),
    ("10.20.1.10 - 10.20.1.11", "10.20.1.11 - 10.20.1.10", "static", f"{G}.networks[0].static_ips[0]", "ends before",
     "range"),
    ("10.20.1.10 - 10.20.1.11", "10.20.1.11 - ::1", "static", f"{G}.networks[0].static_ips[0]", "mixes IPv4", "range"),
    ("10.20.2.10]", "fe80::1%eth0]", "static", f"{G}.networks[0].static_ips[1]", "names a zone", "range"),
    ("instances: 3", "instances: 3\n  env: {bosh: {server_group_cid: x}}", "env", f"{G}.env.bosh.server_group_cid",
     "chosen by Coterie", "use 'placement'"),
    # twice
    ("name: broker", "name: controller", "- name: controller\n  instances: 4", "instance_groups[1].name", "twice",
     "rename"),
    ("azs: [z1, z2]", "azs: [z1, z1]", "azs: [z1, z1]", f"{G}.azs[1]", "'z1' is given twice, first in line 13",
     "remove"),
    ("[kafka]", "[kafka, kafka]", "[kafka, k", "instance_groups[broker].security_groups[1]", "twice", "remove"),
    ("security_groups:\n", "security_groups:\n- name: kafka\n", "- name: kafka\n  rules", "security_groups[1].name",
     "twice", "rename"),
    ("stemcells:\n", "stemcells:\n- {alias: default, os: a, version: '1'}\n", "- alias", "stemcells[1].alias",
     "twice", "rename"),
    ("  - name: default", "  - name: default\n  - name: default", "  - name: default\n    s",
     f"{G}.networks[1].name", "twice", "rem"),
    ("  - name: default", "  - {name: a, default: [dns]}\n  - name: default\n    default: [dns]", "    default: [dns]",
     f"{G}.networks[1].default[0]", "twice", "remove"),
    # one server group, two opinions
    ("    server_group: data\n", "    server_group: data\n    policy: affinity\n",
     "    server_group: data\n  security_groups",
     "instance_groups[connect].placement.policy", "differ in placement.policy", "the same placement.policy"),
    ("    server_group: data\n", "    server_group: data\n    adopt: true\n",
     "    server_group: data\n  security_groups",
     "instance_groups[connect].placement.adopt", "differ in placement.adopt", "the same placement.adopt"),
    ("    server_group: data\n", "    server_group: data\n    options: {a: 1}\n",
     "    server_group: data\n  security_groups",
     "instance_groups[connect].placement.options", "differ in placement.options", "different server groups"),
    ("  security_groups: [kafka]\n", "", "security_groups: [kafka]\n",
     "instance_groups[connect].security_groups", "differ in security_groups", "the same security_groups"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "at", "field", "what", "remedy"), CASES)
def test_mistake(old: str, new: str, at: str, field: str, what: str, remedy: str) -> None:
    text = edited(DEPLOYMENT, (old, new))
    found = mistakes_of_deployment(text)
    assert [m["field"] for m in found] == [field]
    assert found[0]["file"] == "kafka.yml"
    assert found[0]["line"] == line_of(text, at)
    assert what in found[0]["what"]
    assert remedy in found[0]["remedy"]


def test_a_shared_server_group_may_be_named_after_one_of_its_instance_groups() -> None:
    text = edited(
        DEPLOYMENT, ("server_group: data", "policy: affinity"), ("server_group: data", "server_group: broker")
    )
    (mistake,) = mistakes_of_deployment(text)
    assert mistake["field"] == "instance_groups[connect].placement.policy"
    assert "share the server group 'broker'" in mistake["what"]


def test_the_valid_one_is_valid() -> None:
    assert mistakes_of_deployment(DEPLOYMENT) == []


def test_the_schema_knows_the_policies_of_the_contract() -> None:
    assert view(Placement, "policy").choices == POLICIES


@pytest.mark.parametrize("text", ["5", "- a", "name", "[]", '""'])
def test_a_document_that_is_no_mapping(text: str) -> None:
    (mistake,) = mistakes_of_deployment(text)
    assert (mistake["line"], mistake["column"], mistake["field"]) == (1, 1, "")
    assert "must be a mapping" in mistake["what"]


def test_values_are_not_repeated_where_they_may_be_secret() -> None:
    text = edited(DEPLOYMENT, ("instances: 3", "instances: 3\n  env: [hunter2]\n  user_data: {hunter2: 1}"))
    found = mistakes_of_deployment(text)
    assert [m["field"] for m in found] == [f"{G}.env", f"{G}.user_data"]
    assert "hunter2" not in str(found)


def test_a_deployment_has_as_many_nodes_as_can_be_planned() -> None:
    most = edited(DEPLOYMENT, ("instances: 3", "instances: 99994"))
    assert mistakes_of_deployment(most) == []
    text = edited(most, ("instances: 4", "instances: 5"))
    (found,) = mistakes_of_deployment(text)
    assert found["what"].endswith("100001 nodes up to this one; a deployment may have 100000")
    assert found["remedy"] == "use fewer, or several deployments"
