"""The life of a server group: adopted or created before its first VM, changed, inspected, deleted after its last."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NoReturn

from coterie.cpi.contract import (
    ADOPTED_PREFIX,
    CpiError,
    GroupInUse,
    GroupMember,
    GroupMetadata,
    GroupMissing,
    GroupResource,
    GroupState,
    GroupView,
    Mark,
    NotSupported,
    OutcomeUnknown,
    is_adopted,
    read_rules,
)
from coterie.cpi.drivers.sandbox.account import CloudAccount, of_group
from coterie.cpi.drivers.sandbox.domains import Domains
from coterie.cpi.drivers.sandbox.errors import translate
from coterie.cpi.drivers.sandbox.group_records import GroupRecord, GroupRecords, read_group_spec
from coterie.cpi.drivers.sandbox.membership import Membership
from coterie.cpi.drivers.sandbox.properties import Settings
from coterie.cpi.drivers.sandbox.security_groups import SecurityGroups
from coterie.cpi.kit.checks import refuse_security_groups
from coterie.cpi.kit.marking import INTENT, read_mark_tags
from coterie.cpi.kit.server_groups import ExistingGroup, find_to_adopt
from coterie.sandbox.errors import NoSuch, RevisionDiffers, SandboxError
from coterie.sandbox.security_groups import get_security_group
from coterie.sandbox.server_groups import Member, ServerGroup, list_members
from coterie.sandbox.vm_shape import Vm, list_vms
from coterie.sandbox.vms import set_vm_security_groups

OWN_SECURITY_GROUPS = "coterie-own-security-groups"  # ids of those that a VM has for itself, not from its group
_TRIES = 5


class ServerGroups:
    def __init__(
        self,
        cloud: CloudAccount,
        records: GroupRecords,
        security_groups: SecurityGroups,
        membership: Membership,
        settings: Settings,
        domains: Domains,
    ) -> None:
        self._cloud = cloud
        self._records = records
        self._security_groups = security_groups
        self._membership = membership
        self._settings = settings
        self._domains = domains

    def create(self, metadata: GroupMetadata, mark: Mark) -> str:
        spec = read_group_spec(metadata, self._settings.policies)
        adopted = self._find_adopted(metadata)
        if adopted:
            return adopted
        cid = mark.group_cid
        try:
            held = self._held(cid) if spec.security_groups else ()
            security_groups = self._security_groups.ensure(spec.security_groups, cid, mark, held)
            record = self._records.create(spec, security_groups, mark)
        except SandboxError as error:
            self._undo(cid, translate(error))
        except CpiError as error:
            self._undo(cid, error)
        if record.security_groups != security_groups:
            self._records.update(record, spec.changing_tags(security_groups))
        return cid

    def require_creatable(self, metadata: GroupMetadata) -> None:
        """Refuse what `create` would refuse because of groups that are there."""
        read_group_spec(metadata, self._settings.policies)
        self._find_adopted(metadata)

    def require_security_groups(self, cid: str | None, metadata: GroupMetadata) -> None:
        """Refuse what `create` or, of the server group `cid`, `update` would refuse because of security groups that are
        there."""
        held = self._held(cid) if cid and metadata.security_groups else ()
        self._security_groups.require_usable(metadata.security_groups, held)

    def update(self, cid: str, metadata: GroupMetadata) -> None:
        spec = read_group_spec(metadata, self._settings.policies)
        if is_adopted(cid):
            refuse_security_groups(spec.security_groups)
            return
        record = self._records.require(cid)
        if spec.fixed_tags() != record.fixed_tags:
            raise NotSupported(
                f"server group {cid} keeps its policy {record.policy} and hosts for life", remedy="recreate the group"
            )
        mark = read_mark_tags(record.holder.tags)
        if mark is None:
            raise GroupMissing(f"server group {cid} has lost its mark", remedy="recreate the group")
        old = record.security_groups_before
        new = self._security_groups.ensure(spec.security_groups, cid, mark, old)
        self._records.update(record, spec.changing_tags(new, old.difference(new)))
        self._replace_security_groups_of_members(cid, old, new)
        self._security_groups.release(cid, keep=new)
        if old.difference(new):
            self._records.update(record, spec.changing_tags(new))

    def delete(self, cid: str) -> None:
        if is_adopted(cid):
            return
        for _ in range(_TRIES):
            record = self._records.find(cid)
            self._require_empty(cid)
            if self._remove_if_unchanged(cid, record):
                self._security_groups.release(cid)
                return
        raise CpiError(f"server group {cid} changes all the time", remedy="repeat when it is quiet", retryable=True)

    def inspect(self, cid: str) -> GroupView:
        """What the cloud holds behind the CID now, and how that differs from what was asked."""
        groups = self._records.groups_behind(cid)
        record = None if is_adopted(cid) else self._records.find(cid)
        members = [member for group in groups for member in self._members_of(group)]
        resources = [self._group_resource(group) for group in groups]
        if record is None and not (groups and is_adopted(cid)):
            state: GroupState = "missing"
            notes = [f"server group {cid} was deleted behind our back"]
        else:
            security_groups, notes = self._inspect_security_groups(record)
            resources += security_groups
            notes += self._drift(cid, record, groups, members) if record else []
            state = "drifted" if notes else ("live" if groups else "reserved")
        policy = groups[0].policy if groups else (record.policy if record else None)
        return GroupView(
            state=state,
            policy=policy,
            resources=tuple(resources),
            members=tuple(self._describe(members)),
            notes=tuple(notes),
            hosts=_allowed_hosts(groups) if state != "missing" and not self._domains.are_shown else None,
        )

    def _describe(self, members: Sequence[Member]) -> Iterator[GroupMember]:
        domains = self._domains.of_hosts() if members else {}
        for one in members:
            host = None if self._domains.are_shown else one.host
            yield GroupMember(one.vm, host, self._cloud.owns(one.tags), domains.get(one.host or ""))

    def _held(self, cid: str) -> set[str]:
        record = None if is_adopted(cid) else self._records.find(cid)
        return record.security_groups_before if record else set()

    def _find_adopted(self, metadata: GroupMetadata) -> str | None:
        """The CID of the operator's group that is to be adopted; None where one of our own is to be created."""
        group = find_to_adopt(_ForeignGroups(self._records), metadata)
        if group is None:
            return None
        return ADOPTED_PREFIX + (group.name if self._settings.single_writer else group.id)

    def _undo(self, cid: str, error: CpiError) -> NoReturn:
        """After a certain failure nothing of the group may stay; after an uncertain one everything must."""
        if not isinstance(error, OutcomeUnknown) and self._records.find(cid) is None:
            self._security_groups.release(cid)
        raise error

    def _replace_security_groups_of_members(self, cid: str, old: set[str], new: tuple[str, ...]) -> None:
        for vm in list(self._cloud.every(list_vms, of_group(cid))):
            own = vm.tags.get(OWN_SECURITY_GROUPS, "")
            kept = [group for group in vm.security_groups if group not in old or group in own]
            with suppress(NoSuch):  # deleted since it was listed
                set_vm_security_groups(self._cloud.account, vm.id, [*kept, *new])
                self._membership.rejoin(cid, vm)

    def _require_empty(self, cid: str) -> None:
        for group in self._records.groups_behind(cid):
            if group.members:
                members, _ = list_members(self._cloud.account, group.id)
                raise GroupInUse(
                    f"server group {cid} has {group.members} members",
                    why=", ".join(member.vm for member in members[:5]),
                    remedy="delete them first, or have their owner move them out of the group",
                )

    def _remove_if_unchanged(self, cid: str, record: GroupRecord | None) -> bool:
        """False where the group was joined, left or changed between our look and our deletion."""
        if record is None:
            return True
        try:
            self._records.remove(record)
        except RevisionDiffers:
            return False
        except NoSuch:
            pass  # removed since we looked, perhaps by this very call, done twice
        if not self._records.groups_behind(cid):
            return True
        # on a cloud that reserves, a first join came in between: write the record again
        self._records.write(cid, record.holder.tags, record.holder.tags[INTENT])
        return False

    def _inspect_security_groups(self, record: GroupRecord | None) -> tuple[list[GroupResource], list[str]]:
        resources, notes = [], []
        for group in record.security_groups if record else ():
            try:
                found = get_security_group(self._cloud.account, group)
                ours = self._cloud.owns(found.tags)
                rules = tuple(rule.wire() for rule in read_rules(found.rules)) if ours else None
                resources.append(GroupResource("security_group", group, None, ours, found.name, rules))
            except NoSuch:
                notes.append(f"security group {group} was deleted behind our back")
        return resources, notes

    def _drift(self, cid: str, record: GroupRecord, groups: list[ServerGroup], members: list[Member]) -> list[str]:
        asked = record.policy
        notes = [f"the cloud's policy is {g.policy}, asked was {asked}" for g in groups if g.policy != asked]
        joined = {member.vm for member in members}
        for vm in self._cloud.every(list_vms, of_group(cid)):
            notes += _vm_drift(vm, joined, set(record.security_groups))
        return notes

    def _group_resource(self, group: ServerGroup) -> GroupResource:
        return GroupResource("server_group", group.id, group.zone, self._cloud.owns(group.tags))

    def _members_of(self, group: ServerGroup) -> Iterator[Member]:
        after: str | None = None
        while True:
            members, after = list_members(self._cloud.account, group.id, after)
            yield from members
            if after is None:
                return


class _ForeignGroups:
    """The groups of a name that are not this Director's."""

    noun = "server group"

    def __init__(self, records: GroupRecords) -> None:
        self._records = records

    def list_named(self, name: str) -> list[ExistingGroup]:
        return [ExistingGroup(one.id, one.name, one.policy) for one in self._records.foreign_groups(name)]

    def list_adoptable(self, name: str) -> list[ExistingGroup]:
        """Those of one zone: on single-writer clouds an operator's group is one object in each."""
        zones = Counter(one.zone for one in self._records.foreign_groups(name))
        return self.list_named(name)[: max(zones.values(), default=0)]


def _vm_drift(vm: Vm, joined: set[str], wanted: set[str]) -> list[str]:
    notes = [f"VM {vm.id} lacks security group {group}" for group in sorted(wanted.difference(vm.security_groups))]
    if vm.host and vm.id not in joined:
        notes.insert(0, f"VM {vm.id} is no member any more: another writer replaced the list")
    return notes


def _allowed_hosts(groups: list[ServerGroup]) -> tuple[str, ...] | None:
    """Of a group in several zones, each part may name its own."""
    if not groups or any(group.allowed is None for group in groups):
        return None
    return tuple(sorted({host for group in groups for host in group.allowed or ()}))
