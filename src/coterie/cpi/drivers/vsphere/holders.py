"""Where a group of ours is written down: a folder named by its CID, with empty folders in it as labels.

A DRS group cannot be empty, so something else must remember that it was asked for. A folder can: making one is atomic,
its name is unique, and it needs no privilege that VMs do not need anyway. We never put a VM into it; where somebody
else did, it stays.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from coterie.cpi.contract import GroupInUse, GroupMissing, is_adopted
from coterie.cpi.drivers.vsphere import sdk
from coterie.cpi.drivers.vsphere.clusters import Clusters
from coterie.cpi.drivers.vsphere.group_spec import GroupSpec, adopted_spec, labels, of_labels
from coterie.cpi.drivers.vsphere.refusals import Refusal

GROUP_REMEDY = "`coterie groups repair` makes it again; or take the VM out of the group"
_LIVE = "live="
_MAKING = "making="
_UNDER_WAY = "new-"  # the prefix of a holder that has not got all its labels yet


@dataclass(frozen=True, slots=True)
class Holder:
    """`live`: ids of the clusters in which the group was made, and must therefore be; `making`: in which it was about
    to be made, so that one which is there may be ours."""

    cid: str
    ref: Any
    spec: GroupSpec
    live: frozenset[str]
    making: frozenset[str] = frozenset()
    whole: bool = True  # False: whoever makes it is at work, or has died


class Holders(Clusters):
    def holder(self, cid: str, director_uuid: str | None = None, *, whole: bool = True) -> Holder | None:
        """What is written about this group; for an adopted one, what follows from its handle.

        `whole` False: one whose maker died half-way counts too.
        """
        if is_adopted(cid):
            return Holder(cid, None, adopted_spec(cid), frozenset())
        for name in (cid, f"{_UNDER_WAY}{cid}") if not whole else (cid,):
            ref = self.at(*self._parts("groups", director_uuid), name)
            if ref is not None:
                return _read(name, ref, [str(row.get("name")) for row in self._labels(ref)])
        return None

    def holders(self, director_uuid: str) -> list[Holder]:
        """All of a Director, in two calls."""
        folder = self.folder("groups", director_uuid)
        if folder is None:
            return []
        rows = self.reader.below(folder, sdk.vim.Folder, "name", "parent")
        names: dict[Any, list[str]] = {}
        for row in rows:
            names.setdefault(row.get("parent"), []).append(str(row.get("name")))
        own = [row for row in rows if row.get("parent") == folder]
        return [_read(str(row.get("name")), row.ref, names.get(row.ref, [])) for row in own]

    def require_holder(self, cid: str) -> Holder:
        found = self.holder(cid)
        if found is None:
            raise group_missing(cid, "nothing in the vCenter remembers it")
        return found

    def make_holder(self, cid: str, spec: GroupSpec) -> None:
        """Made under another name, and renamed when it is whole: nobody ever sees half of one."""
        ref = self.made_child(self.made_folder("groups"), f"{_UNDER_WAY}{cid}")
        present = {str(row.get("name")) for row in self._labels(ref)}
        for label in labels(spec):
            if label not in present:
                self.made_child(ref, label)
        try:
            self.tasks.run(ref.Rename_Task, cid)
        except Refusal:
            made = self.at(*self._parts("groups"), cid)
            if made is None:
                raise
            if made != ref:  # somebody else was first under the same mark; it may also have been this very folder
                self._destroyed(ref)

    def relabel(self, holder: Holder, spec: GroupSpec) -> None:
        """Another wish about hosts. Who dies in between leaves labels of both; the repeat clears them."""
        wanted = labels(spec)
        present = {str(row.get("name")): row.ref for row in self._labels(holder.ref)}
        for label in wanted:
            if label not in present:
                self.made_child(holder.ref, label)
        for label, ref in present.items():
            if label not in wanted and not label.startswith((_LIVE, _MAKING)):
                self._destroyed(ref)

    def remove_holder(self, holder: Holder) -> None:
        if holder.ref is not None:
            self._destroyed(holder.ref)
            self.tidy("groups")

    def require_no_vms(self, folder: Any) -> None:
        """A folder that goes takes the registration of all VMs in it along."""
        inside = self.occupants(folder)
        if inside:
            raise GroupInUse(
                "the folder of a server group holds VMs",
                why=f"somebody put {', '.join(inside[:5])} into it",
                remedy=f"move them to another folder; this one is below {'/'.join(self._parts('groups'))}",
            )

    def note_live(self, holder: Holder, cluster: Any) -> None:
        """From now on a missing group is *missing*, not *reserved*."""
        if holder.ref is not None and cluster._moId not in holder.live:
            self.made_child(holder.ref, f"{_LIVE}{cluster._moId}")

    def note_making(self, holder: Holder, cluster: Any) -> None:
        """Before the group is written: its name may be anybody's, and who dies right after that could not tell."""
        if holder.ref is not None and holder.cid not in holder.spec.name and cluster._moId not in holder.making:
            self.made_child(holder.ref, f"{_MAKING}{cluster._moId}")

    def note_reserved(self, holder: Holder, cluster: Any) -> None:
        if holder.ref is None or cluster._moId not in holder.live | holder.making:
            return
        for row in self._labels(holder.ref):
            if row.get("name") in (f"{_LIVE}{cluster._moId}", f"{_MAKING}{cluster._moId}"):
                self._destroyed(row.ref)

    def _destroyed(self, folder: Any) -> None:
        self.require_no_vms(folder)
        try:
            self.tasks.run(folder.UnregisterAndDestroy_Task)
        except Refusal as refusal:
            if not refusal.is_a("ManagedObjectNotFound"):
                raise

    def _labels(self, ref: Any) -> list[Any]:
        return self.reader.children(ref, sdk.vim.Folder, "name")


def _read(name: str, ref: Any, names: list[str]) -> Holder:
    cid = name.removeprefix(_UNDER_WAY)
    live, making = (
        frozenset(label.removeprefix(prefix) for label in names if label.startswith(prefix))
        for prefix in (_LIVE, _MAKING)
    )
    return Holder(cid, ref, of_labels(names) or GroupSpec(None, cid), live, making, cid == name)


def group_missing(cid: str, why: str) -> GroupMissing:
    return GroupMissing(f"server group {cid} is missing", why=why, remedy=GROUP_REMEDY)
