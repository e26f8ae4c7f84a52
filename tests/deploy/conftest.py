from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.deploy.bosh_cli import RELEASE, bosh


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A filled copy of the release folder: the CLI writes into it."""
    copy = tmp_path_factory.mktemp("bosh") / "release"
    shutil.copytree(RELEASE, copy, ignore=shutil.ignore_patterns("blobs", "dev_releases", ".*", "__pycache__"))
    subprocess.run([sys.executable, str(RELEASE / "fill.py"), "--folder", str(copy)], check=True)
    return copy


@pytest.fixture(scope="session")
def tarball(folder: Path) -> Path:
    file = folder.parent / "release.tgz"
    bosh("create-release", "--force", "--tarball", str(file), cwd=folder)
    return file
