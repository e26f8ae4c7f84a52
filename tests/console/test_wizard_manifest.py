"""The wizard's form as a manifest: it is read back as it was written, whatever was typed."""

from __future__ import annotations

from collections.abc import Sequence
from io import StringIO
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from coterie.director.console.wizard_manifest import Form, GroupForm, read_form, write_manifest
from coterie.manifest import load_deployment

GOOD = GroupForm("web", "3", ["z1", "z2"], "small", "1024", "net")


def read(text: str) -> Any:
    return YAML(typ="safe").load(StringIO(text))


def sent(fields: dict[str, Any]) -> Form:
    def texts(name: str) -> Sequence[str]:
        value = fields.get(name, [])
        return [value] if isinstance(value, str) else value

    return read_form(texts)


def test_a_filled_form_is_a_manifest_without_mistakes() -> None:
    form = Form("shop", "debian-12 1.1", "1", "20%", True, True, [GOOD])
    found = load_deployment(write_manifest(form), "manifest").value
    (group,) = found.instance_groups
    assert (found.name, found.resurrection, group.instances, group.azs) == ("shop", True, 3, ("z1", "z2"))
    assert found.stemcells[0].version == "1.1"


def test_the_drs_groups_of_vsphere_are_written() -> None:
    group = GroupForm(
        "db", "2", ["z1"], "small", "", "net", policy="host-affinity", vm_group="licensed-vms",
        host_group="licensed hosts", rule="should", affine="false", adopt=True,
    )  # fmt: skip
    text = write_manifest(Form("shop", "debian-12 1.1", groups=[group]))
    placement = read(text)["instance_groups"][0]["placement"]
    assert placement == {
        "policy": "host-affinity",
        "vm_group": "licensed-vms",
        "host_group": "licensed hosts",
        "rule": "should",
        "affine": False,
        "adopt": True,
    }
    assert load_deployment(text, "manifest").value.instance_groups[0].placement is not None


@pytest.mark.parametrize("health", ["none", "tcp", "http"])
def test_health_checks_are_written(health: str) -> None:
    group = GroupForm("web", "1", ["z1"], "small", "", "net", health=health, port="8080", path="/up")
    found = read(write_manifest(Form("shop", "os 1", groups=[group])))["instance_groups"][0]
    assert found.get("health", {}).get("kind", "none") == health


def test_a_form_of_two_groups_is_read_field_by_field() -> None:
    form = sent({"name": " shop ", "groups": "2", "g0_azs": ["z1", "z2"], "g1_name": "db", "g1_adopt": "true"})
    assert (form.name, len(form.groups), form.groups[0].azs, form.groups[1].name) == ("shop", 2, ["z1", "z2"], "db")
    assert form.groups[1].adopt and not form.groups[0].adopt


@pytest.mark.parametrize(("given_", "count"), [("", 1), ("0", 1), ("x", 1), ("3", 3), ("999999999", 20)])
def test_the_number_of_groups_is_bounded(given_: str, count: int) -> None:
    assert len(sent({"groups": given_}).groups) == count


@settings(deadline=None)
@given(st.text(), st.text(), st.text(alphabet=st.characters(codec="utf-8", exclude_characters=",")))
def test_whatever_is_typed_stays_one_value(name: str, policy: str, address: str) -> None:
    """A value that is no plain word is in quotes: nothing that is typed becomes a field of the manifest."""
    group = GroupForm(name, "1", [name], name, "", name, static_ips=address, policy=policy, server_group=name)
    found = read(write_manifest(Form(name, f"{name.replace(' ', '')} 1", groups=[group])))
    assert found["name"] == name
    assert found["instance_groups"][0]["azs"] == [name]
    assert set(found) == {"name", "stemcells", "instance_groups", "update"}
    assert len(found["instance_groups"]) == 1
