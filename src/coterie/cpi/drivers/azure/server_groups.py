"""Server groups with a life of their own: made by `create_server_group` only, deleted when they are empty. They are
availability sets, which Azure itself refuses to delete while they have members, so nothing here locks. Where the cloud
says `spread: scale-set` they are Flexible scale sets, which living VMs join and leave; Azure deletes their VMs with
them, so they are closed before they are deleted.

The policy is a tag. Records of security groups are tags of an application security group that is named by the CID; a
server group without a policy is nothing but that.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress

from coterie.cpi.contract import (
    ADOPTED_PREFIX,
    Changed,
    CpiError,
    GroupInUse,
    GroupLimit,
    GroupMember,
    GroupMetadata,
    GroupMissing,
    GroupView,
    InvalidCall,
    Mark,
    NotSupported,
    OutcomeUnknown,
    Unavailable,
    is_adopted,
)
from coterie.cpi.drivers.azure.client import Client, Refusal, Row, Type, is_same, name_of
from coterie.cpi.drivers.azure.machines import Machines, fault_domain, update_domain
from coterie.cpi.drivers.azure.properties import SCALE_SETS, SET_POLICIES, Settings
from coterie.cpi.drivers.azure.security_groups import AzureSecurityGroups, LabelRecords
from coterie.cpi.drivers.azure.tags import POLICY, is_ours, mark_of, marked, merge_tags, tag_of, tags_of
from coterie.cpi.kit.checks import mark_of_group
from coterie.cpi.kit.group_records import GroupRecord, GroupRecords
from coterie.cpi.kit.marking import GROUP
from coterie.cpi.kit.parts import Parts
from coterie.cpi.kit.security_groups import SecurityGroups
from coterie.cpi.kit.server_groups import ExistingGroup, Membership, ServerGroups, group_missing
from coterie.slotted import dataclass

SET_MEMBERS, SCALE_SET_MEMBERS = 200, 1000
_CLOSING = "coterie-closing"  # a tag of a scale set: which deletion has begun
# what stands before the name of a group where an id is one, and how a VM names the group that it joins
_CARRIERS: Mapping[Type, tuple[str, str]] = {
    "host group": ("hostgroup.", "hostGroup"),
    "scale set": ("scaleset.", "virtualMachineScaleSet"),
    "availability set": ("", "availabilitySet"),
}
_TRIES = 8


class Groups:
    """The kit's parts over Azure, and what it alone has: zones, and living VMs that move."""

    def __init__(self, client: Client, machines: Machines, azure: AzureSecurityGroups, parts: Parts) -> None:
        self.client = client
        self.machines = machines
        self.azure = azure
        self.sets = AzureGroups(client, machines, azure, ScaleSets(client, machines))
        records = GroupRecords(LabelRecords(client))
        self.security = SecurityGroups(azure, records, parts)
        self.server = ServerGroups(self.sets, self.security, records, client.settings.policies, client.director_uuid)

    def create(self, metadata: GroupMetadata, mark: Mark) -> str:
        self.require_one(metadata)
        cid = self.server.create(metadata, mark)
        self._complete(cid, metadata)
        return cid

    def update(self, cid: str, metadata: GroupMetadata) -> None:
        self.require_one(metadata, cid)
        if self._complete(cid, metadata):
            for name in self.sets.list_outside(cid):
                self.move(name, cid)
        self.server.update(cid, metadata)

    def delete(self, cid: str) -> None:
        self.server.delete(cid)

    def inspect(self, cid: str) -> GroupView:
        return self.server.inspect(cid)

    def membership(self, cid: str | None) -> Membership | None:
        return self.server.membership({"bosh": {"server_group_cid": cid}})

    def require_one(self, metadata: GroupMetadata, cid: str | None = None) -> None:
        """A NIC takes one network security group; more could not all be enforced. Names that are taken come first."""
        if len(metadata.security_groups) > 1:
            self.server.require_security_groups(cid, metadata)
            raise NotSupported(
                f"a server group of Azure has one security group, not {len(metadata.security_groups)}",
                why="a NIC takes one network security group",
                remedy="put the rules of all of them into one",
                details={"field": "security_groups"},
            )

    def require_zones(self, metadata: GroupMetadata) -> None:
        """Refuse a server group whose VMs could not join it. An az is a zone of Azure by its number, or of none."""
        settings, zones = self.client.settings, metadata.azs
        if metadata.policy not in SET_POLICIES or metadata.options.get("adopt"):
            return
        of_zones = [one for one in zones if one.isdecimal()]
        if settings.spread != SCALE_SETS:
            if of_zones:
                raise _set_in_zone(f"azs of zone {', '.join(of_zones)}")
        elif wrong := [one for one in zones if not _fits(list(settings.scale_set_zones), one)]:
            raise InvalidCall(
                f"scale sets of this cloud take no VMs of {', '.join(wrong)}",
                why=f"properties.scale_set_zones is {list(settings.scale_set_zones)}",
                remedy="use azs with those availability zones, or set scale_set_zones; a set has zones, or is regional",
                details={"field": "azs"},
            )

    def move(self, vm_cid: str, cid: str | None) -> None:
        """A living VM changes its scale set, and the security group that comes with it. What fails is undone."""
        row = self.machines.require(vm_cid)
        _require_movable(row)
        before = tag_of(row, GROUP)
        wanted, had = self.membership(cid), None
        if wanted and wanted.group and carrier_of(wanted.group)[0] != "scale set":
            raise _immovable(f"server group {cid} is an availability set, which VMs join at their creation only")
        with suppress(GroupMissing):
            had = self.membership(before)
        self._require_open(wanted, row)
        try:
            self._join(vm_cid, wanted, had)
            self._require_open(wanted, row)  # its deletion may have begun meanwhile
        except (Refusal, GroupMissing) as error:
            try:
                self._join(vm_cid, had, wanted)
            except CpiError as trouble:
                raise OutcomeUnknown(
                    f"VM {vm_cid} could neither join {cid or 'no group'} nor stay in {before or 'none'}",
                    why=f"{error}; then {trouble}",
                    remedy="repeat",
                ) from error
            raise

    def _complete(self, cid: str, metadata: GroupMetadata) -> bool:
        """A scale set of ours that is gone is made again, and one whose deletion was begun but not ended is opened.
        Whether the group is one."""
        if is_adopted(cid) or not metadata.policy or self.client.settings.spread != SCALE_SETS:
            return False
        if self.client.get("availability set", cid):  # the group is older than the setting
            return False
        self.sets.scale_sets.complete(metadata, mark_of_group(cid, self.client.director_uuid))
        return True

    def _require_open(self, wanted: Membership | None, row: Row) -> None:
        if wanted and wanted.group:
            self.sets.require_joinable(wanted, row.get("zones") or [])

    def _join(self, vm_cid: str, wanted: Membership | None, left: Membership | None) -> None:
        """In steps that each look at the VM as it is then: leave the other scale set, join this one, exchange security
        groups."""
        group = wanted.group if wanted else None
        target = self.client.id(*carrier_of(group)) if group else None
        for _ in range(_TRIES):
            row = self.machines.require(vm_cid)
            body = _next_change(row, target, wanted.cid if wanted else None)
            if body is None:
                break
            try:
                self.client.patch("VM", vm_cid, body, row.get("etag"))
            except Refusal as error:
                if error.kind is not Changed:
                    raise
        else:
            raise Unavailable(f"VM {vm_cid} is changed by others all the time", remedy="repeat")
        default = self.client.settings.default_security_group
        none = (default,) if default else ()
        old, new = (one.security_groups if one and one.security_groups else none for one in (left, wanted))
        if old != new:
            self.azure.exchange(row, old, new)


