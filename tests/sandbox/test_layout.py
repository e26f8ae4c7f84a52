"""The layout document: defaults, host names, and mistakes named by their field."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.sandbox.errors import BadRequest
from coterie.sandbox.layout import read_layout


def test_the_default_is_three_zones_of_two_racks_of_three_hosts() -> None:
    layout = read_layout(None)
    assert [host.name for host in layout.hosts][:4] == ["z1-r1-h1", "z1-r1-h2", "z1-r1-h3", "z1-r2-h1"]
    assert len(layout.hosts) == 18
    assert {host.zone for host in layout.hosts} == {"z1", "z2", "z3"}
    assert layout.hosts[0].cpu == 32
    assert layout.hosts[0].ram_mb == 131_072
    assert layout.hosts[0].disk_mb == 4 * 1024 * 1024
    assert layout.networks == ("default",)


def test_sizes_that_are_left_out_are_the_default() -> None:
    (first, *_) = read_layout({"zones": [{"name": "a", "cpu": 4}]}).hosts
    assert (first.cpu, first.ram_mb) == (4, 131_072)


@pytest.mark.parametrize(
    ("document", "field"),
    [
        ({}, "layout.zones"),
        ({"zones": []}, "layout.zones"),
        ({"zones": [{}]}, "layout.zones[0].name"),
        ({"zones": [{"name": "a"}, {"name": "b", "racks": 0}]}, "layout.zones[1].racks"),
        ({"zones": [{"name": "a", "cpu": "many"}]}, "layout.zones[0].cpu"),
        ({"zones": [{"name": "a", "cpu": True}]}, "layout.zones[0].cpu"),
        ({"zones": [{"name": "a", "gpu": 1}]}, "layout.zones[0].gpu"),
        ({"zones": [{"name": "a"}], "color": "blue"}, "layout.color"),
        ({"zones": [{"name": "a"}, {"name": "a"}]}, "layout.zones"),
        ({"zones": [{"name": "a"}], "networks": "default"}, "layout.networks"),
    ],
)
def test_a_mistake_is_named_by_its_field(document: dict[str, Any], field: str) -> None:
    with pytest.raises(BadRequest) as caught:
        read_layout(document)
    assert caught.value.what.startswith(f"{field} ")
    assert caught.value.remedy
