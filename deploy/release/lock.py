"""Writes constraints.txt: every package that a release needs, at one version, with the hashes of all its files.

python deploy/release/lock.py; then run the tests, and commit the result. The versions are those that pip chooses today.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import urllib.request
from pathlib import Path

from pip._internal.models.index import PyPI

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
EXTRAS = "aws,azure,gcp,openstack,otel,vsphere"
INDEX = os.environ.get("PIP_INDEX_URL", PyPI.simple_url).rstrip("/")  # the one that pip itself asks
_HEAD = """\
# Made by deploy/release/lock.py: what a release is built and installed with.
# pip install --require-hashes -r constraints.txt, then pip install --no-deps coterie-VERSION.whl
"""


def main() -> None:
    lines = [_pin(name, version) for name, version in sorted(_resolve().items())]
    (HERE / "constraints.txt").write_text(_HEAD + "".join(lines))
    print(f"{len(lines)} packages")


def _resolve() -> dict[str, str]:
    """The versions that pip would install into an empty environment, and hatchling, which builds the package."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed", "--report", "-"]
    answer = subprocess.run([*pip, f"{ROOT}[{EXTRAS}]", "hatchling"], check=True, capture_output=True, text=True)
    found = (one["metadata"] for one in json.loads(answer.stdout)["install"])
    return {_normalize(one["name"]): one["version"] for one in found if one["name"] != "coterie"}


def _pin(name: str, version: str) -> str:
    with urllib.request.urlopen(f"{INDEX}/{name}/") as page:  # noqa: S310 - the index that pip uses
        links = re.findall(r'href="[^"]*/([^"/#]+)#sha256=([0-9a-f]{64})"', page.read().decode())
    hashes = sorted(digest for file, digest in links if _version(file, name) == version)
    if not hashes:
        raise SystemExit(f"the index has no file of {name} {version}")
    return f"{name}=={version} \\\n" + " \\\n".join(f"    --hash=sha256:{digest}" for digest in hashes) + "\n"


def _version(file: str, name: str) -> str | None:
    """The version in the name of a wheel or a source archive."""
    stem = file.removesuffix(".tar.gz").removesuffix(".zip")
    if file.endswith(".whl"):
        parts = file.split("-")
        return parts[1] if _normalize(parts[0]) == name else None
    package, _, version = stem.rpartition("-")
    return version if _normalize(package) == name else None


def _normalize(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    main()
