"""A loaded document can say where each of its fields is written."""

from __future__ import annotations

import pytest

from coterie.manifest import load_cloud_config, load_deployment
from tests.manifest.documents import CONFIG, DEPLOYMENT, edited

PLACES = [
    ("name", (1, 7)),
    ("stemcells[default].version", (5, 12)),
    ("instance_groups", (11, 1)),
    ("instance_groups[broker]", (22, 3)),
    ("instance_groups[1].instances", (23, 14)),
    ("instance_groups[controller].networks[0].static_ips", (19, 17)),
    ("instance_groups[controller].networks[0].static_ips[1]", (19, 43)),
    ("instance_groups[connect].placement.server_group", (41, 19)),
    ("instance_groups[broker].placement.policy", (31, 5)),  # not written: its nearest holder
    ("instance_groups[nobody].azs", (11, 1)),
    ("nonsense", (1, 1)),
    ("", (1, 1)),
]


@pytest.mark.parametrize(("path", "place"), PLACES)
def test_line(path: str, place: tuple[int, int]) -> None:
    assert load_deployment(DEPLOYMENT, "kafka.yml").line(path) == place


def test_a_place_can_also_be_given_as_steps() -> None:
    assert load_deployment(DEPLOYMENT, "kafka.yml").line(("instance_groups", 1, "instances")) == (23, 14)


def test_names_made_of_digits_and_keys_with_dots_can_be_meant() -> None:
    text = edited(DEPLOYMENT, ("name: kafka", "name: kafka\ntags: {a.b: x}"))
    assert load_deployment(text, "f").line("tags['a.b']") == (2, 13)
    config = edited(CONFIG, ("- name: log", '- name: "0"\n  disk_size: 3\n- name: log'))
    assert load_cloud_config(config, "f").line("disk_types[0].disk_size") == (18, 14)


def test_the_value_cannot_be_changed() -> None:
    loaded = load_deployment(DEPLOYMENT, "kafka.yml")
    with pytest.raises(ValueError, match="frozen"):
        loaded.value.name = "other"  # type: ignore[misc]  # that it is refused is what is tested
