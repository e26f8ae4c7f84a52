"""`coterie demo` as a wheel brings it: no source tree, documents and stemcells of its own, nothing left behind."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.cli.conftest import PROGRAM, Machine

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel's content, as pip lays it out."""
    folder = tmp_path_factory.mktemp("wheel")
    words = ["-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", str(folder), str(ROOT)]
    subprocess.run([sys.executable, *words], check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(folder / "site")
    return folder / "site"


def test_it_runs_from_the_wheel(machine: Machine, unpacked: Path) -> None:
    machine.env |= {
        "PYTHONPATH": str(unpacked),
        "COTERIE_DIRECTOR": "http://127.0.0.1:9",
        "TMPDIR": str(machine.folder),
    }
    where = subprocess.run(
        [sys.executable, "-c", "import coterie; print(coterie.__file__)"],
        env=machine.environment(),
        cwd=machine.folder,
        capture_output=True,
        text=True,
    )
    assert where.stdout.startswith(str(unpacked))
    done = subprocess.run(
        [*PROGRAM, "demo"], env=machine.environment(), cwd=machine.folder, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "$ coterie deploy kafka-v2.yml --yes" in done.stdout and "8 nodes on 8 hosts" in done.stdout
    assert "the cloud is as empty as before" in done.stdout
    assert not list(machine.folder.glob("coterie-demo-*"))  # its folder is gone, and with it its Director
    assert not machine.state_folder.path.exists()


def test_files_are_written_once(machine: Machine) -> None:
    first = machine.run("demo", "--files", "mine")
    (machine.folder / "mine" / "kafka.yml").write_text("name: mine\n")
    second = machine.run("demo", "--files", "mine")
    assert {"kafka.yml", "cloud.yml", "stemcell-1.1.tgz"} <= {Path(line).name for line in first.out.splitlines()}
    assert second.out == "" and (machine.folder / "mine" / "kafka.yml").read_text() == "name: mine\n"
