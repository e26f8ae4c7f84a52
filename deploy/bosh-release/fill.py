"""Fills `blobs` and config/blobs.yml for `bosh create-release`: a Python, the wheels of Coterie and of what it needs.

The Python is a relocatable CPython (python-build-standalone), which a Go module carries for Linux on x86-64 and arm64:
`go` fetches it, and its checksum is pinned here.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import json
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
MODULE = "github.com/kluctl/go-embed-python@v0.0.0-3.14.6-20260610-1"
MODULE_SUM = "h1:oGUS7++Wm3LgxUfD6AmJgKbKQD2wdQFO9PzyJv6T+E4="
OWN_PYTHON = "3.14"
_ARCHES = {"x86_64": "linux-amd64", "aarch64": "linux-arm64"}
# The oldest C library first; pip takes the first wheel that fits one of them.
_PLATFORMS = ("manylinux_2_17", "manylinux2014", "manylinux_2_28")
_UNUSED = ("bin/idle", "bin/pip", "bin/pydoc", "lib/python3.14/idlelib", "lib/python3.14/site-packages/pip", "share/")


def main() -> None:
    parser = argparse.ArgumentParser(description="Fill the blobs of the BOSH release.")
    parser.add_argument("--python", action="append", help="bring wheels for this version, and no Python; repeatable")
    parser.add_argument("--folder", type=Path, default=HERE, help="the release folder to fill, if it is a copy")
    given = parser.parse_args()
    blobs = given.folder / "blobs"
    shutil.rmtree(blobs, ignore_errors=True)
    fill(blobs, given.python)
    (given.folder / "config/blobs.yml").write_text(_index(blobs))
    print(f"{blobs}: {len(_list_files(blobs))} blobs; now run `bosh create-release --force --tarball FILE`")


def fill(blobs: Path, pythons: Sequence[str] | None = None, wheels: Path | None = None) -> None:
    """Without `pythons` the release gets its own Python. `wheels`: a folder with wheels, instead of fetching them."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if wheels is None:
            _fetch_wheels(folder, pythons or [OWN_PYTHON])
        subprocess.run([*_PIP, "wheel", "--quiet", "--no-deps", "--wheel-dir", name, str(ROOT)], check=True)
        _sort_wheels({*folder.glob("*.whl"), *(wheels.glob("*.whl") if wheels else ())}, blobs / "coterie_cpi/wheels")
    if not pythons:
        _fetch_python(blobs / "coterie_cpi/python")


_PIP = [sys.executable, "-m", "pip"]


def _fetch_wheels(folder: Path, pythons: Iterable[str]) -> None:
    words = [*_PIP, "download", "--quiet", "--only-binary=:all:", "--dest", str(folder)]
    for python in pythons:
        for arch in _ARCHES:
            platforms = [word for one in _PLATFORMS for word in ("--platform", f"{one}_{arch}")]
            wanted = ["--python-version", python, *platforms, "-r", str(HERE / "vendored.txt")]
            subprocess.run([*words, *wanted], check=True)


def _sort_wheels(files: Iterable[Path], target: Path) -> None:
    """By the Python and the processor that each is for; one that suits all of them goes to `any`."""
    for wheel in files:
        python, abi, platform = wheel.stem.split("-")[-3:]
        arch = next((arch for arch in _ARCHES if platform.endswith(arch)), None)
        place = "any" if arch is None else f"{'abi3' if abi == 'abi3' else python}-{arch}"
        (target / place).mkdir(parents=True, exist_ok=True)
        shutil.copyfile(wheel, target / place / wheel.name)


def _fetch_python(target: Path) -> None:
    if shutil.which("go") is None:
        sys.exit("the release's own Python is fetched with `go`: install Go, or build with --python VERSION without it")
    with tempfile.TemporaryDirectory() as empty:
        done = subprocess.run(["go", "mod", "download", "-json", MODULE], cwd=empty, capture_output=True, text=True)
    answer = json.loads(done.stdout or "{}")
    if done.returncode or answer.get("Error"):
        sys.exit(f"the Python {MODULE} could not be fetched: {answer.get('Error') or done.stderr.strip()}")
    if answer["Sum"] != MODULE_SUM:
        sys.exit(f"the checksum of {MODULE} is {answer['Sum']}, not {MODULE_SUM}: do not use it")
    target.mkdir(parents=True, exist_ok=True)
    for arch, name in _ARCHES.items():
        source = Path(answer["Dir"]) / "python/internal/data" / name
        (target / f"python-linux-{arch}.tar.gz").write_bytes(_pack_python(source))


def _pack_python(source: Path) -> bytes:
    """The module keeps large files compressed, and names links and permissions in a list of its own."""
    buffer = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=buffer, mode="wb", mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as tar,
    ):
        for file in json.loads((source / "files.json").read_text())["files"]:
            if file["name"].startswith(_UNUSED) or (source / file["name"]).is_dir():
                continue
            entry = tarfile.TarInfo(f"python/{file['name']}")
            if "symlink" in file:
                entry.type, entry.linkname = tarfile.SYMTYPE, file["symlink"]
                tar.addfile(entry)
                continue
            content = _read(source, file["name"], bool(file.get("compressed")))
            entry.size, entry.mode = len(content), 0o755 if file["perm"] & 0o100 else 0o644
            tar.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def _read(source: Path, name: str, compressed: bool) -> bytes:
    return gzip.decompress((source / f"{name}.gz").read_bytes()) if compressed else (source / name).read_bytes()


def _list_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _index(blobs: Path) -> str:
    """As `bosh add-blob` writes it; `bosh upload-blobs` adds where each lies."""
    lines = []
    for path in _list_files(blobs):
        content = path.read_bytes()
        lines.append(f"{path.relative_to(blobs)}:\n  size: {len(content)}")
        lines.append(f"  sha: sha256:{hashlib.sha256(content).hexdigest()}")
    return "\n".join(lines) + "\n"


def read_version() -> str:
    text = (ROOT / "src/coterie/__init__.py").read_text().partition("__version__")[2]
    found = re.search(r'"([^"]+)"', text)
    assert found, "the package has no __version__"
    return found[1]


if __name__ == "__main__":
    main()
