"""Builds the release tarball without the bosh program: python deploy/bosh-release/build.py --output FILE.

The same sources give the same tarball, byte for byte, but for the versions of the wheels that pip finds.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
JOB, PACKAGE = "coterie_cpi", "coterie_cpi"
Member = tuple[str, bytes, int]  # name, content, mode


def main() -> None:
    given = _arguments()
    version = re.search(r'"([^"]+)"', (ROOT / "src/coterie/__init__.py").read_text().partition("__version__")[2])
    assert version, "the package has no __version__"
    with tempfile.TemporaryDirectory() as folder:
        wheels = Path(given.wheels) if given.wheels else Path(folder)
        if not given.wheels:
            _fetch(wheels, given.python or [f"{sys.version_info[0]}.{sys.version_info[1]}"])
        _coterie(Path(folder))
        members = _release(version[1], _wheels({*wheels.glob("*.whl"), *Path(folder).glob("*.whl")}))
    Path(given.output).write_bytes(_tarball(members))
    print(f"{given.output}: coterie-cpi {version[1]}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Build the BOSH release of coterie-cpi.")
    parser.add_argument("--output", default="coterie-cpi-release.tgz")
    parser.add_argument("--python", action="append", help="a Python version to bring wheels for; may be repeated")
    parser.add_argument("--wheels", help="a folder with the wheels of vendored.txt, instead of fetching them")
    return parser.parse_args()


def _fetch(folder: Path, pythons: Iterable[str]) -> None:
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    for python in pythons:
        words = ["--python-version", python, "--dest", str(folder), "-r", str(HERE / "vendored.txt")]
        subprocess.run([*pip, *words], check=True)


def _coterie(folder: Path) -> None:
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps"]
    subprocess.run([*pip, "--wheel-dir", str(folder), str(ROOT)], check=True)


def _wheels(files: Iterable[Path]) -> list[Member]:
    """Sorted by the Python that each is for; one that suits every Python goes to `any`."""
    found = []
    for wheel in sorted(files, key=lambda file: file.name):
        python = wheel.name.split("-")[-3]
        place = python if re.fullmatch(r"cp3\d+", python) else "any"
        found.append((f"wheels/{place}/{wheel.name}", wheel.read_bytes(), 0o644))
    return found


def _release(version: str, wheels: list[Member]) -> list[Member]:
    package = _tarball([*_files(HERE / "packages" / PACKAGE, skip=("spec",)), *wheels])
    folder = HERE / "jobs" / JOB
    spec = ("job.MF", (folder / "spec").read_bytes(), 0o644)
    job = _tarball([spec, *_files(folder, skip=("spec",))])
    manifest = _MANIFEST.format(
        version=version, job=JOB, package=PACKAGE, **_marks("job", job), **_marks("package", package)
    )
    return [
        ("release.MF", manifest.encode(), 0o644),
        (f"jobs/{JOB}.tgz", job, 0o644),
        (f"packages/{PACKAGE}.tgz", package, 0o644),
    ]


def _marks(name: str, content: bytes) -> dict[str, str]:
    digest = hashlib.sha256(content).hexdigest()
    return {f"{name}_fingerprint": digest, f"{name}_sha": f"sha256:{digest}"}


def _files(folder: Path, skip: tuple[str, ...]) -> list[Member]:
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name not in skip)
    return [
        (str(path.relative_to(folder)), path.read_bytes(), 0o755 if path.name == "packaging" else 0o644)
        for path in files
        if "__pycache__" not in path.parts
    ]


def _tarball(members: Iterable[Member]) -> bytes:
    buffer = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=buffer, mode="wb", mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as tar,
    ):
        for name, content, mode in members:
            entry = tarfile.TarInfo(f"./{name}")
            entry.size, entry.mode = len(content), mode
            tar.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


_MANIFEST = """\
---
name: coterie-cpi
version: '{version}'
commit_hash: none
uncommitted_changes: false
jobs:
- name: {job}
  version: {job_fingerprint}
  fingerprint: {job_fingerprint}
  sha1: {job_sha}
packages:
- name: {package}
  version: {package_fingerprint}
  fingerprint: {package_fingerprint}
  sha1: {package_sha}
  dependencies: []
"""

if __name__ == "__main__":
    main()
