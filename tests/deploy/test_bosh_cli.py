"""The release in the hands of the real bosh CLI, which `make test-bosh` builds: create-release, and what it packed."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from tests.deploy.bosh_cli import BOSH, bosh

SCRUBBED = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
pytestmark = pytest.mark.skipif(not BOSH, reason="`make test-bosh` builds the bosh CLI and runs this")


def test_create_release_packs_the_job_and_the_package(folder: Path, tarball: Path) -> None:
    told = bosh("inspect-local-release", str(tarball), cwd=folder)
    names = {row["job"].partition("/")[0] for row in told["Tables"][1]["Rows"]}
    packages = {row["package"].partition("/")[0] for row in told["Tables"][2]["Rows"]}
    assert (names, packages) == ({"coterie_cpi"}, {"coterie_cpi"})


def test_a_final_release_can_be_made(folder: Path, tarball: Path) -> None:
    bosh("upload-blobs", cwd=folder)
    file = folder.parent / "final.tgz"
    bosh("create-release", "--final", "--version", "1.2.3", "--force", "--tarball", str(file), cwd=folder)
    told = bosh("inspect-local-release", str(file), cwd=folder)
    assert told["Tables"][0]["Rows"][0]["version"] == "1.2.3"


def test_its_python_runs_every_driver_after_the_package_was_moved(tarball: Path, tmp_path: Path) -> None:
    package = _compile(tarball, tmp_path)
    script = (
        f"import sys; sys.path.insert(0, {str(package / 'site')!r})\n"
        "import sqlite3, ssl, psycopg, pyVmomi, keystoneauth1.session\n"
        "for driver in ('sandbox', 'exec', 'cloudstack', 'openstack', 'vsphere'):\n"
        "    __import__(f'coterie.cpi.drivers.{driver}.driver')\n"
        "print(sys.prefix)"
    )
    words = [str(package / "bin/python"), "-IS", "-c", script]
    done = subprocess.run(words, env=SCRUBBED, check=True, capture_output=True, text=True)
    assert done.stdout.strip() == str(package / "python")


def _compile(tarball: Path, folder: Path) -> Path:
    """As the CLI does for create-env: compile in one place, use in another, with no Python on the machine."""
    with tarfile.open(tarball) as release:
        packed = next(one for one in release.getmembers() if one.name.endswith("packages/coterie_cpi.tgz"))
        with tarfile.open(fileobj=release.extractfile(packed)) as package:
            package.extractall(folder / "source", filter="data")
    target = folder / "compiled"
    target.mkdir()
    tools = folder / "tools"
    tools.mkdir()
    for name in ("sh", "tar", "gzip", "mkdir", "ln", "cp", "uname", "ls"):
        (tools / name).symlink_to(str(shutil.which(name)))
    env = {"PATH": str(tools), "BOSH_INSTALL_TARGET": str(target)}
    subprocess.run([str(tools / "sh"), "-e", "packaging"], cwd=folder / "source", env=env, check=True)
    return target.rename(folder / "moved")
