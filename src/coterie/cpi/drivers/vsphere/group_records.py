"""What a server group is requested to be, and its record in the vCenter: a folder named by its CID, with empty folders
in it as labels.

A DRS group cannot be empty, so something else must remember that it was requested. A folder can: creating one is
atomic, its name is unique, and it needs no privilege that VMs do not need anyway. We never put a VM into it; one that
holds VMs of others is kept.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from coterie.cpi.contract import (
    ADOPTED_PREFIX,
    GroupInUse,
    GroupMetadata,
    GroupMissing,
    InvalidCall,
    Mark,
    NotSupported,
    PartRecords,
    is_adopted,
)
from coterie.cpi.drivers.vsphere import sdk
from coterie.cpi.drivers.vsphere.client import Client
from coterie.cpi.drivers.vsphere.inventory import NAME_LIMIT, Inventory
from coterie.cpi.drivers.vsphere.sdk import Refusal, tolerate
from coterie.cpi.drivers.vsphere.settings import ZoneSettings
from coterie.cpi.kit.marking import read_mark_name
from coterie.ids import INTENT_LENGTH, base32
from coterie.slotted import dataclass

TOGETHER = ("affinity", "soft-affinity")
APART = ("anti-affinity", "soft-anti-affinity")
POLICIES = frozenset({*TOGETHER, *APART, "host-affinity"})
OPTIONS = ("name", "adopt", "vm_group", "host_group", "rule", "affine")
HOSTS = ".hosts"  # the rule that ties a group to hosts has the group's name and this
_LONGEST = 70  # a label is `host_group=NAME`, and the inventory takes 80 characters
_LIVE, _MAKING = "live=", "making="  # labels that name a cluster
_UNFINISHED = "new-"  # the prefix of a record that has not got all its labels yet


@dataclass(frozen=True, slots=True)
class GroupSpec:
    """`name`: of the DRS VM group. `host_group`: keep the members on (or, not `affine`, off) these hosts."""

    policy: str | None
    name: str
    host_group: str | None = None
    rule: str = "must"
    affine: bool = True
    adopted: bool = False

    def is_same_group(self, other: GroupSpec) -> bool:
        """Whether one can become the other: the hosts it is tied to may change, policy and name may not."""
        return (self.policy, self.name) == (other.policy, other.name)

    @property
    def host_rule(self) -> str:
        return f"{self.name[: NAME_LIMIT - len(HOSTS)]}{HOSTS}"

    @property
    def has_vm_rule(self) -> bool:
        """Whether the policy needs a rule between the VMs; an operator's group may have one in any case."""
        return self.adopted or self.policy in (*APART, *TOGETHER)

    @property
    def vm_rule_kind(self) -> Literal["apart", "together"]:
        return "apart" if self.policy in APART else "together"

    @property
    def mandatory(self) -> bool:
        """Of the rule between VMs; DRS may break the rule of a soft policy."""
        return not str(self.policy).startswith("soft-")


@dataclass(frozen=True, slots=True)
class GroupRecord:
    """`live`: ids of the clusters in which the group was made, and must therefore be; `making`: in which it was about
    to be made, so that one which is there may be ours. `ref` None: adopted or of a zone, so there is nothing to
    remember."""

    cid: str
    ref: Any
    spec: GroupSpec
    live: frozenset[str] = frozenset()
    making: frozenset[str] = frozenset()


def read_spec(metadata: GroupMetadata, cid: str) -> GroupSpec:
    """The requested group, if vSphere can make it."""
    options = metadata.options
    _refuse_impossible(metadata)
    rule, affine = options.get("rule") or "must", options.get("affine", True)
    if rule not in ("must", "should"):
        raise InvalidCall(f"options.rule is {rule!r}", remedy="use must or should")
    if not isinstance(affine, bool):
        raise InvalidCall(f"options.affine is {affine!r}", remedy="say true or false")
    host_group = _read_name("host_group", options)
    if host_group is None and ("rule" in options or "affine" in options):
        raise InvalidCall(
            "options.rule is given without options.host_group", remedy="name the host group, or leave it out"
        )
    automatic = _automatic_name(f"{metadata.deployment}.{metadata.instance_group}", cid)
    return GroupSpec(metadata.policy, _read_name("vm_group", options) or automatic, host_group, str(rule), affine)


def _automatic_name(what: str, cid: str) -> str:
    """It tells what the group is for, and is unmistakably ours."""
    return f"{what[: _LONGEST - len(cid) - 1]}.{cid}"


