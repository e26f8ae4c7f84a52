"""A new cloud touches nothing else: the example driver, built as a wheel of its own and installed beside Coterie into a
fresh environment, passes the conformance kit and deploys through the command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from typing import Any

import pytest

from coterie.cli.demo.files import write_files

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "driver"


class Environment:
    """A virtual environment that sees what is installed here, and the driver's wheel."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.python = str(folder / "venv" / "bin" / "python")
        venv.create(folder / "venv", symlinks=True)
        packages = folder / "venv" / "lib" / f"python{sysconfig.get_python_version()}" / "site-packages"
        here = sysconfig.get_path("purelib")
        (packages / "installed-here.pth").write_text(f"import site; site.addsitedir({here!r})\n")
        wheels = folder / "wheels"
        self.run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(wheels), cwd=EXAMPLE)
        (wheel,) = wheels.glob("*.whl")
        install = ("install", "--no-deps", "--no-index", "--disable-pip-version-check", str(wheel))
        self.run(self.python, "-m", "pip", *install)

    def run(self, *command: str, cwd: Path | None = None) -> str:
        clean = {name: one for name, one in os.environ.items() if not name.startswith(("COTERIE_", "XDG_", "PYTEST"))}
        state = {"COTERIE_STATE": str(self.folder / "state"), "COTERIE_LOOK_INTERVAL": "0", "HOME": str(self.folder)}
        done = subprocess.run(
            command, cwd=cwd or self.folder, env={**clean, **state}, capture_output=True, text=True, timeout=240
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def coterie(self, *words: str) -> Any:
        program = "from coterie.cli.main import main; main()"
        output = self.run(self.python, "-c", program, "--foreground", "-y", "-o", "json", *words)
        return json.loads(output) if output.strip() else None


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return Environment(tmp_path_factory.mktemp("shelf"))


def test_the_driver_passes_the_conformance_kit(fresh: Environment) -> None:
    kit = ("-q", "-c", os.devnull, "-p", "no:cacheprovider", "-p", "coterie.cpi.conformance.plugin")
    fresh.run(fresh.python, "-m", "pytest", *kit, str(EXAMPLE / "tests" / "test_shelf.py"))


def test_the_driver_deploys_through_the_command_line(fresh: Environment) -> None:
    examples = fresh.folder / "try"
    write_files(examples)
    fresh.coterie("clouds", "set", str(EXAMPLE / "cloud.yml"))
    fresh.coterie("stemcells", "upload", str(examples / "stemcell-1.1.tgz"))
    fresh.coterie("deploy", str(EXAMPLE / "web.yml"))
    assert shelf(fresh) == {"image": 1, "vm": 2, "disk": 2}
    fresh.coterie("delete", "web", "--delete-disks")
    assert not {"vm", "disk"} & shelf(fresh).keys()


def shelf(fresh: Environment) -> dict[str, int]:
    rows = json.loads((fresh.folder / "state" / "shelf.json").read_text())
    kinds = [row["kind"] for row in rows.values()]
    return {kind: kinds.count(kind) for kind in kinds}