@dataclass(frozen=True, slots=True)
class AzureGroups:
    """Fills the kit's `ServerGroupCloud`. Dedicated host groups are there to be adopted for host-affinity."""

    leave_hint = "a VM leaves its set when it is deleted"

    client: Client
    machines: Machines
    azure: AzureSecurityGroups
    scale_sets: ScaleSets

    @property
    def noun(self) -> str:
        return self._own_types[0]

    @property
    def _own_types(self) -> tuple[Type, Type]:
        """New groups are of the first; one of ours may be older than the cloud's `spread`."""
        if self.client.settings.spread == SCALE_SETS:
            return "scale set", "availability set"
        return "availability set", "scale set"

    def find(self, cid: str) -> ExistingGroup | None:
        return next(iter(self._list(cid)), None)

    def find_to_join(self, cid: str) -> ExistingGroup | None:
        return next(iter(self._list(cid, members=False)), None)

    def list_named(self, name: str) -> list[ExistingGroup]:
        return list(self._list(name))

    def list_adoptable(self, name: str) -> list[ExistingGroup]:
        types: tuple[Type, ...] = ("availability set", "host group")
        if self.noun == "scale set":
            self.scale_sets.require_adoptable(name)
            types = ("scale set",)
        rows = [(type_, self.client.get(type_, name)) for type_ in types]
        return [self._existing(type_, row) for type_, row in rows if row]

    def create(self, metadata: GroupMetadata, mark: Mark) -> tuple[ExistingGroup, bool]:
        """Calls under one mark write the same set."""
        if metadata.policy == "host-affinity":
            raise InvalidCall(
                "dedicated hosts cost money from their first second, so none are made",
                remedy="have the operator make a host group, and say placement.adopt: true with its name",
            )
        if self.noun == "scale set":
            return self._existing("scale set", self.scale_sets.complete(metadata, mark)), True
        counts = {
            "platformFaultDomainCount": self.client.settings.fault_domains,
            "platformUpdateDomainCount": self.client.settings.update_domains,
        }
        body = {"sku": {"name": "Aligned"}, "tags": _tags(metadata, mark), "properties": counts}
        return self._existing("availability set", self.client.put("availability set", mark.group_cid, body)), True

    def delete(self, group: ExistingGroup) -> None:
        type_, name = carrier_of(group.id)
        if type_ == "scale set":
            self.scale_sets.delete(name)
        else:
            self.client.delete(type_, name)

    def list_tagged(self, cid: str) -> list[str]:
        return [str(row["name"]) for row in self.machines.list_all() if is_same(tag_of(row, GROUP), cid)]

    def members_left(self, cid: str, groups: Sequence[ExistingGroup], record: GroupRecord | None) -> list[str]:
        if not groups and record and record.policy is None:
            return self.list_tagged(cid)
        is_set = {group.id: carrier_of(group.id)[0] == "scale set" for group in groups}
        holders = (
            self.scale_sets.list_holders(one.name, one.name) if is_set[one.id] else one.members for one in groups
        )
        return [name for names in holders for name in names]

    def inspect_members(
        self, cid: str, group: ExistingGroup | None, record: GroupRecord | None
    ) -> tuple[list[GroupMember], list[str]]:
        """No list has the fault domain, and all of them lag, so each VM is read."""
        if group and carrier_of(group.id)[0] == "scale set":
            rows = self._read(self.scale_sets.list_holders(group.name, cid))
            outside = [row for row in rows if not is_same(scale_set_of(row), group.name)]
            notes = [f"VM {row['name']} is not in scale set {group.name}" for row in outside]
            if tag_of(dict(group.row), _CLOSING):
                notes.append("its deletion was begun, so no VM can join it")
            inside = [row for row in rows if row not in outside]
            return [self._member(row, next(iter(row.get("zones") or ()), None)) for row in inside], notes
        rows = self._read(group.members if group else self.list_tagged(cid))
        return [self._member(row, fault_domain(row)) for row in rows], []

    def list_outside(self, cid: str) -> list[str]:
        """VMs of ours that were made for a scale set, and are in none."""
        rows = self._read(self.list_tagged(cid))
        outside = [row for row in rows if scale_set_of(row) is None and is_same(tag_of(row, GROUP), cid)]
        return [str(row["name"]) for row in outside if is_ours(row, self.client.director_uuid)]

    def require_exchange(self, cid: str, group: ExistingGroup | None) -> None:
        """Azure changes the security groups of living NICs."""

    def exchange_security_groups(
        self, cid: str, group: ExistingGroup | None, old: Collection[str], new: Collection[str]
    ) -> None:
        """Of our members only: an operator's VM in the same set keeps its own."""
        for row in self._read(group.members if group else self.list_tagged(cid)):
            if is_ours(row, self.client.director_uuid) and is_same(tag_of(row, GROUP), cid):
                self.azure.exchange(row, old, new)

    def require_joinable(self, membership: Membership, zones: Sequence[str]) -> None:
        """Right before a VM joins. Availability sets need nothing: Azure deletes none with members."""
        type_, name = carrier_of(str(membership.group))
        if type_ == "scale set":
            self.scale_sets.require_open(membership.cid, name, zones)
        elif type_ == "availability set" and zones:
            raise _set_in_zone("cloud_properties.availability_zone")

    def list_sizes(self, group: str) -> list[str]:
        """Those that the hardware of an availability set has."""
        path = f"{self.client.id('availability set', group)}/vmSizes"
        return [str(row["name"]) for row in self.client.list_all(f"list the sizes of {group}", path)]

    def _list(self, cid: str, *, members: bool = True) -> Iterator[ExistingGroup]:
        """An adopted one by its id, one of ours by its name."""
        adopted, name = carrier_of(cid.removeprefix(ADOPTED_PREFIX)) if is_adopted(cid) else (None, cid)
        for type_ in (adopted,) if adopted else self._own_types:
            row = self.client.get(type_, name)
            if row:
                yield self._existing(type_, row, members=members)

    def _existing(self, type_: Type, row: Row, *, members: bool = True) -> ExistingGroup:
        name, mark = str(row["name"]), mark_of(row)
        id_ = f"{_CARRIERS[type_][0]}{name}"
        if type_ == "host group":
            tagged = self.list_tagged(f"{ADOPTED_PREFIX}{id_}") if members else []
            return ExistingGroup(id_, name, "host-affinity", tuple(tagged), False, row)
        if type_ == "scale set":
            found = [str(one["name"]).lower() for one in self.scale_sets.list_members(name)] if members else []
        else:
            found = [name_of(one["id"]).lower() for one in row["properties"].get("virtualMachines") or ()]
        ours = mark is not None and mark.director == self.client.director_uuid and is_same(mark.group_cid, name)
        return ExistingGroup(id_, name, tag_of(row, POLICY) if mark else "soft-anti-affinity", tuple(found), ours, row)

    def _read(self, names: Collection[str]) -> list[Row]:
        return [row for name in names if (row := self.machines.read(name))]

    def _member(self, row: Row, domain: str | None) -> GroupMember:
        ours = is_ours(row, self.client.director_uuid)
        return GroupMember(str(row["name"]), None, ours, domain, update_domain(row))


