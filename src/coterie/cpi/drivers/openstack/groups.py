"""Server groups: made before their first VM, changed, and removed after their last. How a VM gets in: `joining`."""

from __future__ import annotations

from typing import NoReturn

from coterie.cpi.contract import (
    CpiError,
    GroupInUse,
    GroupMetadata,
    Mark,
    NameTaken,
    NotSupported,
    OutcomeUnknown,
    is_adopted,
)
from coterie.cpi.drivers.openstack.adoption import OPTIONS, Adoption
from coterie.cpi.drivers.openstack.api import Row
from coterie.cpi.drivers.openstack.group_rows import group_missing, policy_of
from coterie.cpi.drivers.openstack.refusals import MISSING, Refusal, cloud_call, translate
from coterie.cpi.kit.checks import mark_of_group, refuse_guards, require_group_wish


class Groups(Adoption):
    @cloud_call
    def create_server_group(self, metadata: GroupMetadata, *, mark: Mark) -> str:
        adopted = self.require_nameable(metadata)
        if adopted:
            return adopted
        if metadata.security_groups or not metadata.policy:
            self.require_room(mark.group_cid, len(metadata.security_groups))
        made: list[str] = []
        try:
            self._made_group(metadata, mark, made)
        except Refusal as error:
            self._undo(mark, translate(error), made)
        except CpiError as error:
            self._undo(mark, error, made)
        return mark.group_cid

    @cloud_call
    def update_server_group(self, cid: str, metadata: GroupMetadata) -> None:
        require_group_wish(metadata, self.settings.policies, OPTIONS)
        if is_adopted(cid):
            refuse_guards(metadata.security_groups)
            return
        mark, memos, group = mark_of_group(cid, self.runtime.director_uuid), self.memos_of(cid), self.group_row(cid)
        if group is None and (not memos or memos[-1].policy):
            raise group_missing(cid)
        if metadata.policy != (policy_of(group) if group else None):
            raise NotSupported(
                f"server group {cid} keeps its policy for life", remedy="recreate the group and move its VMs"
            )
        self.require_room(cid, len(metadata.security_groups))
        guards = self.secure(metadata.security_groups, mark)
        before = {guard for memo in memos for guard in memo.guards}
        if len(memos) > 1 or set(guards) != before:
            self.write_memo(cid, metadata.policy, guards)
            self.exchange_guards(cid, before, guards)
            self.forget_memos(cid, but_newest=True)
        self.release((self._made_for(mark) | before) - set(guards))

    @cloud_call
    def delete_server_group(self, cid: str) -> None:
        if is_adopted(cid):
            return
        mark, memos, groups = mark_of_group(cid, self.runtime.director_uuid), self.memos_of(cid), self.groups_named(cid)
        self._require_empty(cid, groups)
        for group in groups:
            self._deleted(group)
        if memos:
            self.forget_memos(cid)
        self.release(self._made_for(mark) | {guard for memo in memos for guard in memo.guards})

    def _made_for(self, mark: Mark) -> set[str]:
        """What somebody still used when it should have gone, or a call that was cut off left."""
        return {str(row["id"]) for row in self.marked("security_group", mark)}

    def _made_group(self, metadata: GroupMetadata, mark: Mark, made: list[str]) -> None:
        """`made` tells what this call itself made, also when it ends in an error."""
        cid = mark.group_cid
        guards = self.secure(metadata.security_groups, mark)
        if metadata.policy:
            found = self.group_row(cid) or {}
            if not found:
                wanted, mine = self.once("server_group", mark, {"name": cid, "policy": metadata.policy})
                made += [wanted] if mine else []
                found = self.row("server_group", wanted) or {}
            if policy_of(found) != metadata.policy:
                # never deleted and made anew: somebody may be in it
                raise NameTaken(
                    f"server group {cid} has policy {policy_of(found)}, not {metadata.policy}",
                    remedy="find out who made it; recreate the server group under a new name",
                )
        if guards or not metadata.policy:
            self.write_memo(cid, metadata.policy, guards)

    def _undo(self, mark: Mark, error: CpiError, made: list[str]) -> NoReturn:
        """After a certain failure nothing of the group may stay; of an uncertain one, or where another call's is there,
        everything must."""
        if isinstance(error, OutcomeUnknown):
            raise error
        try:
            for row in [row for row in self.groups_named(mark.group_cid) if row["id"] in made]:
                self._deleted(row)
            if not self.groups_named(mark.group_cid):
                self.forget_memos(mark.group_cid)
                self.release(self._made_for(mark))
                raise error
        except (Refusal, CpiError) as trouble:
            if trouble is error:
                raise
        raise OutcomeUnknown(
            f"server group {mark.group_cid} is there, but not as asked", why=str(error), remedy=error.remedy
        ) from error

    def _require_empty(self, cid: str, groups: list[Row]) -> None:
        """Nova would delete it all the same, and its VMs would live on without it. One that Nova lost is none of its
        members' any more, unless it never had a policy."""
        left = [str(one) for group in groups for one in group.get("members") or ()]
        memo = None if groups else self.memos().get(cid)
        if memo and memo.policy is None:
            left = [str(row["id"]) for row in self.tagged_members(cid)]
        if left:
            raise GroupInUse(
                f"server group {cid} has {len(left)} members", why=", ".join(left[:5]), remedy="delete them first"
            )

    def _deleted(self, group: Row) -> None:
        self._seen.pop(str(group["name"]), None)
        try:
            path = f"/os-server-groups/{group['id']}"
            self.api.send("DELETE", f"delete server group {group['name']}", "compute", path)
        except Refusal as error:
            if error.status != MISSING:
                raise
