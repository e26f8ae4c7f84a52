"""The life of a server group: adopt, create once, update, inspect, require empty, delete, and undo after a certain
failure.

A driver fills `ServerGroupCloud`, how its cloud holds server groups; everything else follows:

    records = GroupRecords(store)
    security_groups = SecurityGroups(security_group_cloud, records)
    server_groups = ServerGroups(server_group_cloud, security_groups, records, settings.policies, director_uuid)

A group of ours bears its CID as its name. A group without a policy exists as a record only, and its members are known
by a tag. `Membership` is what `create_vm` needs of the group that a new VM joins.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NoReturn, Protocol

from coterie.cpi.contract import (
    ADOPTED_PREFIX,
    CpiError,
    GroupInUse,
    GroupMember,
    GroupMetadata,
    GroupMissing,
    GroupResource,
    GroupView,
    InvalidCall,
    Mark,
    NameTaken,
    NotSupported,
    OutcomeUnknown,
    is_adopted,
    read_group_cid,
)
from coterie.cpi.kit.checks import mark_of_group, refuse_security_groups, require_group_spec
from coterie.cpi.kit.group_records import GroupRecord, GroupRecords
from coterie.cpi.kit.security_groups import SecurityGroups
from coterie.slotted import dataclass, field

OPTIONS = ("name", "adopt")


@dataclass(frozen=True, slots=True)
class ExistingGroup:
    """A server group as the cloud holds it now. `is_ours`: this Director created it. `members`: ids of its VMs.
    `row`: the cloud's own answer, for the driver that gave it. `hosts`: the only ones that members may be on, if the
    group says so."""

    id: str
    name: str
    policy: str | None
    members: tuple[str, ...] = ()
    is_ours: bool = True
    row: Mapping[str, Any] = field(default_factory=dict)
    hosts: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Membership:
    """The server group that a new VM joins; `group` is the cloud's id of it, None where it has no policy."""

    cid: str
    group: str | None
    policy: str | None
    security_groups: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RecordedGroup:
    """A server group that exists as a record only: it never had a policy, or lost the cloud's group."""

    cid: str
    members: tuple[str, ...]


class NamedGroups(Protocol):
    """What adoption needs to know of a cloud's server groups."""

    @property
    def noun(self) -> str:
        """The cloud's word for a server group, for messages."""

    def list_named(self, name: str) -> list[ExistingGroup]:
        """All groups of this name, the one that counts first."""

    def list_adoptable(self, name: str) -> list[ExistingGroup]:
        """All groups that a user may mean by this name."""


class ServerGroupCloud(NamedGroups, Protocol):
    """How a cloud holds server groups. Its methods raise `CpiError`s only; a driver's refusal is one too."""

    @property
    def leave_hint(self) -> str:
        """When VMs leave a group, where that is later than their deletion; may be empty."""

    def find(self, cid: str) -> ExistingGroup | None:
        """The group behind a CID as it is now: an adopted one by its id, one of ours by its name."""

    def find_to_join(self, cid: str) -> ExistingGroup | None:
        """The same; may be answered from memory where the cloud refuses to boot a VM into a group that is gone."""

    def create(self, metadata: GroupMetadata, mark: Mark) -> tuple[ExistingGroup, bool]:
        """False where another call created it meanwhile: then that one is answered, whatever its policy."""

    def delete(self, group: ExistingGroup) -> None:
        """Gone already is fine."""

    def list_tagged(self, cid: str) -> list[str]:
        """Ids of the VMs that bear the tag of this server group."""

    def members_left(self, cid: str, groups: Sequence[ExistingGroup], record: GroupRecord | None) -> list[str]:
        """Ids of the VMs that forbid to delete the server group."""

    def inspect_members(
        self, cid: str, group: ExistingGroup | None, record: GroupRecord | None
    ) -> tuple[list[GroupMember], list[str]]:
        """The members, and notes on how they or the group differ from what was requested."""

    def require_exchange(self, cid: str, group: ExistingGroup | None) -> None:
        """Raise where the security groups of the members cannot be exchanged."""

    def exchange_security_groups(
        self, cid: str, group: ExistingGroup | None, old: Collection[str], new: Collection[str]
    ) -> None:
        """Give the members the new ones for the old ones; those that VMs have by themselves stay."""