@dataclass(frozen=True, slots=True)
class ScaleSets:
    """Flexible scale sets without a profile, and with one fault domain: Azure spreads their VMs as widely as it can,
    and living VMs can join and leave."""

    client: Client
    machines: Machines

    def complete(self, metadata: GroupMetadata, mark: Mark) -> Row:
        """Made where it is not there; open to new VMs, and in all zones of the cloud."""
        cid, settings = mark.group_cid, self.client.settings
        row = self.client.get("scale set", cid)
        zones = sorted({*((row or {}).get("zones") or settings.scale_set_zones), *settings.scale_set_zones})
        if row and not tag_of(row, _CLOSING) and zones == sorted(row.get("zones") or []):
            return row
        body: Row = {
            "tags": merge_tags(row or {}, _tags(metadata, mark), without=[_CLOSING]),
            "properties": {
                "orchestrationMode": "Flexible",
                "platformFaultDomainCount": 1,
                "singlePlacementGroup": False,
            },
            **({"zones": zones} if zones and (row is None or row.get("zones")) else {}),
        }
        return self.client.put("scale set", cid, body)

    def list_members(self, name: str) -> list[Row]:
        """By a list of the whole resource group: members can be nowhere else, and a filter that is not understood would
        show none."""
        return [row for row in self.machines.list_all() if is_same(scale_set_of(row), name)]

    def list_holders(self, name: str, cid: str) -> list[str]:
        """VMs in it, and those that are to be in it, and may be on their way: they forbid to delete it."""
        return [
            str(row["name"]).lower()
            for row in self.machines.list_all()
            if is_same(scale_set_of(row), name) or is_same(tag_of(row, GROUP), cid)
        ]

    def require_open(self, cid: str, name: str, zones: Sequence[str]) -> None:
        row = self.client.get("scale set", name)
        if row is None or tag_of(row, _CLOSING):
            raise group_missing(cid, "its scale set is gone" if row is None else "its scale set is being deleted")
        has = list(row.get("zones") or [])
        if not all(_fits(has, zone) for zone in zones or [""]):
            raise InvalidCall(
                f"cloud_properties.availability_zone is {', '.join(zones) or 'not set'}, and the scale set {name} has "
                f"{'zones ' + ', '.join(has) if has else 'no zones'}",
                remedy="use an az with one of those zones, or set properties.scale_set_zones and repair the group",
            )

    def delete(self, name: str) -> None:
        """Azure deletes the VMs of a scale set with it. Each VM that joins looks right before whether the set is open,
        so it is closed first; it must still have no members when lists show all that joined until then; and be closed
        by this call, not opened again."""
        closing, row = uuid.uuid4().hex, self.client.get("scale set", name)
        if row is None:
            return
        self.client.patch("scale set", name, {"tags": merge_tags(row, {_CLOSING: closing})})
        time.sleep(self.client.settings.settle_s)
        left, row = self.list_holders(name, name), self.client.get("scale set", name)
        if row is None:
            return
        if left or tag_of(row, _CLOSING) != closing:
            if left:
                self.client.patch("scale set", name, {"tags": merge_tags(row, {}, without=[_CLOSING])})
            raise GroupInUse(
                f"scale set {name} has members",
                why=", ".join(left[:5]) or "it was opened again while it was deleted",
                remedy="delete them first",
            )
        self.client.delete("scale set", name)

    def require_adoptable(self, name: str) -> None:
        row = self.client.get("scale set", name)
        given = row["properties"] if row else {}
        if row and (
            not is_same(given.get("orchestrationMode"), "Flexible")
            or given.get("platformFaultDomainCount") != 1
            or given.get("singlePlacementGroup") is not False
        ):
            raise NotSupported(
                f"scale set {name} is none that living VMs can join",
                why="they join sets with orchestrationMode Flexible, one fault domain and singlePlacementGroup false",
                remedy="have the operator make such a set",
            )


