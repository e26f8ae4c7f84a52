"""Sources of variables, through the commands."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from coterie.cli.variables import DirectoryStore, Variables
from coterie.errors import Refused, UsageError
from tests.cli.conftest import CLOUD, MANIFEST, Machine

WITH_VARIABLES = MANIFEST + "  env: {bosh: {password: ((agent.password)), note: ((note))}}\n"


def test_the_first_source_that_has_a_name_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("of a file\n")
    (tmp_path / "vars.yml").write_text("a: 1\nb: 2\nc: {d: 3}\ne-f: 4\n")
    store = tmp_path / "store"
    store.mkdir()
    for name, text in {"g": "of the store\n", "h.yml": "k: [5]\n", "e-f": "no"}.items():
        (store / name).write_text(text)
        (store / name).chmod(0o600)
    monkeypatch.setenv("COTERIE_VAR_e_f", "of the environment")
    monkeypatch.setenv("COTERIE_VAR_x_y", "of the environment")
    documents = (str(tmp_path / "vars.yml"),)
    variables = Variables({"a": "given"}, {"b": str(tmp_path / "file")}, documents, f"directory:{store}")
    found = [variables.find(name) for name in ("a", "b", "c", "c.d", "e-f", "x-y", "g", "h.k")]
    assert found == ["given", "of a file", {"d": 3}, 3, 4, "of the environment", "of the store", [5]]
    for name in ("z", "c.z", "a.z", "g.z"):
        with pytest.raises(KeyError):
            variables.find(name)


def test_a_store_is_closed_to_others_and_known(tmp_path: Path) -> None:
    (tmp_path / "open").write_text("x")
    (tmp_path / "open").chmod(0o644)
    with pytest.raises(Refused, match="can be read by others"):
        DirectoryStore(str(tmp_path)).find("open")
    with pytest.raises(UsageError, match="no store of variables is named 'vault'"):
        Variables({}, {}, (), "vault:x").find("a")


def test_a_deploy_with_variables_shows_none_of_their_values(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "cloud.yml").write_text(CLOUD)
    (tmp_path / "web.yml").write_text(WITH_VARIABLES)
    (tmp_path / "vars.yml").write_text("agent: {password: Secr3tOfAgent}\n")
    web, cloud, values = (str(tmp_path / name) for name in ("web.yml", "cloud.yml", "vars.yml"))
    missing = machine.run("plan", web, "--cloud-config", cloud)
    assert missing.code == 2
    assert f"{web}:13:26" in missing.err and "((agent.password))" in missing.err and "((note))" in missing.err
    saved = str(tmp_path / "plan.json")
    sources = ("--vars-file", values, "--var", "note=N0teOfMine")
    machine.run("stemcells", "add", "debian-12", "1.1", "--property", "image=x")
    planned = machine.run("plan", web, "--cloud-config", cloud, "--save", saved, *sources)
    assert planned.code == 0, planned.err
    assert "((agent.password))" in json.loads(Path(saved).read_text())["wish"]["manifest"]
    done = machine.run("deploy", "--plan", saved, "--yes", *sources)
    assert done.code == 0, done.err
    shown = machine.run("nodes", "show", "web/0", "-o", "json").out + machine.run("deployments", "manifest", "web").out
    assert "redacted" in shown
    for text in (planned.out, done.out, done.err, shown, Path(saved).read_text()):
        assert "Secr3tOfAgent" not in text and "N0teOfMine" not in text
