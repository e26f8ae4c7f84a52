"""`explain` knows every field of both documents, and helps where it does not."""

from __future__ import annotations

import pytest

from coterie.errors import NotFound
from coterie.manifest import explain
from coterie.manifest.explain import ROOTS, paths

EVERY_PATH = [path for root in ROOTS for path in paths(root)]


def test_a_field_with_choices() -> None:
    found = explain("instance_groups.placement.policy")
    assert found.path == "instance_groups.placement.policy"
    assert (found.type, found.required, found.default) == ("one of the choices", False, "soft-anti-affinity")
    assert found.choices[:2] == ("soft-anti-affinity", "anti-affinity")
    assert "never two nodes on one host" in found.description
    assert found.children == ()


def test_a_part_lists_its_fields() -> None:
    found = explain("instance_groups.health")
    assert found.children == ("kind", "port", "path", "expect", "interval_s", "timeout_s", "recreate_after")
    assert explain("instance_groups").required


@pytest.mark.parametrize(
    "path", ["networks.subnets.range", "cloud_config.networks.subnets.range", "networks[0].subnets[1].range"]
)
def test_the_cloud_config_is_found_too(path: str) -> None:
    found = explain(path)
    assert found.path == "cloud_config.networks.subnets.range"
    assert found.type == "address block (CIDR)"


def test_the_documents_themselves() -> None:
    assert "instance_groups" in explain("deployment").children
    assert explain("cloud_config").children == ("clouds", "azs", "vm_types", "disk_types", "networks")
    assert explain("deployment.name").path == "name"


@pytest.mark.parametrize("path", EVERY_PATH)
def test_every_field_is_documented(path: str) -> None:
    found = explain(path)
    assert found.path == path
    assert found.description.endswith(".")
    assert found.example is not None


@pytest.mark.parametrize(
    ("path", "close"),
    [
        ("placement.policy", "instance_groups.placement.policy"),
        ("instance_groups.placment.policy", "instance_groups.placement.policy"),
        ("subnets.gateway", "cloud_config.networks.subnets.gateway"),
        ("cloud_config.instance_groups", "instance_groups"),
    ],
)
def test_an_unknown_path_is_answered_with_close_ones(path: str, close: str) -> None:
    with pytest.raises(NotFound) as caught:
        explain(path)
    assert close in caught.value.details["close"]
    assert close in caught.value.remedy


@pytest.mark.parametrize("path", ["", "..", "qqqq", "instance_groups.name.name"])
def test_nonsense_is_not_found(path: str) -> None:
    with pytest.raises(NotFound) as caught:
        explain(path)
    assert caught.value.remedy
