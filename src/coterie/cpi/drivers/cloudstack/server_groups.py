"""Affinity groups: how CloudStack holds server groups, their members, and whether CloudStack kept a group's
policy when it placed a new VM."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Sequence

from coterie.cpi.contract import (
    ADOPTED_PREFIX,
    CpiError,
    GroupMember,
    GroupMetadata,
    GroupMissing,
    Mark,
    NotSupported,
    VMCreationFailed,
    is_adopted,
)
from coterie.cpi.drivers.cloudstack.client import Client, Refusal, Row, read_tags
from coterie.cpi.drivers.cloudstack.marks import group_mark_of, mark_of
from coterie.cpi.drivers.cloudstack.properties import GROUP_TYPES
from coterie.cpi.drivers.cloudstack.security_groups import CloudSecurityGroups, TagRecords
from coterie.cpi.kit.group_records import GroupRecord, GroupRecords
from coterie.cpi.kit.kept_policy import PlacedVm, require_kept_policy
from coterie.cpi.kit.marking import DIRECTOR, GROUP
from coterie.cpi.kit.parts import Parts
from coterie.cpi.kit.security_groups import SecurityGroups
from coterie.cpi.kit.server_groups import ExistingGroup, Membership, ServerGroups
from coterie.slotted import dataclass

POLICIES = {kind: policy for policy, kind in GROUP_TYPES.items()}
GONE = ("Destroyed", "Expunging", "Expunged")
_SOON_S = 2.0


class Groups:
    """Server groups and their security groups: the parts of the kit, on top of CloudStack's."""

    def __init__(self, client: Client, parts: Parts) -> None:
        cloud = CloudSecurityGroups(client, parts)
        records = GroupRecords(TagRecords(client, cloud))
        policies, director = client.settings.policies, client.director_uuid
        self.affinity = AffinityGroups(client, cloud)
        self.security = SecurityGroups(cloud, records, parts)
        self.server = ServerGroups(self.affinity, self.security, records, policies, director)


