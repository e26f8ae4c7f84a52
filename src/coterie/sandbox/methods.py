"""All calls of the datacenter by name, for faults; BOSH's names for the same calls work too."""

from __future__ import annotations

from difflib import get_close_matches
from fnmatch import fnmatchcase

from coterie.sandbox import (  # noqa: F401 # importing a noun is what publishes its calls
    disks,
    hosts,
    images,
    labels,
    networks,
    quotas,
    security_groups,
    server_groups,
    snapshots,
    tags,
    vm_shape,
    vms,
)
from coterie.sandbox.api import METHODS
from coterie.sandbox.errors import BadRequest

SYNONYMS = {
    "create_stemcell": "create_image",
    "delete_stemcell": "delete_image",
    "snapshot_disk": "create_snapshot",
    "has_vm": "get_vm",
    "has_disk": "get_disk",
    "resize_disk": "change_disk",
    "update_disk": "change_disk",
    "set_vm_metadata": "set_tags",
    "set_disk_metadata": "set_tags",
    "check": "get_quotas",
}


def names() -> list[str]:
    return sorted((*METHODS, *_front_methods()))


def read_pattern(pattern: str) -> str:
    """The glob over calls that is meant; one that can never match is a mistake."""
    meant = SYNONYMS.get(pattern, pattern)
    known = names()
    if any(fnmatchcase(method, meant) for method in known):
        return meant
    near = get_close_matches(pattern, [*known, *SYNONYMS], 3)
    remedy = f"did you mean {' or '.join(near)}?" if near else f"use one of: {', '.join(known)}, or a glob"
    raise BadRequest(f"no call is named {pattern!r}", remedy=remedy)


def _front_methods() -> list[str]:
    """Commands of fronts are bent by their own names."""
    from coterie.sandbox.fronts.cloudstack.definition import commands  # a large document: imported only to name faults

    return [command.name for command in commands().values()]