def zone_groups(director_uuid: str, cloud: str, zones: Mapping[str, ZoneSettings]) -> dict[str, GroupRecord]:
    """By zone: the group that all its VMs are in, where it has a host group. All of it follows from the configuration,
    so neither a folder nor the ledger remembers it."""
    found = {}
    for zone, one in zones.items():
        digest = hashlib.sha256(f"{cloud}/{zone}".encode()).digest()
        cid = Mark(director_uuid, base32(int.from_bytes(digest), INTENT_LENGTH)).group_cid
        if one.host_group:
            spec = GroupSpec("host-affinity", _automatic_name(f"zone.{zone}", cid), one.host_group, one.rule)
            found[zone] = GroupRecord(cid, None, spec)
    return found


def requested_name(options: Mapping[str, Any]) -> str | None:
    """The name that an operator's group may have already."""
    return _read_name("vm_group", options) or _read_name("name", options)


def group_missing(cid: str, why: str) -> GroupMissing:
    remedy = "`coterie groups repair` makes it again; or take the VM out of the group"
    return GroupMissing(f"server group {cid} is missing", why=why, remedy=remedy)


@dataclass(frozen=True, slots=True)
class GroupRecords:
    client: Client
    inventory: Inventory
    parts: PartRecords
    zones: Mapping[str, GroupRecord]
    director_uuid: str

    def names_in_ledger(self, cid: str, cluster: Any) -> list[str]:
        """Of the DRS groups that were made for a server group in this cluster."""
        mark = read_mark_name(cid, self.director_uuid)
        parts = self.parts.list_of(mark) if mark else ()
        return [one.name for one in parts if one.cid == f"{cluster._moId}/{one.name}"]

    def find(self, cid: str, director_uuid: str | None = None, *, unfinished: bool = False) -> GroupRecord | None:
        """The record of a group; for an adopted one, what follows from its handle. `unfinished`: also one whose maker
        died half-way, or is still at work."""
        if is_adopted(cid):
            return GroupRecord(cid, None, GroupSpec(None, cid.removeprefix(ADOPTED_PREFIX), adopted=True))
        if self.of_zone(cid):
            return self.of_zone(cid)
        for name in (cid, f"{_UNFINISHED}{cid}") if unfinished else (cid,):
            ref = self.inventory.find(*self.inventory.path("groups", director_uuid), name)
            if ref is not None:
                return _read(name, ref, self._labels(ref))
        return None

    def of_zone(self, cid: str) -> GroupRecord | None:
        return next((one for one in self.zones.values() if one.cid == cid), None)

    def require(self, cid: str) -> GroupRecord:
        found = self.find(cid)
        if found is None:
            raise group_missing(cid, "nothing in the vCenter remembers it")
        return found

    def list_all(self, director_uuid: str) -> list[GroupRecord]:
        """All of a Director, in two calls."""
        folder = self.inventory.find_folder("groups", director_uuid)
        if folder is None:
            return []
        rows = self.client.list_below(folder, sdk.vim.Folder, "name", "parent")
        labels: dict[Any, list[str]] = {}
        for row in rows:
            labels.setdefault(row.get("parent"), []).append(str(row.get("name")))
        own = [row for row in rows if row.get("parent") == folder]
        return [_read(str(row.get("name")), row.ref, labels.get(row.ref, [])) for row in own]

    def create(self, cid: str, spec: GroupSpec) -> None:
        """Under another name, and renamed when it is whole: no other process ever sees half of one."""
        ref = self.inventory.ensure_child(self.inventory.ensure_folder("groups"), f"{_UNFINISHED}{cid}")
        try:
            present = self._labels(ref)
            for label in _labels_of(spec):
                if label not in present:
                    self.inventory.ensure_child(ref, label)
            self.client.run(ref.Rename_Task, cid)
        except Refusal:
            made = self.inventory.find(*self.inventory.path("groups"), cid)
            if made is None:
                raise
            if (
                made != ref
            ):  # another call under the same mark was first; it may have renamed or removed this very folder
                self._destroy(ref)

    def rewrite(self, record: GroupRecord, spec: GroupSpec) -> None:
        """Tie the group to other hosts. A process that dies in between leaves labels of both; a repeat clears them."""
        wanted, present = _labels_of(spec), self._labels(record.ref)
        for label in wanted:
            if label not in present:
                self.inventory.ensure_child(record.ref, label)
        for label, ref in present.items():
            if label not in wanted and not label.startswith((_LIVE, _MAKING)):
                self._destroy(ref)

    def delete(self, record: GroupRecord) -> None:
        if record.ref is not None:
            self._destroy(record.ref)
        self.remove_empty_folders()

    def remove_empty_folders(self) -> None:
        self.inventory.remove_empty_folders("groups")

    def note_live(self, record: GroupRecord, cluster: Any) -> None:
        """From now on a group that is absent there is *missing*, not *reserved*."""
        if record.ref is not None and cluster._moId not in record.live:
            mark, name = read_mark_name(record.cid, self.director_uuid), record.spec.name
            if mark is not None:
                self.parts.record(mark, "server_group", name, f"{cluster._moId}/{name}")
            self.inventory.ensure_child(record.ref, f"{_LIVE}{cluster._moId}")

    def note_making(self, record: GroupRecord, cluster: Any) -> None:
        """Before the group is written: a name of the user's proves nothing, should this process die right after."""
        if record.ref is not None and record.cid not in record.spec.name and cluster._moId not in record.making:
            self.inventory.ensure_child(record.ref, f"{_MAKING}{cluster._moId}")

    def note_reserved(self, record: GroupRecord, cluster: Any) -> None:
        """Before the group is removed there."""
        if record.ref is None or cluster._moId not in record.live | record.making:
            return
        for label, ref in self._labels(record.ref).items():
            if label in (f"{_LIVE}{cluster._moId}", f"{_MAKING}{cluster._moId}"):
                self._destroy(ref)

    def require_no_vms(self, folder: Any) -> None:
        """Destroying a folder would unregister all VMs in it."""
        inside = self.inventory.list_occupants(folder)
        if inside:
            raise GroupInUse(
                "the folder of a server group holds VMs",
                why=f"{', '.join(inside[:5])} were put into it by others",
                remedy=f"move them to another folder; this one is below {'/'.join(self.inventory.path('groups'))}",
                details={"foreign_only": True},
            )

    def _destroy(self, folder: Any) -> None:
        self.require_no_vms(folder)
        with tolerate("ManagedObjectNotFound"):
            self.client.run(folder.UnregisterAndDestroy_Task)

    def _labels(self, ref: Any) -> dict[str, Any]:
        return {str(row.get("name")): row.ref for row in self.client.list_children(ref, sdk.vim.Folder, "name")}


