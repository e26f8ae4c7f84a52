"""Wishes: every name resolved, every default applied, nothing per instance."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.cpi.contract import SecurityGroup
from coterie.errors import InvalidDocument
from coterie.manifest import InstanceGroupSpec, load_both, load_deployment, resolve
from coterie.manifest.resolve import in_flight
from coterie.manifest.space import even_shares
from tests.manifest.documents import CONFIG, DEPLOYMENT, edited


def group_specs(deployment: str = DEPLOYMENT, config: str = CONFIG, **options: Any) -> dict[str, InstanceGroupSpec]:
    wanted, offered = load_both((deployment, "kafka.yml"), (config, "cloud.yml"))
    return {spec.name: spec for spec in resolve(wanted.value, offered.value, **options)}


def test_names_are_replaced_by_what_they_mean() -> None:
    broker = group_specs()["broker"]
    assert [(az.name, az.cloud) for az in broker.azs] == [("z1", "lab"), ("z2", "lab")]
    assert broker.disk is not None
    assert (broker.disk.size_mb, broker.stemcell.name, broker.stemcell.version) == (10240, "debian-12", "1.1")
    assert broker.vm_type == "large"
    rule = {"protocol": "tcp", "ports": "9092", "cidr": "10.0.0.0/8", "direction": "ingress"}
    assert broker.security_groups == (SecurityGroup("kafka", (rule,)),)


def test_a_vm_type_s_properties_win_over_its_az_s() -> None:
    config = edited(CONFIG, ("{zone: z1}", "{zone: z1, cpu: 1, rack: r1}"))
    assert group_specs(config=config)["broker"].azs[0].vm_properties == {"zone": "z1", "cpu": 4, "rack": "r1"}
    assert group_specs(config=config)["broker"].azs[0].cloud_properties == {"zone": "z1", "cpu": 1, "rack": "r1"}


def test_disks() -> None:
    found = group_specs()
    assert found["controller"].disk is not None
    assert (found["controller"].disk.size_mb, found["controller"].disk.cloud_properties) == (1024, {})
    assert found["connect"].disk is None
    none = edited(DEPLOYMENT, ("persistent_disk: 1024", "persistent_disk: 0"))
    assert group_specs(none)["controller"].disk is None


def test_networks_are_given_by_az_with_static_addresses_in_order() -> None:
    (network,) = group_specs()["controller"].networks
    assert list(network.static_ips) == ["10.20.1.10", "10.20.1.11", "10.20.2.10"]
    assert {az: [subnet.range for subnet in subnets] for az, subnets in network.by_az.items()} == {
        "z1": ["10.20.1.0/24"],
        "z2": ["10.20.2.0/24"],
    }
    assert network.default == ("dns", "gateway")
    subnet = network.by_az["z1"][0]
    assert subnet.netmask == "255.255.255.0"
    assert subnet.free().count == 235


def test_a_network_without_subnets_serves_every_az() -> None:
    text = edited(DEPLOYMENT, ("  - name: default\n  placement", "  - name: cloudy\n  placement"))
    (network,) = group_specs(text)["broker"].networks
    assert network.type == "dynamic"
    assert [subnet.range for subnets in network.by_az.values() for subnet in subnets] == [None, None]
    assert network.by_az["z1"][0].free().count == 0


def test_several_networks_keep_the_defaults_they_were_given() -> None:
    two = "  - {name: cloudy, default: [dns]}\n  - {name: default, default: [gateway]}\n  placement"
    found = group_specs(edited(DEPLOYMENT, ("  - name: default\n  placement", two)))["broker"]
    assert [network.default for network in found.networks] == [("dns",), ("gateway",)]
    vip = "  - {name: floating, static_ips: [1.1.1.1 - 1.1.1.4]}\n  - name: default\n  placement"
    found = group_specs(edited(DEPLOYMENT, ("  - name: default\n  placement", vip)))["broker"]
    assert [network.default for network in found.networks] == [(), ("dns", "gateway")]


def test_tags_of_the_group_win_over_those_of_the_deployment() -> None:
    text = edited(
        DEPLOYMENT, ("name: kafka", "name: kafka\ntags: {a: x, b: y}"), ("instances: 4", "instances: 4\n  tags: {b: z}")
    )
    assert group_specs(text)["broker"].tags == {"a": "x", "b": "z"}


def test_server_groups_own_and_shared() -> None:
    found = {name: spec.server_group for name, spec in group_specs().items()}
    own, data = found["controller"], found["broker"]
    assert own and data
    assert (own.name, own.named, own.policy, own.shared) == ("controller", False, "anti-affinity", False)
    assert (data.name, data.named, data.policy, data.shared) == ("data", True, "soft-anti-affinity", True)
    assert data == found["connect"]
    assert data.members == ("broker", "connect")


PLAIN = edited(DEPLOYMENT, ("  placement:\n    policy: anti-affinity\n", ""))
ONLY_SECURITY = edited(
    PLAIN, ("  placement:\n    server_group: data\n", ""), ("  placement:\n    server_group: data\n", "")
)


def test_without_placement_there_is_no_group_unless_asked_for() -> None:
    assert group_specs(PLAIN)["controller"].server_group is None
    automatic = group_specs(PLAIN, auto_anti_affinity=True)["controller"].server_group
    assert automatic
    assert (automatic.name, automatic.policy) == ("controller", "soft-anti-affinity")


def test_the_manifest_decides_over_the_director_s_default() -> None:
    for said, director, expected in (("true", False, True), ("false", True, False)):
        text = edited(PLAIN, ("name: kafka", f"name: kafka\nfeatures: {{enable_auto_anti_affinity: {said}}}"))
        assert (group_specs(text, auto_anti_affinity=director)["controller"].server_group is not None) == expected


def test_security_groups_alone_make_a_group_without_policy() -> None:
    group = group_specs(ONLY_SECURITY)["broker"].server_group
    assert group
    assert (group.name, group.policy) == ("broker", None)
    automatic = group_specs(ONLY_SECURITY, auto_anti_affinity=True)["broker"].server_group
    assert automatic
    assert automatic.policy == "soft-anti-affinity"


def test_an_undefined_security_group_has_no_rules() -> None:
    text = edited(DEPLOYMENT, ("[kafka]", "[other, kafka]"), ("[kafka]", "[kafka, other]"))
    assert group_specs(text)["broker"].security_groups[0] == SecurityGroup("other")


def test_a_group_overrides_only_what_it_says() -> None:
    text = edited(
        DEPLOYMENT,
        ("name: kafka", "name: kafka\nupdate: {canaries: 2, max_in_flight: 50%, serial: false, canary_watch_s: 9}"),
        ("instances: 4", "instances: 4\n  update: {canaries: 0}"),
    )
    broker, connect = group_specs(text)["broker"].update, group_specs(text)["connect"].update
    assert (broker.canaries, broker.max_in_flight, broker.serial, broker.canary_watch_s) == (0, 2, False, 9)
    assert (connect.canaries, connect.max_in_flight, connect.update_watch_s) == (2, 1, 300)


@pytest.mark.parametrize(
    ("wanted", "instances", "expected"), [("20%", 10, 2), ("20%", 4, 1), ("100%", 7, 7), ("1%", 0, 1), (3, 1, 3)]
)
def test_percentages(wanted: int | str, instances: int, expected: int) -> None:
    assert in_flight(wanted, instances) == expected


def test_canaries_are_not_more_than_instances() -> None:
    text = edited(DEPLOYMENT, ("instances: 4", "instances: 0\n  update: {canaries: 3}"))
    assert group_specs(text)["broker"].update.canaries == 0


def test_an_even_spread() -> None:
    assert even_shares(7, 3) == [3, 2, 2]
    assert even_shares(0, 2) == [0, 0]


def test_documents_that_were_not_checked_are_refused_by_type() -> None:
    wanted, offered = load_both((DEPLOYMENT, "kafka.yml"), (CONFIG, "cloud.yml"))
    other = load_deployment(edited(DEPLOYMENT, ("vm_type: large", "vm_type: huge")), "kafka.yml")
    with pytest.raises(InvalidDocument, match="no vm type is named 'huge'"):
        resolve(other.value, offered.value)
    assert len(resolve(wanted.value, offered.value)) == 3


def test_the_size_of_a_spec_does_not_depend_on_the_number_of_instances() -> None:
    """Equal but for the numbers: nothing is made per instance."""
    config = edited(CONFIG, ("10.20.1.0/24", "10.20.0.0/17"), ("10.20.2.0/24", "10.20.128.0/17"))
    config = edited(config, ("gateway: 10.20.2.1", "gateway: 10.20.128.1"), ("[10.20.2.10]", "[10.20.128.10]"))
    text = edited(DEPLOYMENT, ("10.20.2.10]", "10.20.128.10]"))
    few, many = (
        group_specs(text, config)["broker"],
        group_specs(edited(text, ("instances: 4", "instances: 10000")), config)["broker"],
    )
    assert many.instances == 10000
    assert (few.networks, few.azs, few.server_group) == (many.networks, many.azs, many.server_group)
