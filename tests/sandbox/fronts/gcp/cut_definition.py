"""Cuts `definition.json.gz` of the Compute Engine front out of the discovery document in google-api-python-client:

    .venv/bin/python -m tests.sandbox.fronts.gcp.cut_definition src/coterie/sandbox/fronts/gcp/definition.json.gz

Fields that only answers have are marked by `readOnly`, or in words at the beginning of their description; the cut marks
all of them and drops the descriptions.
"""

from __future__ import annotations

import gzip
import json
import re
import sys
from pathlib import Path
from typing import Any

import googleapiclient

RESOURCES = (
    *("instances", "disks", "snapshots", "images", "resourcePolicies", "firewalls", "addresses", "networks"),
    *("subnetworks", "machineTypes", "diskTypes", "zones", "regions", "projects", "zoneOperations", "regionOperations"),
    *("globalOperations", "nodeGroups", "nodeTemplates", "nodeTypes"),
)
_WORDS = ("[Output Only]", "Output only.")
_DROPPED = ("description", "enumDescriptions", "enumDeprecated", "scopes", "flatPath", "apiVersion", "parameterOrder")
_FOLDER = Path(googleapiclient.__file__).parent


def cut() -> dict[str, Any]:
    whole = json.loads((_FOLDER / "discovery_cache" / "documents" / "compute.v1.json").read_text())
    methods = {
        f"{resource}.{name}": method
        for resource in RESOURCES
        for name, method in whole["resources"][resource]["methods"].items()
        if "IamPolicy" not in name or resource == "images"
    }
    wanted, left = set[str](), [one[key]["$ref"] for one in methods.values() for key in one if key in _BODIES]
    while left:
        name = left.pop()
        if name not in wanted:
            wanted.add(name)
            left += re.findall(r'"\$ref": "(\w+)"', json.dumps(whole["schemas"][name]))
    return {
        "revision": whole["revision"],
        "parameters": _strip(whole["parameters"]),
        "methods": _strip(methods),
        "schemas": {name: _strip(whole["schemas"][name]) for name in sorted(wanted)},
    }


_BODIES = ("request", "response")


def _strip(value: Any) -> Any:
    if isinstance(value, list):
        return [_strip(one) for one in value]
    if not isinstance(value, dict):
        return value
    kept = {key: _strip(one) for key, one in value.items() if key not in _DROPPED or isinstance(one, dict)}
    if isinstance(value.get("description"), str) and value["description"].startswith(_WORDS):
        kept["readOnly"] = True
    return kept


if __name__ == "__main__":
    text = json.dumps(cut(), separators=(",", ":"), sort_keys=True).encode()
    Path(sys.argv[1]).write_bytes(gzip.compress(text, 9, mtime=0))