class ServerGroups:
    def __init__(
        self,
        cloud: ServerGroupCloud,
        security_groups: SecurityGroups,
        records: GroupRecords,
        policies: Collection[str],
        director_uuid: str,
    ) -> None:
        self._cloud = cloud
        self._security_groups = security_groups
        self._records = records
        self._policies = policies
        self._director_uuid = director_uuid

    def create(self, metadata: GroupMetadata, mark: Mark) -> str:
        adopted = self.find_adopted(metadata)
        if adopted:
            return adopted
        if metadata.security_groups or not metadata.policy:
            self._records.require_room(mark.group_cid, len(metadata.security_groups))
        created: list[ExistingGroup] = []
        try:
            self._create(metadata, mark, created)
        except CpiError as error:
            self._undo(mark, error, created)
        return mark.group_cid

    def find_adopted(self, metadata: GroupMetadata) -> str | None:
        """The CID of the operator's group to adopt; None where one of ours is to be created. Refuses what `create`
        would refuse."""
        require_group_spec(metadata, self._policies, OPTIONS)
        group = find_to_adopt(self._cloud, metadata)
        return f"{ADOPTED_PREFIX}{group.id}" if group else None

    def require_security_groups(self, cid: str | None, metadata: GroupMetadata) -> None:
        """Refuse what `create` or, of the server group `cid`, `update` would refuse because of security groups that are
        there."""
        held = _security_groups(self._records.list_of(cid)) if cid and metadata.security_groups else ()
        self._security_groups.require_usable(metadata.security_groups, held)

    def update(self, cid: str, metadata: GroupMetadata) -> None:
        require_group_spec(metadata, self._policies, OPTIONS)
        if is_adopted(cid):
            refuse_security_groups(metadata.security_groups)
            return
        mark, records, group = self._mark(cid), self._records.list_of(cid), self._cloud.find(cid)
        if group is None and (not records or records[-1].policy):
            raise group_missing(cid)
        if metadata.policy != (group.policy if group else None):
            raise NotSupported(
                f"server group {cid} keeps its policy for life", remedy="recreate the group and move its VMs"
            )
        if metadata.security_groups:
            self._records.require_room(cid, len(metadata.security_groups))
        old = _security_groups(records)
        new = self._security_groups.ensure(metadata.security_groups, mark, old)
        if len(records) > 1 or set(new) != old:
            self._cloud.require_exchange(cid, group)
            self._records.write(cid, metadata.policy, new)
            self._cloud.exchange_security_groups(cid, group, old, new)
            self._records.delete_older(cid)
        if new or records:  # else it never had security groups
            self._security_groups.release((self._security_groups.created_for(mark) | old) - set(new), cid)

    def delete(self, cid: str) -> None:
        if is_adopted(cid):
            return
        mark, records, groups = self._mark(cid), self._records.list_of(cid), self._cloud.list_named(cid)
        self._require_deletable(cid, groups, records[-1] if records else None)
        for group in groups:
            self._cloud.delete(group)
        if records:
            self._records.delete(cid)
        self._security_groups.release(self._security_groups.created_for(mark) | _security_groups(records), cid)

    def inspect(self, cid: str) -> GroupView:
        group, record = self._cloud.find(cid), self._record(cid)
        if _is_missing(group, record):
            return GroupView("missing", None, notes=(f"server group {cid} was deleted behind our back",))
        resources, notes = self._resources(cid, group, record)
        members, differences = self._cloud.inspect_members(cid, group, record)
        notes += differences
        return GroupView(
            state="drifted" if notes else "live",
            policy=group.policy if group else None,
            resources=tuple(resources),
            members=tuple(members),
            notes=tuple(notes),
            hosts=group.hosts if group else None,
        )

    def membership(self, env: Mapping[str, Any]) -> Membership | None:
        """Of the group that env.bosh.server_group_cid names; raises where it is gone."""
        cid = (env.get("bosh") or {}).get("server_group_cid")
        if not cid:
            return None
        group, record = self._cloud.find_to_join(str(cid)), self._record(str(cid))
        if _is_missing(group, record):
            raise group_missing(str(cid))
        return Membership(
            cid=str(cid),
            group=group.id if group else None,
            policy=group.policy if group else None,
            security_groups=record.security_groups if record else (),
        )

    def list_recorded_only(
        self, director_uuid: str, list_present: Callable[[], Iterable[str]], only: str | None = None
    ) -> list[RecordedGroup]:
        """Server groups of this Director that have a record, but are not in the cloud. `list_present`: names of those
        that are, called only where there is a record to compare. `only`: the one CID that is looked for."""
        known = self._records.newest() if only is None else [only] if self._records.find(only) else []
        recorded = [cid for cid in known if _belongs_to(cid, director_uuid)]
        present = set(list_present()) if recorded else set()
        return [RecordedGroup(cid, tuple(self._cloud.list_tagged(cid))) for cid in recorded if cid not in present]

    def _create(self, metadata: GroupMetadata, mark: Mark, created: list[ExistingGroup]) -> None:
        """`created` lists what this call itself created, also when it ends in an error."""
        cid = mark.group_cid
        held = _security_groups(self._records.list_of(cid)) if metadata.security_groups else ()
        security_groups = self._security_groups.ensure(metadata.security_groups, mark, held)
        if metadata.policy:
            self._create_group(metadata, mark, created)
        if security_groups or not metadata.policy:
            self._records.write(cid, metadata.policy, security_groups)

    def _create_group(self, metadata: GroupMetadata, mark: Mark, created: list[ExistingGroup]) -> None:
        group = self._cloud.find(mark.group_cid)
        if group is None:
            group, is_new = self._cloud.create(metadata, mark)
            created += [group] if is_new else []
        if group.policy != metadata.policy:
            # never deleted and created again: it may have members
            raise NameTaken(
                f"{self._cloud.noun} {mark.group_cid} has policy {group.policy}, not {metadata.policy}",
                remedy="find out who made it; recreate the server group under a new name",
            )

    def _undo(self, mark: Mark, error: CpiError, created: Sequence[ExistingGroup]) -> NoReturn:
        """Delete what this call created if the failure is proven. Keep everything if the outcome is unknown, or if the
        group belongs to another call. A permanent error is raised as it is if this call created no group: a repeat
        would end in it again. A group of another policy under our name belongs to no other call: calls under one mark
        request one policy, so each of them fails, and none will record the security groups."""
        if isinstance(error, OutcomeUnknown):
            raise error
        try:
            if self._delete_created(mark.group_cid, created) or isinstance(error, NameTaken):
                self._security_groups.release(self._security_groups.created_for(mark), mark.group_cid)
                raise error
            if not created and not error.retryable:
                raise error
        except CpiError as trouble:
            if trouble is error:
                raise
        raise OutcomeUnknown(
            f"server group {mark.group_cid} is there, but not as requested", why=str(error), remedy=error.remedy
        ) from error

    def _delete_created(self, cid: str, created: Sequence[ExistingGroup]) -> bool:
        """Delete what a failed call created, unless another call under the same mark uses it; whether nothing of the
        group is there then. A record is written last, so that of a failed call is never there: one that is there is
        another call's."""
        if self._records.find(cid):
            return False
        own = {group.id for group in created}
        groups = self._cloud.list_named(cid)
        if created and self._cloud.members_left(cid, [group for group in groups if group.id in own], None):
            return False
        for group in created:
            self._cloud.delete(group)
        return all(group.id in own for group in groups)

    def _require_deletable(self, cid: str, groups: Sequence[ExistingGroup], record: GroupRecord | None) -> None:
        if any(not group.is_ours for group in groups):
            raise GroupInUse(
                f"{self._cloud.noun} {cid} is not ours to delete",
                why="its description is not the one that we gave it",
                remedy="have its owner delete it",
            )
        left = self._cloud.members_left(cid, groups, record)
        if left:
            remedy = "; ".join(filter(None, ["delete them first", self._cloud.leave_hint]))
            raise GroupInUse(f"server group {cid} has {len(left)} members", why=", ".join(left[:5]), remedy=remedy)

    def _resources(
        self, cid: str, group: ExistingGroup | None, record: GroupRecord | None
    ) -> tuple[list[GroupResource], list[str]]:
        ours = not is_adopted(cid)
        resources = [GroupResource("server_group", group.id, None, ours and group.is_ours)] if group else []
        read = {one: self._security_groups.read(one) for one in (record.security_groups if record else ())}
        rules = self._security_groups.list_rules([found for found in read.values() if found and found.mark])
        for one, found in read.items():
            if found and found.mark:
                listed = tuple(rule.wire() for rule in rules[one])
                resources.append(GroupResource("security_group", one, None, True, found.name, listed))
            elif found:
                resources.append(GroupResource("security_group", one, None, False, found.name))
        notes = [f"security group {one} was deleted behind our back" for one, found in read.items() if not found]
        return resources, notes

    def _record(self, cid: str) -> GroupRecord | None:
        return None if is_adopted(cid) else self._records.find(cid)

    def _mark(self, cid: str) -> Mark:
        return mark_of_group(cid, self._director_uuid)


