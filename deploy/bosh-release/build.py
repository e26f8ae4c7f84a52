"""Builds the release tarball without the bosh program: python deploy/bosh-release/build.py --output FILE.

The same sources give the same tarball, byte for byte, but for the versions of the wheels that pip finds.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import tarfile
import tempfile
from collections.abc import Iterable
from pathlib import Path

from fill import HERE, fill, read_version

JOB, PACKAGE = "coterie_cpi", "coterie_cpi"
Member = tuple[str, bytes, int]  # name, content, mode


def main() -> None:
    given = _arguments()
    with tempfile.TemporaryDirectory() as name:
        blobs = Path(name)
        fill(blobs, given.python, Path(given.wheels) if given.wheels else None)
        members = _release(read_version(), [*_files(HERE / "src"), *_files(blobs)])
    Path(given.output).write_bytes(_tarball(members))
    print(f"{given.output}: coterie-cpi {read_version()}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Build the BOSH release of coterie-cpi.")
    parser.add_argument("--output", default="coterie-cpi-release.tgz")
    parser.add_argument("--python", action="append", help="bring wheels for this version, and no Python; repeatable")
    parser.add_argument("--wheels", help="a folder with the wheels of vendored.txt, instead of fetching them")
    return parser.parse_args()


def _release(version: str, sources: list[Member]) -> list[Member]:
    package = _tarball([*_files(HERE / "packages" / PACKAGE, skip=("spec",)), *sources])
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


def _files(folder: Path, skip: tuple[str, ...] = ()) -> list[Member]:
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