def group_limits(settings: Settings) -> dict[str, GroupLimit]:
    if settings.spread == SCALE_SETS:
        return {"soft-anti-affinity": GroupLimit(SCALE_SET_MEMBERS)}
    return {"anti-affinity": GroupLimit(settings.fault_domains), "soft-anti-affinity": GroupLimit(SET_MEMBERS)}


def domains(settings: Settings) -> dict[str, str]:
    """In which failure domains members are shown."""
    if settings.spread == SCALE_SETS:
        return {"soft-anti-affinity": "zone"} if settings.scale_set_zones else {}
    return dict.fromkeys(SET_POLICIES, "fault domain")


def carrier_of(id_: str) -> tuple[Type, str]:
    """What a group is by its id, and its name."""
    type_ = next(one for one, (prefix, _) in _CARRIERS.items() if id_.startswith(prefix))
    return type_, id_.removeprefix(_CARRIERS[type_][0])


def placement(client: Client, group: str) -> Row:
    """How a VM names the group that it joins."""
    type_, name = carrier_of(group)
    return {_CARRIERS[type_][1]: {"id": client.id(type_, name)}}


def scale_set_of(row: Row) -> str | None:
    """The name of the scale set that a VM is in."""
    found = (row["properties"].get("virtualMachineScaleSet") or {}).get("id")
    return name_of(str(found)) if found else None


