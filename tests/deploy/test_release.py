"""A release: everything is pinned with hashes, listed in the SBOM, and covered by a checksum."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
CONSTRAINTS = (ROOT / "deploy/release/constraints.txt").read_text()


def pinned() -> dict[str, str]:
    return dict(re.findall(r"^([a-z0-9-]+)==(\S+) ", CONSTRAINTS, re.MULTILINE))


def test_every_requirement_is_pinned_to_a_version_with_hashes() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    more = project["optional-dependencies"]
    wanted = [
        *project["dependencies"],
        *more["aws"],
        *more["azure"],
        *more["gcp"],
        *more["openstack"],
        *more["otel"],
        *more["vsphere"],
        "hatchling",
    ]
    names = {re.sub(r"[-_.]+", "-", re.split(r"[\[<>=]", one)[0]).lower() for one in wanted}
    assert names - pinned().keys() == set()
    blocks = re.split(r"^(?=[a-z0-9-]+==)", CONSTRAINTS, flags=re.MULTILINE)[1:]
    assert [one for one in blocks if not re.search(r"--hash=sha256:[0-9a-f]{64}", one)] == []


def test_a_release_lists_its_parts_and_their_checksums(tmp_path: Path) -> None:
    build = [sys.executable, str(ROOT / "deploy/release/build.py"), "--output", str(tmp_path)]
    subprocess.run(build, check=True, capture_output=True)
    sums = dict(reversed(line.split()) for line in (tmp_path / "SHA256SUMS").read_text().splitlines())
    assert sums == {
        file.name: hashlib.sha256(file.read_bytes()).hexdigest()
        for file in tmp_path.iterdir()
        if file.name != "SHA256SUMS"
    }
    assert {Path(name).suffix for name in sums} == {".whl", ".gz", ".txt", ".json"}
    sbom = json.loads((tmp_path / "sbom.cdx.json").read_text())
    assert (sbom["bomFormat"], sbom["specVersion"]) == ("CycloneDX", "1.5")
    assert {one["name"]: one["version"] for one in sbom["components"]} == pinned()
    (wheel,) = tmp_path.glob("*.whl")
    assert sbom["metadata"]["component"]["hashes"][0]["content"] == sums[wheel.name]


def test_the_container_installs_what_is_pinned_and_nothing_else() -> None:
    text = (ROOT / "deploy/container/Containerfile").read_text().replace("\\\n", " ")
    installs = [line for line in text.splitlines() if "pip install" in line]
    assert installs and all("--require-hashes" in line or "--no-deps --no-build-isolation" in line for line in installs)
