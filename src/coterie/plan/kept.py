"""Kept disks in a plan: what nodes that are gone left behind, and what becomes of it."""

from __future__ import annotations

from collections.abc import Sequence

from coterie.group.policy import by_index
from coterie.plan.model import Change, DiskRemoval, KeptDisk, NodeChange, Snapshot


def removals(snapshot: Snapshot) -> list[Change]:
    """For the end of a deployment with its data. Nodes that are still there take their disks with them."""
    return [
        Change(
            "delete",
            "disk",
            f"{disk.ref} {disk.cid}",
            f"the deployment is deleted; this kept disk of {disk.size_mb} MiB is DELETED",
            disk.cloud,
            DiskRemoval(disk.intent, disk.cid),
            disk.az,
            destructive=True,
        )
        for disk in _in_order(snapshot)
    ]


def staying(snapshot: Snapshot) -> list[str]:
    if not snapshot.kept:
        return []
    size = sum(disk.size_mb for disk in snapshot.kept)
    return [
        f"kept disks of earlier nodes stay, with their data ({len(snapshot.kept)}, together {size} MiB): "
        f"coterie disks --deployment {snapshot.deployment}; --delete-disks deletes them too"
    ]


def left_aside(snapshot: Snapshot, changes: Sequence[Change]) -> list[str]:
    """A node that comes back after a scale-down begins with an empty disk, which may surprise."""
    new = {
        c.subject for c in changes if c.action == "create" and isinstance(c.details, NodeChange) and c.details.spec.disk
    }
    names = [name for name in dict.fromkeys(disk.ref for disk in _in_order(snapshot)) if name in new]
    if not names:
        return []
    shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    return [
        f"new, empty disks for {shown}: those that nodes of these names had are kept and not used again "
        f"(coterie disks --deployment {snapshot.deployment})"
    ]


def _in_order(snapshot: Snapshot) -> list[KeptDisk]:
    return sorted(snapshot.kept, key=lambda disk: (by_index(disk.ref), disk.intent))
