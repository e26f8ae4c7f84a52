"""Server groups: made before their first VM, changed, and removed after their last. Joining is `joining`'s business."""

from __future__ import annotations

from contextlib import suppress
from typing import NoReturn

from coterie.cpi.contract import (
    CpiError,
    GroupInUse,
    GroupMetadata,
    GroupMissing,
    Mark,
    NotSupported,
    OutcomeUnknown,
    is_adopted,
)
from coterie.cpi.drivers.sandbox.adoption import Adoption
from coterie.cpi.drivers.sandbox.cloud import every
from coterie.cpi.drivers.sandbox.group_tags import (
    GroupWish,
    asked_policy,
    changing_part,
    fixed_part,
    fixed_tags,
    guards_before,
    guards_in,
    materials,
    read_wish,
    write_wish,
)
from coterie.cpi.drivers.sandbox.guards import Guards
from coterie.cpi.drivers.sandbox.joining import Joining
from coterie.cpi.drivers.sandbox.marking import INTENT, OWN_GUARDS, of_group, read_mark
from coterie.cpi.drivers.sandbox.refusals import cloud_call, translate
from coterie.cpi.kit.checks import refuse_guards
from coterie.sandbox.errors import NoSuch, RevisionDiffers, SandboxError
from coterie.sandbox.records import Record
from coterie.sandbox.server_groups import list_members
from coterie.sandbox.tags import set_tags
from coterie.sandbox.vm_shape import list_vms
from coterie.sandbox.vms import set_vm_security_groups

_TRIES = 5


class Groups(Adoption, Joining, Guards):
    @cloud_call
    def create_server_group(self, metadata: GroupMetadata, *, mark: Mark) -> str:
        wish = read_wish(metadata, self.settings.policies)
        adopted = self.require_nameable(wish)
        if adopted:
            return adopted
        guards = self._secured_or_nothing(wish, mark)
        try:
            tags = write_wish(wish, guards, mark)
            holder = self.make_holder(mark.group_cid, tags, materials(tags), mark.intent)
        except SandboxError as error:
            self._undo(mark.group_cid, translate(error))
        if guards_in(holder.tags) != guards:
            set_tags(self.account, holder.id, self.holder_kind, changing_part(wish, guards))
        return mark.group_cid

    @cloud_call
    def update_server_group(self, cid: str, metadata: GroupMetadata) -> None:
        wish = read_wish(metadata, self.settings.policies)
        if is_adopted(cid):
            refuse_guards(wish.security_groups)
            return
        holder = self.require_holder(cid)
        if fixed_part(wish) != fixed_tags(holder.tags):
            raise NotSupported(
                f"server group {cid} keeps its policy {asked_policy(holder.tags)} and hosts for life",
                remedy="recreate the group",
            )
        mark = read_mark(holder.tags)
        if mark is None:
            raise GroupMissing(f"server group {cid} has lost its mark", remedy="recreate the group")
        guards, old = self.secure(wish.security_groups, cid, mark), guards_before(holder.tags)
        set_tags(self.account, holder.id, self.holder_kind, changing_part(wish, guards, old.difference(guards)))
        self._renew_members(cid, old, guards)
        self.let_go(cid, keep=guards)
        if old.difference(guards):
            set_tags(self.account, holder.id, self.holder_kind, changing_part(wish, guards))

    @cloud_call
    def delete_server_group(self, cid: str) -> None:
        if is_adopted(cid):
            return
        for _ in range(_TRIES):
            holder = self.holder(cid)
            self._require_empty(cid)
            if self._removed_unjoined(cid, holder):
                self.let_go(cid)
                return
        raise CpiError(f"server group {cid} changes all the time", remedy="repeat when it is quiet", retryable=True)

    def _secured_or_nothing(self, wish: GroupWish, mark: Mark) -> tuple[str, ...]:
        try:
            return self.secure(wish.security_groups, mark.group_cid, mark)
        except SandboxError as error:
            self._undo(mark.group_cid, translate(error))
        except CpiError as error:
            self._undo(mark.group_cid, error)

    def _undo(self, cid: str, error: CpiError) -> NoReturn:
        """After a certain failure nothing of the group may stay; of an uncertain one everything must."""
        if not isinstance(error, OutcomeUnknown) and self.holder(cid) is None:
            self.let_go(cid)
        raise error

    def _removed_unjoined(self, cid: str, holder: Record | None) -> bool:
        """False where somebody joined, left or changed the group between our look and our deletion."""
        try:
            if holder:
                self.remove_holder(holder)
        except RevisionDiffers:
            return False
        except NoSuch:
            pass  # removed since we looked, perhaps by this very call, done twice
        if not holder or not self.zone_groups(cid):
            return True
        # on a cloud that reserves, a first join came in between: what was removed is put back
        self.make_holder(cid, holder.tags, {}, holder.tags[INTENT])
        return False

    def _renew_members(self, cid: str, old: set[str], new: tuple[str, ...]) -> None:
        for vm in list(every(self.account, list_vms, of_group(cid))):
            kept = [guard for guard in vm.security_groups if guard not in old or guard in _own(vm)]
            with suppress(NoSuch):  # deleted since it was listed
                set_vm_security_groups(self.account, vm.id, [*kept, *new])
                self.rejoin(cid, vm)

    def _require_empty(self, cid: str) -> None:
        for group in self.zone_groups(cid):
            if group.members:
                members, _ = list_members(self.account, group.id)
                raise GroupInUse(
                    f"server group {cid} has {group.members} members",
                    why=", ".join(member.vm for member in members[:5]),
                    remedy="delete them first, or have their owner move them out of the group",
                )


def _own(vm: Record) -> str:
    return vm.tags.get(OWN_GUARDS, "")
