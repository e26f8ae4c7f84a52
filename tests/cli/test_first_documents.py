"""`init`, `validate` and `schema`: documents of one's own, before there is a Director."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from coterie.cli.main import run
from coterie.cpi.load import driver_names


@pytest.mark.parametrize("driver", driver_names())
def test_what_init_writes_has_no_mistakes(driver: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["init", "--driver", driver]) == 0
    assert run(["validate", "manifest.yml", "--cloud-config", "cloud-config.yml"]) == 0
    assert run(["validate", "manifest.yml"]) == run(["validate", "--cloud-config", "cloud-config.yml"]) == 0


def test_init_overwrites_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "manifest.yml").write_text("mine")
    assert run(["init", str(tmp_path)]) == 2
    assert "there is already manifest.yml in" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["manifest.yml"]
    assert (tmp_path / "manifest.yml").read_text() == "mine"


def test_init_refuses_a_bad_name(tmp_path: Path) -> None:
    assert run(["init", str(tmp_path), "--name", "two words"]) == 2
    assert list(tmp_path.iterdir()) == []


def test_validate_names_every_mistake_with_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["init", "--driver", "openstack"]) == 0
    manifest, config = tmp_path / "manifest.yml", tmp_path / "cloud-config.yml"
    manifest.write_text(manifest.read_text().replace("vm_type: small", "vm_type: smal"))
    config.write_text(config.read_text().replace("auth_url", "auth_uri"))
    capsys.readouterr()
    assert run(["validate", "manifest.yml", "--cloud-config", "cloud-config.yml"]) == 2
    words = capsys.readouterr().err
    assert "manifest.yml:11:" in words and "'smal'" in words
    assert "cloud-config.yml:5:" in words and "auth_uri" in words
    assert run(["validate"]) == 2


CLOUDS = """
clouds:
- {name: lab, driver: sandbox, properties: {policies: [soft-anti-affinity]}}
- {name: inc, driver: incus, properties: {storage_pool: local, policies: [anti-affinity]}}
- {name: far, driver: exec, properties: {path: /opt/cpi}}
azs:
- {name: z1, cloud: lab, cloud_properties: {cpu: 1, ram_mb: 128, disk_mb: 100}}
- {name: z2, cloud: inc, cloud_properties: {cpu: 1, memory: 64}}
- {name: z3, cloud: far}
vm_types: [{name: small}]
networks: [{name: net, subnets: [{range: 10.0.0.0/24, azs: [z1, z2]}, {range: 10.1.0.0/24, azs: [z3]}]}]
"""
GROUP = (
    "- {{name: {az}, instances: 2, azs: [{az}], vm_type: small, stemcell: s, networks: [{{name: net}}], "
    "placement: {{policy: {policy}}}}}\n"
)
MANIFEST = "name: kafka\nstemcells: [{alias: s, name: s, version: '1'}]\ninstance_groups:\n"


def test_validate_names_policies_that_the_cloud_cannot_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As far as the properties tell: what a foreign program can do is not known before it runs."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "c.yml").write_text(CLOUDS)
    documents = ["manifest.yml", "--cloud-config", "c.yml"]
    wrong = {"z1": "anti-affinity", "z2": "affinity", "z3": "affinity"}
    Path("manifest.yml").write_text(MANIFEST + "".join(GROUP.format(az=az, policy=one) for az, one in wrong.items()))
    assert run(["validate", *documents]) == 2
    words = capsys.readouterr().err
    assert "manifest.yml:4:" in words and "the cloud 'lab' (driver sandbox) cannot do anti-affinity" in words
    assert "manifest.yml:5:" in words and "the cloud 'inc' (driver incus) cannot do affinity" in words
    assert "'far'" not in words
    right = {"z1": "soft-anti-affinity", "z2": "anti-affinity"}
    Path("manifest.yml").write_text(MANIFEST + "".join(GROUP.format(az=az, policy=one) for az, one in right.items()))
    assert run(["validate", *documents]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c.yml", "manifest.yml"], "nothing is written"


def test_validate_connects_to_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    def refuse(*_: object) -> None:
        raise AssertionError("a connection is opened")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    for driver in driver_names():
        (tmp_path / driver).mkdir()
        assert run(["init", driver, "--driver", driver]) == 0
        assert run(["validate", f"{driver}/manifest.yml", "--cloud-config", f"{driver}/cloud-config.yml"]) == 0


def test_schema_prints_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["schema", "manifest"]) == 0
    assert "instance_groups" in json.loads(capsys.readouterr().out)["properties"]
    assert run(["schema", "cloud-config", "--driver", "vsphere"]) == 0
    (of_driver,) = json.loads(capsys.readouterr().out)["$defs"]["Cloud"]["allOf"]
    assert of_driver["if"]["properties"]["driver"]["const"] == "vsphere"
    assert run(["schema", "cloud-config", "--driver", "nimbus"]) == 2
