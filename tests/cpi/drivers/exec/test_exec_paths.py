"""Which programs are run: those in the setting `exec_paths`, by real path."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from coterie.cpi.contract import NotSupported, Runtime
from coterie.cpi.drivers.exec.driver import ExecCpi


@pytest.fixture
def folder(tmp_path: Path, program: Any) -> Path:
    """With the program `cpi`, another one `other`, a link to each and a link to the folder."""
    made: Path = program("info()\nsay(True)")
    (tmp_path / "other").write_text(made.read_text())
    (tmp_path / "other").chmod(0o755)
    (tmp_path / "to_cpi").symlink_to(made)
    (tmp_path / "to_other").symlink_to(tmp_path / "other")
    (tmp_path / "around").symlink_to(tmp_path)
    return tmp_path


def _open(folder: Path, path: str, *allowed: str) -> ExecCpi:
    runtime = Runtime("director", None, exec_paths=[f"{folder}/{one}" for one in allowed])  # type: ignore[arg-type] # unused
    return ExecCpi("abroad", {"path": f"{folder}/{path}"}, runtime)


@pytest.mark.parametrize("path", ["cpi", "to_cpi", "around/cpi", "around/../{name}/cpi", "./cpi"])
@pytest.mark.parametrize("allowed", ["cpi", "to_cpi", "around/cpi"])
def test_an_allowed_program_is_run_under_any_of_its_paths(folder: Path, path: str, allowed: str) -> None:
    assert _open(folder, path.format(name=folder.name), "other", allowed).has_vm("i-1")


@pytest.mark.parametrize("path", ["other", "to_other", "cpi/../other", "around/other", "cpi2", "."])
def test_any_other_program_is_refused_with_the_setting_and_the_path(folder: Path, path: str) -> None:
    cpi = _open(folder, path, "cpi")
    with pytest.raises(NotSupported) as refused:
        cpi.has_vm("i-1")
    assert "exec_paths" in refused.value.why and "COTERIE_EXEC_PATHS" in refused.value.remedy
    assert f"{folder}/{path}" in refused.value.why or path == "."
    assert not (folder / "seen").exists()


def test_a_link_that_leads_elsewhere_since_is_refused(folder: Path) -> None:
    cpi = _open(folder, "to_cpi", "cpi")
    assert cpi.has_vm("i-1")
    (folder / "to_cpi").unlink()
    (folder / "to_cpi").symlink_to(folder / "other")
    with pytest.raises(NotSupported):
        cpi.has_vm("i-1")


def test_nothing_is_run_by_default(folder: Path) -> None:
    [program, info, *_] = _open(folder, "cpi").check()
    assert program.ok and not info.ok
    assert "exec_paths" in info.remedy