def find_to_adopt(cloud: NamedGroups, metadata: GroupMetadata) -> ExistingGroup | None:
    """The operator's group that the options name for adoption; None where one of ours is to be created. Refuses a name
    that is taken, and an adoption of none, of several, or of a group with another policy."""
    name, noun = metadata.options.get("name"), cloud.noun
    if not metadata.options.get("adopt"):
        if name and cloud.list_named(str(name)):
            raise NameTaken(
                f"{noun} {name!r} exists and is not ours",
                remedy="use another name, or say placement.adopt: true to use the operator's group",
            )
        return None
    refuse_security_groups(metadata.security_groups)
    if not name:
        raise InvalidCall("options.adopt needs options.name", remedy="name the operator's group")
    found = cloud.list_adoptable(str(name))
    if not found:
        raise GroupMissing(
            f"there is no {noun} {name!r} to adopt",
            remedy="have the operator create it, or leave placement.adopt out to make one of our own",
        )
    if len(found) > 1:
        raise GroupMissing(
            f"{len(found)} {noun}s are named {name!r}, so there is not one to adopt",
            why=", ".join(group.id for group in found[:5]),
            remedy="give its id as the name, or have the operator rename the others",
        )
    if found[0].policy != metadata.policy:
        raise InvalidCall(
            f"{noun} {name!r} has policy {found[0].policy}, not {metadata.policy}",
            remedy=f"say placement.policy: {found[0].policy}, or adopt another group",
        )
    return found[0]


def group_missing(cid: str, why: str = "it was deleted behind our back") -> GroupMissing:
    return GroupMissing(
        f"server group {cid} is missing",
        why=why,
        remedy="deploy again so that the group is made anew, or take the VM out of the group",
    )


def _is_missing(group: ExistingGroup | None, record: GroupRecord | None) -> bool:
    """A group without a policy is there as long as its record is."""
    return group is None and (record is None or record.policy is not None)


def _security_groups(records: Iterable[GroupRecord]) -> set[str]:
    return {one for record in records for one in record.security_groups}


def _belongs_to(cid: str, director_uuid: str) -> bool:
    found = read_group_cid(cid)
    return found is not None and found.belongs_to(director_uuid)
