"""Kept disks in a plan: what nodes that are gone left behind, and what becomes of it."""

from __future__ import annotations

from collections import defaultdict

from coterie.group.policy import by_index
from coterie.manifest import InstanceGroupSpec
from coterie.plan.model import Change, DiskRemoval, KeptDisk, Snapshot


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


class DiskOffers:
    """Which kept disk each new node can have: the newest that the node of its index left, in its cloud and az. No disk
    is given twice."""

    def __init__(self, snapshot: Snapshot, *, reuse: bool) -> None:
        """`reuse`: also nodes of instance groups without `disk_from` take those of nodes of their own names."""
        self._deployment = snapshot.deployment
        self._reuse = reuse
        self._free: dict[tuple[str, str], list[KeptDisk]] = defaultdict(list)
        for disk in sorted((*snapshot.kept, *snapshot.kept_elsewhere), key=lambda disk: disk.intent):
            if disk.free:
                self._free[disk.deployment or snapshot.deployment, disk.ref].append(disk)
        self.left: list[tuple[str, KeptDisk]] = []  # disks that nodes could have had, with the node

    def find_az(self, spec: InstanceGroupSpec, index: int) -> str | None:
        """Where the disk is that the node would take."""
        if not self._takes(spec):
            return None
        azs = {az.name: az.cloud for az in spec.azs}
        fitting = [disk for disk in self._of(spec, index) if disk.az is not None and azs.get(disk.az) == disk.cloud]
        return fitting[-1].az if fitting else None

    def take(self, spec: InstanceGroupSpec, index: int, az: str, cloud: str) -> KeptDisk | None:
        if spec.disk is None:
            return None
        fitting = [disk for disk in self._of(spec, index) if disk.cloud == cloud and disk.az in (az, None)]
        if not fitting:
            return None
        if not self._takes(spec):
            self.left.append((f"{spec.name}/{index}", fitting[-1]))
            return None
        self._of(spec, index).remove(fitting[-1])
        return fitting[-1]

    def _takes(self, spec: InstanceGroupSpec) -> bool:
        return spec.disk is not None and (spec.disk_from is not None or self._reuse)

    def _of(self, spec: InstanceGroupSpec, index: int) -> list[KeptDisk]:
        source = spec.disk_from
        group = source.instance_group if source else spec.name
        return self._free[(source and source.deployment) or self._deployment, f"{group}/{index}"]


def left_aside(snapshot: Snapshot, offers: DiskOffers) -> list[str]:
    """A node that comes back after a scale-down begins with an empty disk, which may surprise."""
    names = sorted({node for node, _ in offers.left}, key=by_index)
    if not names:
        return []
    shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    return [
        f"new, empty disks for {shown}: those that nodes of these names had are kept and not used again; to use them: "
        f"--reuse-disks, or disk_from in the manifest (coterie disks --deployment {snapshot.deployment})"
    ]


def _in_order(snapshot: Snapshot) -> list[KeptDisk]:
    return sorted(snapshot.kept, key=lambda disk: (by_index(disk.ref), disk.intent))
