"""Properties of the cloud: defaults, and mistakes that name their field before anything is touched."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from coterie.cpi.contract import POLICIES, InvalidCall, Runtime
from coterie.cpi.drivers.sandbox.driver import SandboxCpi
from coterie.cpi.drivers.sandbox.properties import read_settings
from coterie.cpi.load import open_cloud

from .lab import DIRECTOR, OneAtATime


def test_defaults() -> None:
    settings = read_settings("lab", {"state": "~/x.db"})
    assert settings.state == Path.home() / "x.db"
    assert settings.account == "lab"
    assert settings.policies == frozenset(POLICIES)
    assert (settings.groups, settings.resize_disk, settings.snapshots, settings.settle_s) == ("direct", True, True, 2.0)
    assert settings.layout is None
    assert settings.boots_per_soft_group is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("stat", "x"),
        ("account", 5),
        ("layout", []),
        ("layout", {"zones": [{"nome": "z1"}]}),
        ("quotas", {"dragons": 1}),
        ("quotas", 5),
        ("groups", "many-writers"),
        ("policies", ["nearby"]),
        ("policies", "affinity"),
        ("resize_disk", "yes"),
        ("snapshots", 1),
        ("settle_s", -1),
        ("soft_lag_ms", 1.5),
        ("boots_per_soft_group", 0),
    ],
)
def test_a_mistake_names_its_field_and_the_remedy(key: str, value: Any) -> None:
    with pytest.raises(InvalidCall, match=rf"^properties\.{key} ") as caught:
        read_settings("lab", {"state": "x", key: value})
    assert caught.value.remedy


def test_state_is_required() -> None:
    with pytest.raises(InvalidCall, match=r"properties\.state is missing"):
        read_settings("lab", {})


def test_the_entry_point_loads_it_and_construction_touches_nothing(tmp_path: Path) -> None:
    properties = {"state": str(tmp_path / "deep" / "s.db")}
    cpi = open_cloud("sandbox", "lab", properties, Runtime(DIRECTOR, OneAtATime()))
    assert isinstance(cpi, SandboxCpi)
    assert cpi.info()["api_version"] == 3
    assert cpi.ping()
    assert cpi.capabilities().driver == "sandbox"
    assert list(tmp_path.iterdir()) == []


def test_capabilities_follow_the_properties(tmp_path: Path) -> None:
    properties = {
        "state": str(tmp_path / "s.db"),
        "groups": "single-writer",
        "policies": ["affinity"],
        "resize_disk": False,
        "snapshots": False,
        "settle_s": 7,
        "boots_per_soft_group": 1,
        "quotas": {"server_group_members": 6},
    }
    found = SandboxCpi("lab", properties, Runtime(DIRECTOR, OneAtATime())).capabilities()
    assert found.policies == {"affinity"}
    assert found.settle_s == 7
    assert found.boots_per_soft_group == 1
    assert found.max_group_members == 6
    assert "snapshot" not in found.kinds
    assert {"resize_disk", "update_disk", "snapshot_disk", "delete_snapshot"} <= set(found.unsupported)
    assert all(reason.why and reason.citation for reason in found.unsupported.values())