def _read(name: str, ref: Any, labels: Iterable[str]) -> GroupRecord:
    cid = name.removeprefix(_UNFINISHED)
    names = list(labels)
    live, making = (
        frozenset(label.removeprefix(prefix) for label in names if label.startswith(prefix))
        for prefix in (_LIVE, _MAKING)
    )
    return GroupRecord(cid, ref, _spec_of(names) or GroupSpec(None, cid), live, making)


def _labels_of(spec: GroupSpec) -> list[str]:
    found = {"policy": spec.policy or "none", "name": spec.name}
    if spec.host_group:
        found |= {"host_group": spec.host_group, "rule": spec.rule, "affine": "yes" if spec.affine else "no"}
    return [f"{key}={_escape(value)}" for key, value in found.items()]


def _spec_of(labels: Iterable[str]) -> GroupSpec | None:
    """None while they are not all written."""
    found = dict(_unescape(label).split("=", 1) for label in labels if "=" in label)
    if "policy" not in found or "name" not in found:
        return None
    policy = None if found["policy"] == "none" else found["policy"]
    affine = found.get("affine", "yes") == "yes"
    return GroupSpec(policy, found["name"], found.get("host_group"), found.get("rule", "must"), affine)


def _refuse_impossible(metadata: GroupMetadata) -> None:
    for key in metadata.options:
        if key not in OPTIONS:
            raise InvalidCall(f"options.{key} is not known", remedy=f"use one of: {', '.join(OPTIONS)}")
    if metadata.policy is not None and metadata.policy not in POLICIES:
        raise NotSupported(f"policy {metadata.policy!r} is impossible on vSphere", remedy=f"use {', '.join(POLICIES)}")
    if metadata.security_groups:
        raise NotSupported(
            "vCenter has no security groups",
            remedy="leave them out for this cloud; firewalls are part of the network",
        )


def _read_name(key: str, options: Mapping[str, Any]) -> str | None:
    value = options.get(key)
    if value is None:
        return None
    if not isinstance(value, str) or not value or len(_escape(value)) > _LONGEST:
        raise InvalidCall(f"options.{key} is {value!r}", remedy=f"give a name of at most {_LONGEST} characters")
    return value


def _escape(name: str) -> str:
    """A name as the inventory takes it: these three characters are written as numbers."""
    return name.replace("%", "%25").replace("/", "%2f").replace("\\", "%5c")


def _unescape(name: str) -> str:
    return name.replace("%2f", "/").replace("%5c", "\\").replace("%25", "%")