def _tags(metadata: GroupMetadata, mark: Mark) -> dict[str, str]:
    return marked(mark, **{GROUP: mark.group_cid, POLICY: str(metadata.policy)})


def _fits(zones: Sequence[str], zone: str) -> bool:
    """Whether a VM of this zone may be in a scale set of these; what is no number is the region."""
    return zone in zones if zone.isdecimal() else not zones


def _set_in_zone(what: str) -> InvalidCall:
    return InvalidCall(
        f"{what} and an availability set exclude each other",
        why="Azure has VMs in sets or in zones, never in both",
        remedy="use azs without availability_zone, leave placement out, or set properties.spread: scale-set",
        details={"field": "azs"},
    )


def _require_movable(row: Row) -> None:
    """By the vendor's list of VMs that cannot be attached to a scale set."""
    for key in ("availabilitySet", "hostGroup", "host", "proximityPlacementGroup"):
        if row["properties"].get(key):
            raise _immovable(f"VM {row['name']} keeps its {key} for life")


def _immovable(what: str) -> NotSupported:
    return NotSupported(
        what,
        why="Azure attaches living VMs to scale sets only, and none that is in another group",
        remedy="make the node anew: coterie deploy MANIFEST --recreate --node NODE",
    )


def _next_change(row: Row, target: str | None, cid: str | None) -> Row | None:
    """From one scale set to another a VM has to leave the first; its tag changes with the second."""
    has, tags = scale_set_of(row), merge_tags(row, {GROUP: cid} if cid else {}, without=[GROUP])
    if has and not is_same(has, name_of(target or "")):
        return {"properties": {"virtualMachineScaleSet": {"id": None}}}
    if target and not has:
        return {"tags": tags, "properties": {"virtualMachineScaleSet": {"id": target}}}
    return None if tags == tags_of(row) else {"tags": tags}
