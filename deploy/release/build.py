"""Builds a release: wheel and source archive, a list of what is in it (SBOM, CycloneDX), and checksums of all files.

python deploy/release/build.py --output FOLDER. The same commit gives the same files, byte for byte.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def main() -> None:
    parser = argparse.ArgumentParser(description="Build the files of a release.")
    parser.add_argument("--output", type=Path, default=ROOT / "dist")
    folder = parser.parse_args().output
    folder.mkdir(parents=True, exist_ok=True)
    at = int(_git("log", "-1", "--format=%ct"))
    env = {**os.environ, "SOURCE_DATE_EPOCH": str(at)}
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-t", "sdist", "-d", str(folder.resolve())]
    subprocess.run(build, cwd=ROOT, env=env, check=True)
    (wheel,) = folder.glob("coterie-*.whl")
    (folder / "constraints.txt").write_bytes((HERE / "constraints.txt").read_bytes())
    (folder / "sbom.cdx.json").write_text(json.dumps(_sbom(wheel, at), indent=2) + "\n")
    sums = [f"{_digest(file)}  {file.name}\n" for file in sorted(folder.iterdir()) if file.name != "SHA256SUMS"]
    (folder / "SHA256SUMS").write_text("".join(sums))
    print(f"{folder}: {len(sums)} files")


def _sbom(wheel: Path, at: int) -> dict[str, Any]:
    """https://cyclonedx.org/docs/1.5/json: what a release is installed with, named by package URLs."""
    version = wheel.name.split("-")[1]
    parts = [_component(*one) for one in pinned((HERE / "constraints.txt").read_text())]
    own = {
        "type": "application",
        "bom-ref": f"pkg:pypi/coterie@{version}",
        "name": "coterie",
        "version": version,
        "purl": f"pkg:pypi/coterie@{version}",
        "licenses": [{"license": {"id": "Apache-2.0"}}],
        "hashes": [{"alg": "SHA-256", "content": _digest(wheel)}],
    }
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, _digest(wheel))}",
        "version": 1,
        "metadata": {"timestamp": datetime.fromtimestamp(at, UTC).isoformat(), "component": own},
        "components": parts,
        "dependencies": [{"ref": own["bom-ref"], "dependsOn": [one["bom-ref"] for one in parts]}],
    }


def pinned(text: str) -> list[tuple[str, str]]:
    return re.findall(r"^([a-z0-9-]+)==(\S+)", text, re.MULTILINE)


def _component(name: str, version: str) -> dict[str, Any]:
    url = f"pkg:pypi/{name}@{version}"
    return {"type": "library", "bom-ref": url, "name": name, "version": version, "purl": url}


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _git(*words: str) -> str:
    return subprocess.run(["git", "-C", str(ROOT), *words], check=True, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    main()
