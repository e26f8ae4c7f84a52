"""`init`, `validate` and `schema`: documents of one's own, before there is a Director."""

from __future__ import annotations

import json
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


def test_schema_prints_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["schema", "manifest"]) == 0
    assert "instance_groups" in json.loads(capsys.readouterr().out)["properties"]
    assert run(["schema", "cloud-config", "--driver", "vsphere"]) == 0
    (of_driver,) = json.loads(capsys.readouterr().out)["$defs"]["Cloud"]["allOf"]
    assert of_driver["if"]["properties"]["driver"]["const"] == "vsphere"
    assert run(["schema", "cloud-config", "--driver", "nimbus"]) == 2
