"""Stemcells in a plan: which one each group means, and which clouds still need it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from coterie.manifest import InstanceGroupSpec, StemcellSpec
from coterie.plan.model import Change, NodeChange, Snapshot, StemcellNow, StemcellRemoval, StemcellUpload
from coterie.plan.versions import age


def choose(snapshot: Snapshot, specs: Sequence[InstanceGroupSpec], refusals: list[str]) -> dict[str, str]:
    """Instance group → "name/version"; one that the catalogue lacks is refused."""
    chosen = {}
    for spec in specs:
        ref = _find(snapshot, spec.stemcell)
        if ref is None:
            refusals.append(_missing(snapshot, spec))
        chosen[spec.name] = ref or f"{spec.stemcell.name}/{spec.stemcell.version}"
    return chosen


def uploads(snapshot: Snapshot, changes: Iterable[Change]) -> list[Change]:
    """One upload for each cloud that some node needs the stemcell in and that has none, nor one on its way."""
    needed = dict.fromkeys(
        (change.cloud, change.details.spec.stemcell)
        for change in changes
        if isinstance(change.details, NodeChange)
        and (change.action in ("create", "recreate") or change.details.stays_stopped)
    )
    return [_upload(snapshot, cloud, ref) for cloud, ref in needed if (cloud, ref) not in snapshot.images]


def _upload(snapshot: Snapshot, cloud: str, ref: str) -> Change:
    left = snapshot.images_left.get((cloud, ref))
    reason = "not in this cloud yet" if left is None else "not finished last time"
    return Change("create", "stemcell", f"{ref}@{cloud}", reason, cloud, StemcellUpload(ref, left))


def removals(snapshot: Snapshot) -> list[Change]:
    """With the last deployment that uses them, images leave the clouds; the catalogue can bring them back.

    Which deployment is the last one is known only when the step runs: several may be deleted at once. So an image that
    this one shares with others has a step, too.
    """
    changes = []
    for (cloud, ref), intent in sorted({**snapshot.images_left, **snapshot.images}.items()):
        details = StemcellRemoval(ref, intent)
        if (cloud, ref) not in snapshot.images_used_elsewhere:
            reason = "no deployment uses it any more"
            changes.append(Change("delete", "stemcell", f"{ref}@{cloud}", reason, cloud, details))
        elif _is_used_here(snapshot, cloud, ref):
            reason = "another deployment uses it; the last one that is deleted takes it"
            changes.append(Change("leave", "stemcell", f"{ref}@{cloud}", reason, cloud, details))
    return changes


def _is_used_here(snapshot: Snapshot, cloud: str, ref: str) -> bool:
    """A node that was never made may have had any image of its cloud brought."""
    nodes = [node for node in snapshot.nodes if node.cloud == cloud]
    return any(node.spec is None or node.spec.stemcell == ref for node in nodes)


def _find(snapshot: Snapshot, spec: StemcellSpec) -> str | None:
    fitting = [
        row
        for row in snapshot.stemcells
        if (row.os if spec.by_os else row.name) == spec.name and spec.version in ("latest", row.version)
    ]
    newest = sorted(fitting, key=lambda row: age(row.version))
    return newest[-1].ref if newest else None


def _missing(snapshot: Snapshot, spec: InstanceGroupSpec) -> str:
    wanted = spec.stemcell
    named = f"with os {wanted.name}, version {wanted.version}" if wanted.by_os else f"{wanted.name}/{wanted.version}"
    present = ", ".join(_label(row, wanted.by_os) for row in snapshot.stemcells) or "none"
    return (
        f"{spec.name}: stemcell {named} is not in the catalogue "
        f"(there: {present}); upload it: coterie stemcells upload FILE"
    )


def _label(row: StemcellNow, with_os: bool) -> str:
    return f"{row.ref} with {f'os {row.os}' if row.os else 'no os'}" if with_os else row.ref
