"""Server groups: made before their first VM, changed, and removed after their last. How a VM gets in: `joining`."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import NoReturn

from coterie.cpi.contract import (
    CpiError,
    GroupInUse,
    GroupMetadata,
    Mark,
    NotSupported,
    OutcomeUnknown,
    is_adopted,
)
from coterie.cpi.drivers.cloudstack.adoption import OPTIONS, Adoption
from coterie.cpi.drivers.cloudstack.affinity import group_missing, policy_of
from coterie.cpi.drivers.cloudstack.api import Row
from coterie.cpi.drivers.cloudstack.marking import GROUP
from coterie.cpi.drivers.cloudstack.refusals import Refusal, cloud_call, translate
from coterie.cpi.kit.checks import mark_of_group, refuse_guards, require_group_wish

_SOON_S = 2.0


class Groups(Adoption):
    @cloud_call
    def create_server_group(self, metadata: GroupMetadata, *, mark: Mark) -> str:
        adopted = self.require_nameable(metadata)
        if adopted:
            return adopted
        try:
            self._made_group(metadata, mark)
        except Refusal as error:
            self._undo(mark.group_cid, translate(error))
        except CpiError as error:
            self._undo(mark.group_cid, error)
        return mark.group_cid

    @cloud_call
    def update_server_group(self, cid: str, metadata: GroupMetadata) -> None:
        require_group_wish(metadata, self.settings.policies, OPTIONS)
        if is_adopted(cid):
            refuse_guards(metadata.security_groups)
            return
        old = self.memos().get(cid)
        group = self.affinity_named(cid)
        if group is None and (old is None or old.policy):
            raise group_missing(cid)
        if metadata.policy != (policy_of(group) if group else None):
            raise NotSupported(
                f"server group {cid} keeps its policy for life", remedy="recreate the group and move its VMs"
            )
        before = old.guards if old else ()
        guards = self.secure(metadata.security_groups, mark_of_group(cid, self.runtime.director_uuid))
        if set(guards) == set(before):
            return
        self._require_changeable(cid, group)
        self.write_memo(cid, metadata.policy, guards)
        self.exchange_guards(cid, group, before, guards)
        self.release(before)

    @cloud_call
    def delete_server_group(self, cid: str) -> None:
        if is_adopted(cid):
            return
        memo, group = self.memos().get(cid), self.affinity_named(cid)
        if group is not None and not self.ours(group):
            raise GroupInUse(
                f"affinity group {cid} is not ours to delete",
                why="its description is not the one that we gave it",
                remedy="have its owner delete it",
            )
        self._require_empty(cid, group)
        if group:
            self._deleted(group)
        if memo:
            self.forget_memos(cid)
            self.release(memo.guards)

    def _made_group(self, metadata: GroupMetadata, mark: Mark) -> None:
        cid = mark.group_cid
        guards = self.secure(metadata.security_groups, mark)
        if metadata.policy:
            self.make_affinity_group(cid, metadata.policy, _description(metadata, mark))
        if guards or not metadata.policy:
            self.write_memo(cid, metadata.policy, guards)

    def _undo(self, cid: str, error: CpiError) -> NoReturn:
        """After a certain failure nothing of the group may stay; of an uncertain one everything must."""
        if not isinstance(error, OutcomeUnknown) and self.affinity_named(cid) is None and cid not in self.memos():
            self.release([str(row["id"]) for row in self._guards_made_for(cid)])
        raise error

    def _guards_made_for(self, cid: str) -> list[Row]:
        intent = mark_of_group(cid, self.runtime.director_uuid).intent
        rows = self.api.every("listSecurityGroups")
        return [row for row in rows if (mark := self.guard_mark(row)) and mark.intent == intent]

    def _require_empty(self, cid: str, group: Row | None) -> None:
        """A VM that is destroyed but not expunged is a member still: deleting its group would be silent and final."""
        left = list((group or {}).get("virtualmachineIds") or ()) or [
            str(row["id"]) for row in self.tagged_members(cid)
        ]
        if left:
            raise GroupInUse(
                f"server group {cid} has {len(left)} members",
                why=", ".join(left[:5]),
                remedy="delete them first; one that is destroyed already leaves when CloudStack expunges it",
            )

    def _deleted(self, group: Row) -> None:
        try:
            self.api.run("deleteAffinityGroup", id=group["id"])
        except Refusal:
            # it is known to fail and yet to succeed, maybe a little later, so only looks decide
            if not self._gone_soon(group):
                raise

    def _gone_soon(self, group: Row) -> bool:
        deadline = time.monotonic() + min(_SOON_S, self.settings.settle_s)
        while self.row("listAffinityGroups", group["id"]):
            if time.monotonic() > deadline:
                return False
            time.sleep(self.settings.poll_s)
        return True

    def _require_changeable(self, cid: str, group: Row | None) -> None:
        if self.settings.security_group_change == "restart" or not self.member_rows(cid, group):
            return
        raise NotSupported(
            f"server group {cid} has members, and CloudStack changes security groups of stopped VMs only",
            remedy="recreate the VMs, or set properties.security_group_change: restart to restart them one by one",
        )


def group_tag(cid: str) -> Mapping[str, str]:
    return {GROUP: cid}


def _description(metadata: GroupMetadata, mark: Mark) -> str:
    """The owner's whole uuid first: with the name it proves whose the group is."""
    return f"{mark.director} {metadata.policy} {metadata.deployment}/{metadata.instance_group}"