@dataclass(frozen=True, slots=True)
class AffinityGroups:
    """Fills the kit's `ServerGroupCloud`. Names are unique in an account; a group can be neither tagged nor changed."""

    client: Client
    security_groups: CloudSecurityGroups
    noun: str = "affinity group"
    leave_hint: str = "one that is destroyed already leaves when CloudStack expunges it"

    def find(self, cid: str) -> ExistingGroup | None:
        if is_adopted(cid):
            row = self.client.read("listAffinityGroups", cid.removeprefix(ADOPTED_PREFIX))
            return self._existing(row) if row else None
        return next(iter(self.list_named(cid)), None)

    def find_to_join(self, cid: str) -> ExistingGroup | None:
        return self.find(cid)

    def list_named(self, name: str) -> list[ExistingGroup]:
        rows, _ = self.client.page("listAffinityGroups", name=name)
        return [self._existing(row) for row in rows if row["name"] == name]

    def list_adoptable(self, name: str) -> list[ExistingGroup]:
        return self.list_named(name)

    def require_named(self, name: str) -> str:
        """The id of an operator's group that a VM's cloud_properties name."""
        found = self.list_named(name)
        if not found:
            raise CpiError(f"there is no affinity group {name!r}", remedy="create it, or name one that exists")
        return found[0].id

    def create(self, metadata: GroupMetadata, mark: Mark) -> tuple[ExistingGroup, bool]:
        """Of two calls at once CloudStack refuses one, not always in the same words: so after any refusal the group is
        looked for. The description begins with the owner's whole uuid: with the name it proves whose the group is."""
        description = f"{mark.director} {metadata.policy} {metadata.deployment}/{metadata.instance_group}"
        try:
            row = self.client.run(
                "createAffinityGroup",
                name=mark.group_cid,
                type=GROUP_TYPES[str(metadata.policy)],
                description=description[:255],
            )["affinitygroup"]
        except Refusal:
            found = self.find(mark.group_cid)
            if found is None:
                raise
            return found, False
        except KeyError:
            raise GroupMissing(f"affinity group {mark.group_cid} was made and is not there", remedy="repeat") from None
        return self._existing(row), True

    def delete(self, group: ExistingGroup) -> None:
        """CloudStack is known to refuse a deletion and to carry it out a little later: so only looks decide."""
        try:
            self.client.run("deleteAffinityGroup", id=group.id)
        except Refusal:
            deadline = time.monotonic() + min(_SOON_S, self.client.settings.settle_s)
            while self.client.read("listAffinityGroups", group.id):
                if time.monotonic() > deadline:
                    raise
                time.sleep(self.client.settings.poll_s)

    def list_tagged(self, cid: str) -> list[str]:
        return [str(row["id"]) for row in self._tagged_rows(cid)]

    def members_left(self, cid: str, groups: Sequence[ExistingGroup], record: GroupRecord | None) -> list[str]:
        """A VM that is destroyed but not expunged is still a member: deleting its group would be silent and final."""
        return [one for group in groups for one in group.members] or self.list_tagged(cid)

    def inspect_members(
        self, cid: str, group: ExistingGroup | None, record: GroupRecord | None
    ) -> tuple[list[GroupMember], list[str]]:
        rows = self._member_rows(cid, group)
        notes = [*_without_security_groups(rows, record), *_destroyed(rows, group), *_other_type(group)]
        return [self._member(row) for row in rows], notes

    def require_exchange(self, cid: str, group: ExistingGroup | None) -> None:
        if self.client.settings.security_group_change == "restart" or not self._member_rows(cid, group):
            return
        raise NotSupported(
            f"server group {cid} has members, and CloudStack changes security groups of stopped VMs only",
            remedy="recreate the VMs, or set properties.security_group_change: restart to restart them one by one",
        )

    def exchange_security_groups(
        self, cid: str, group: ExistingGroup | None, old: Collection[str], new: Collection[str]
    ) -> None:
        """CloudStack changes security groups of a stopped VM only, so members are restarted, one after another."""
        for row in self._member_rows(cid, group):
            has = [str(one["id"]) for one in row.get("securitygroup") or ()]
            kept = [one for one in has if one not in old]
            wanted = list(dict.fromkeys([*kept, *new])) or [str(self.security_groups.require_default()["id"])]
            if set(wanted) != set(has):
                self._restart_with(row, wanted)

    def require_membership(self, vm: Row, membership: Membership | None) -> None:
        """Deploys at the same time can break a strict policy (apache/cloudstack#9110), so each is checked."""
        if membership is None or membership.group is None:
            return
        if membership.group not in [one["id"] for one in vm.get("affinitygroup") or ()]:
            raise VMCreationFailed(
                f"VM {vm['id']} runs, but is not in its affinity group {membership.cid}",
                why="the group vanished while the VM was deployed",
                remedy="repeat: a group that is gone is told then",
            )
        if vm.get("hostid"):
            settings = self.client.settings
            members = {"affinitygroupid": membership.group}

            def list_members() -> list[PlacedVm]:
                rows = self.client.list_all("listVirtualMachines", **members)
                return [self._placed(row) for row in rows if row.get("hostid") and row.get("state") not in GONE]

            require_kept_policy(self._placed(vm), membership, list_members, settings.settle_s, settings.poll_s)

    def _placed(self, row: Row) -> PlacedVm:
        """CloudStack's times are whole seconds, so the id decides within one. Tags come after the check."""
        is_checked = mark_of(row, self.client.director_uuid) is None or DIRECTOR in read_tags(row)
        return PlacedVm(str(row["id"]), str(row["hostid"]), (str(row.get("created", "")), str(row["id"])), is_checked)

    def _restart_with(self, row: Row, security_groups: list[str]) -> None:
        was_running = row.get("state") == "Running"
        if was_running:
            self.client.run("stopVirtualMachine", id=row["id"])
        self.client.call("updateVirtualMachine", id=row["id"], securitygroupids=security_groups)
        if was_running:
            self.client.run("startVirtualMachine", id=row["id"])

    def _member_rows(self, cid: str, group: ExistingGroup | None) -> list[Row]:
        """Members that CloudStack shows; from a user it hides those that are destroyed and not expunged."""
        if group is None:
            return self._tagged_rows(cid)
        return list(self.client.list_all("listVirtualMachines", affinitygroupid=group.id))

    def _tagged_rows(self, cid: str) -> list[Row]:
        rows = self.client.list_all("listVirtualMachines", tags=[{"key": GROUP, "value": cid}])
        return [row for row in rows if row.get("state") not in GONE]

    def _member(self, row: Row) -> GroupMember:
        return GroupMember(str(row["id"]), row.get("hostname"), mark_of(row, self.client.director_uuid) is not None)

    def _existing(self, row: Row) -> ExistingGroup:
        return ExistingGroup(
            id=str(row["id"]),
            name=str(row["name"]),
            policy=POLICIES.get(str(row.get("type"))),
            members=tuple(map(str, row.get("virtualmachineIds") or ())),
            is_ours=group_mark_of(row, self.client.director_uuid) is not None,
            row=row,
        )


def _without_security_groups(rows: Iterable[Row], record: GroupRecord | None) -> list[str]:
    wanted = set(record.security_groups if record else ())
    notes = []
    for row in rows:
        for one in sorted(wanted - {str(has["id"]) for has in row.get("securitygroup") or ()}):
            notes.append(f"VM {row['id']} lacks security group {one}")
    return notes


def _destroyed(rows: Sequence[Row], group: ExistingGroup | None) -> list[str]:
    """A destroyed VM is a member until it is expunged, shown or not."""
    waiting = {str(row["id"]) for row in rows if row.get("state") in GONE}
    shown = {str(row["id"]) for row in rows}
    waiting |= {one for one in (group.members if group else ()) if one not in shown}
    return [f"VM {one} is destroyed and leaves when CloudStack expunges it" for one in sorted(waiting)]


def _other_type(group: ExistingGroup | None) -> list[str]:
    """The description holds the requested policy; the type is what CloudStack keeps."""
    if group is None or not group.is_ours:
        return []
    requested = str(group.row.get("description", "")).split()[1:2]
    if requested == [group.policy]:
        return []
    return [f"the group's type is {group.row['type']}, requested was {', '.join(requested) or 'none'}"]
