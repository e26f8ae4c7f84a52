"""Drivers are found in the folders of installed packages as the standard library's reader finds them."""

from __future__ import annotations

from importlib.metadata import entry_points
from pathlib import Path

import pytest

from coterie.cpi import load
from coterie.errors import UsageError


@pytest.fixture(autouse=True)
def _forget() -> None:
    for known in (load._in_folders, load._installed, load.driver_class):
        known.cache_clear()


def add_package(folder: Path, name: str, text: str) -> None:
    (folder / f"{name}-1.0.dist-info").mkdir(parents=True)
    (folder / f"{name}-1.0.dist-info" / "METADATA").write_text(f"Name: {name}\nVersion: 1.0\n")
    (folder / f"{name}-1.0.dist-info" / "entry_points.txt").write_text(text)


def test_both_ways_find_the_same() -> None:
    assert dict(load._in_folders()) == {point.name: point.value for point in entry_points(group="coterie.cpi")}
    assert load.driver_names() == sorted(load._in_folders()) != []


@pytest.mark.parametrize(
    "text",
    [
        "[coterie.cpi]\nnimbus = pathlib:PurePath\n",
        "[console_scripts]\na = b:c\n\n[coterie.cpi]\n# comment\nnimbus=pathlib:PurePath [extra]\n\n[other]\nx = y:z\n",
        "[coterie.cpi_like]\nnimbus = no:One\n[coterie.cpi]\n  nimbus   =   pathlib:PurePath  \n",
    ],
)
def test_a_package_brings_a_driver(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add_package(tmp_path, "nimbus", text)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert load._in_folders()["nimbus"] == "pathlib:PurePath"
    assert load.driver_class("nimbus").__name__ == "PurePath"
    assert "nimbus" in load.driver_names()


def test_of_two_copies_of_a_package_the_first_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder, place in (("later", "os:Other"), ("first", "pathlib:PurePath")):
        add_package(tmp_path / folder, "nimbus", f"[coterie.cpi]\nnimbus = {place}\n")
        monkeypatch.syspath_prepend(str(tmp_path / folder))
    assert load._in_folders()["nimbus"] == load._installed()["nimbus"] == "pathlib:PurePath"


def test_what_is_not_in_a_folder_is_found_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "_in_folders", dict)
    assert load.driver_class("sandbox").__name__ == "SandboxCpi"


def test_an_unknown_one_is_refused_with_the_names_that_are_there() -> None:
    with pytest.raises(UsageError, match="no cloud driver is named 'nimbus'") as refusal:
        load.driver_class("nimbus")
    assert "sandbox" in refusal.value.remedy
    assert load.forms_of("nimbus") == {}
