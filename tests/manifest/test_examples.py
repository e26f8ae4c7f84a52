"""The examples are right, and are what the README and the demo say they are."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from coterie.cpi.contract import POLICIES, Capabilities
from coterie.manifest import CloudConfig, InstanceGroupSpec, load_both, resolve
from coterie.manifest.space import even_shares
from coterie.sandbox.layout import read_layout

EXAMPLES = Path(__file__).parents[2] / "examples"
PAIRS = [
    ("kafka.yml", "cloud.yml"),
    ("kafka-v2.yml", "cloud.yml"),
    ("two-clouds.yml", "two-clouds-config.yml"),
]


def load(deployment: str, config: str) -> tuple[list[InstanceGroupSpec], CloudConfig]:
    texts = [(EXAMPLES / name).read_text(encoding="utf-8") for name in (deployment, config)]
    can = Capabilities("sandbox", policies=frozenset(POLICIES))
    clouds = {"lab": can, "east": can, "west": can}
    wanted, offered = load_both((texts[0], deployment), (texts[1], config), clouds, drivers=["sandbox", "exec"])
    return resolve(wanted.value, offered.value), offered.value


def hosts(config: CloudConfig) -> Counter[tuple[str, str]]:
    """(cloud, zone) → how many hosts the sandbox has there."""
    layouts = {cloud.name: read_layout(cloud.properties.get("layout")) for cloud in config.clouds}
    return Counter((cloud, host.zone) for cloud, layout in layouts.items() for host in layout.hosts)


@pytest.mark.parametrize(("deployment", "config"), PAIRS)
def test_strict_groups_fit_the_hosts(deployment: str, config: str) -> None:
    group_specs, offered = load(deployment, config)
    needed: dict[tuple[str, tuple[str, str]], int] = {}
    for spec in group_specs:
        for az, count in zip(spec.azs, even_shares(spec.instances, len(spec.azs)), strict=True):
            if spec.server_group and spec.server_group.policy == "anti-affinity":
                key = (spec.server_group.name, (az.cloud, az.vm_properties["zone"]))
                needed[key] = needed.get(key, 0) + count
    assert needed
    assert all(count <= hosts(offered)[zone] for (_, zone), count in needed.items())


def test_kafka_is_what_the_demo_needs() -> None:
    groups = {spec.name: spec for spec in load("kafka.yml", "cloud.yml")[0]}
    assert {name: spec.instances for name, spec in groups.items()} == {"controller": 3, "broker": 4, "connect": 2}
    data = groups["broker"].server_group
    assert data and data.shared and data == groups["connect"].server_group
    assert groups["controller"].server_group and groups["controller"].server_group.policy == "anti-affinity"
    assert len(groups["controller"].networks[0].static_ips) == 3
    assert groups["broker"].disk and groups["controller"].disk
    assert (groups["broker"].update.canaries, groups["broker"].update.max_in_flight) == (1, 2)


def test_the_second_kafka_changes_three_things() -> None:
    before, after = ({w.name: w for w in load(name, "cloud.yml")[0]} for name in ("kafka.yml", "kafka-v2.yml"))
    assert after["broker"].instances == 6
    assert {spec.stemcell.version for spec in after.values()} == {"1.2"}
    assert [w["broker"].server_group and w["broker"].server_group.policy for w in (before, after)] == [
        "soft-anti-affinity",
        "anti-affinity",
    ]
    assert before["controller"].networks == after["controller"].networks


def test_two_clouds_are_really_two() -> None:
    group_specs, config = load("two-clouds.yml", "two-clouds-config.yml")
    assert {az.cloud for az in group_specs[0].azs} == {"east", "west"}
    assert [cloud.properties.get("groups") for cloud in config.clouds] == [None, "single-writer"]
