"""Server groups as profiles: named by the CID, unique in a project, with policy and records in their config. A VM is a
member by having the profile, from its creation on, and Incus refuses to delete a profile that something has.

Incus keeps no policy: `create_vm` chooses the members for the VMs of a group, as the only writer of that group.
LXD has placement groups, which it follows where it chooses itself, as in an evacuation: there the profile of a group
names one. An operator's group is a profile with `user.coterie-policy`, or one that names a placement group."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from coterie.cpi.contract import (
    ADOPTED_PREFIX,
    CpiError,
    GroupInUse,
    GroupMember,
    GroupMetadata,
    GroupView,
    InvalidCall,
    Mark,
    NameTaken,
    OutcomeUnknown,
    is_adopted,
    read_group_cid,
)
from coterie.cpi.drivers.incus.client import Client, Refusal, Row, look_after
from coterie.cpi.drivers.incus.machines import Machines
from coterie.cpi.drivers.incus.marks import (
    GROUP,
    HOSTS,
    PLACEMENT,
    POLICY,
    RECORD,
    is_unread,
    mark_config,
    mark_of,
    of_group,
    vm_mark,
)
from coterie.cpi.drivers.incus.placement import Members
from coterie.cpi.drivers.incus.security_groups import NetworkAcls
from coterie.cpi.kit import server_groups
from coterie.cpi.kit.checks import mark_of_group, require_group_spec
from coterie.cpi.kit.group_records import NO_POLICY, GroupRecord, GroupRecords
from coterie.cpi.kit.parts import Parts
from coterie.cpi.kit.security_groups import SecurityGroups
from coterie.cpi.kit.server_groups import ExistingGroup, ServerGroups
from coterie.slotted import dataclass, field, replace

_PATH = "/profiles"
_OWN_PATH, _OWN_EXTENSION = "/placement-groups", "instance_placement_groups"
_OWN_POLICIES = {  # LXD has no host-affinity
    "anti-affinity": {"policy": "spread", "rigor": "strict"},
    "soft-anti-affinity": {"policy": "spread", "rigor": "permissive"},
    "affinity": {"policy": "compact", "rigor": "strict"},
    "soft-affinity": {"policy": "compact", "rigor": "permissive"},
}
_OPTIONS = (*server_groups.OPTIONS, "hosts")


class Groups:
    """The kit's parts for server groups and their security groups, over Incus."""

    def __init__(self, client: Client, members: Members, machines: Machines, parts: Parts) -> None:
        self.profiles = Profiles(client, members, machines, PlacementGroups(client, members))
        self.records = GroupRecords(ConfigRecords(client, self.profiles))
        self.security = SecurityGroups(NetworkAcls(client, members, parts), self.records, parts)
        policies, director = client.settings.policies, client.director_uuid
        self._policies = policies
        self.server = ServerGroups(self.profiles, self.security, self.records, policies, director)
        self._reservations = machines.recorded

    def create(self, metadata: GroupMetadata, mark: Mark) -> str:
        self._require_hosts(metadata)
        self.profiles.hosts[mark.group_cid] = _hosts_of(metadata)
        cid = self.server.create(_without_hosts(metadata), mark)
        try:
            self.profiles.mend_placement(cid, metadata.policy)
        except CpiError as error:
            what = f"server group {cid} is there, but perhaps without its placement group"
            raise OutcomeUnknown(what, why=str(error), remedy=error.remedy) from error
        return cid

    def update(self, cid: str, metadata: GroupMetadata) -> None:
        self._require_hosts(metadata)
        self.server.update(cid, _without_hosts(metadata))
        self.profiles.mend_placement(cid, metadata.policy)
        if metadata.policy == "host-affinity" and not is_adopted(cid):
            self.profiles.write_hosts(cid, _hosts_of(metadata))

    def delete(self, cid: str) -> None:
        """An operator's profile stays, and others may have adopted it: what was reserved in it runs out."""
        self.server.delete(cid)
        if not is_adopted(cid):
            self._reservations.forget(cid)

    def refuse(self, metadata: GroupMetadata) -> str | None:
        """Refuse what `create` would refuse; the CID of what would be adopted."""
        self._require_hosts(metadata)
        return self.server.find_adopted(_without_hosts(metadata))

    def inspect(self, cid: str) -> GroupView:
        view = self.server.inspect(cid)
        hosts = self.profiles.hosts_of(cid) if view.policy == "host-affinity" else None
        return view if hosts is None else replace(view, hosts=tuple(hosts))

    def _require_hosts(self, metadata: GroupMetadata) -> None:
        require_group_spec(metadata, self._policies, _OPTIONS)
        hosts = metadata.options.get("hosts")
        if hosts is None:
            return
        if metadata.policy != "host-affinity":
            raise InvalidCall("options.hosts is for host-affinity only", remedy="leave it out, or change the policy")
        if not isinstance(hosts, (list, tuple)) or not hosts or not all(isinstance(one, str) for one in hosts):
            raise InvalidCall("options.hosts is no list of names", remedy="list members, or cluster groups as @GROUP")


@dataclass(frozen=True, slots=True)
class PlacementGroups:
    """LXD's own, of clusters of 6.6 and later; elsewhere there are none. LXD looks at them only where it chooses a
    member itself, and two creates at once break what they promise: its choice and its record of the instance are two
    transactions. So the writer of a group chooses here, too."""

    client: Client
    members: Members

    def are_there(self) -> bool:
        return self.members.is_clustered() and self.members.offers(_OWN_EXTENSION)

    def rows(self) -> list[Row]:
        return self.client.rows("list placement groups", _OWN_PATH) if self.are_there() else []

    def read(self, name: str) -> Row | None:
        if not name or not self.are_there():
            return None
        found: Row | None = self.client.ask(f"read placement group {name}", _own_path(name))
        return found

    def ensure(self, cid: str, policy: str | None) -> dict[str, str]:
        """Create it, or give it back what it is for. The key of a profile by which its VMs are in it."""
        wanted = _OWN_POLICIES.get(policy or "")
        if wanted is None or not self.are_there():
            return {}
        row = self.read(cid)
        if row is None:
            row = self._create(cid, wanted)
        if not self._is_ours(row):
            raise NameTaken(f"placement group {cid} exists and is not ours", remedy="have its owner rename it")
        if any(row["config"].get(key) != value for key, value in wanted.items()):
            # without an etag: LXD compares it with that of another row, so that none fits
            self.client.run(f"change placement group {cid}", "PATCH", _own_path(cid), {"config": wanted})
        return {PLACEMENT: cid}

    def delete(self, name: str) -> None:
        """LXD itself refuses it while a profile or an instance names it."""
        row = self.read(name)
        if row is None or not self._is_ours(row):
            return
        try:
            self.client.run(f"delete placement group {name}", "DELETE", _own_path(name))
        except Refusal as error:
            row = self.read(name)
            if row and row.get("used_by"):
                raise GroupInUse(
                    f"placement group {name} is in use",
                    why=", ".join(row["used_by"][:5]),
                    remedy="take it out of these profiles and instances first",
                ) from error
            if row:
                raise

    def policy_of(self, name: str) -> str | None:
        row = self.read(name)
        return _own_policy(row) if row else None

    def differences(self, profile: Mapping[str, Any]) -> list[str]:
        """How that of a server group of ours differs from what was made for it."""
        name, policy = str(profile["name"]), str(profile["config"].get(POLICY))
        if policy not in _OWN_POLICIES or not self.are_there():
            return []
        row = self.read(name)
        if row is None:
            return [f"placement group {name} is missing"]
        if _own_policy(row) != policy:
            return [f"placement group {name} is for {_own_policy(row)}, not for {policy}"]
        is_named = profile["config"].get(PLACEMENT) == name
        return [] if is_named else [f"profile {name} does not name placement group {name}"]

    def _create(self, cid: str, wanted: Mapping[str, str]) -> Row:
        mark = mark_of_group(cid, self.client.director_uuid)
        body = {"name": cid, "description": "a server group of Coterie", "config": {**mark_config(mark), **wanted}}
        try:
            self.client.run(f"create placement group {cid}", "POST", _OWN_PATH, body)
        except Refusal as error:
            found = look_after(error, lambda: self.read(cid))
            if found is None:
                raise
            return found
        return body

    def _is_ours(self, row: Row) -> bool:
        return is_of(row, self.client.director_uuid)


@dataclass(frozen=True, slots=True)
class Profiles:
    """Fills the kit's `ServerGroupCloud`. `hosts`: of groups that this process is about to create."""

    noun = "profile"
    leave_hint = ""

    client: Client
    members: Members
    machines: Machines
    placement_groups: PlacementGroups
    hosts: dict[str, list[str]] = field(default_factory=dict)

    def read(self, name: str) -> Row | None:
        found: Row | None = self.client.ask(f"read profile {name}", f"{_PATH}/{name}")
        return found

    def read_any(self, name: str) -> Row | None:
        """Also what an interrupted call left: a placement group without its profile."""
        return self.read(name) or self.placement_groups.read(name)

    def find(self, cid: str) -> ExistingGroup | None:
        row = self.read(profile_of(cid))
        found = self._existing(row) if row and not is_record_only(row) else None
        return found if found and found.policy else None

    def find_to_join(self, cid: str) -> ExistingGroup | None:
        return self.find(cid)

    def list_named(self, name: str) -> list[ExistingGroup]:
        row = self.read_any(name)
        if row is None or is_record_only(row):
            return []
        members = tuple(str(one["name"]) for one in self.instances(name))
        return [replace(self._existing(row), members=members)]

    def list_adoptable(self, name: str) -> list[ExistingGroup]:
        row = self.read(name)
        return [self._existing(row)] if row else []

    def create(self, metadata: GroupMetadata, mark: Mark) -> tuple[ExistingGroup, bool]:
        row, is_new = self.create_row(mark.group_cid, metadata.policy, mark)
        return self._existing(row), is_new

    def create_row(self, cid: str, policy: str | None, mark: Mark, **more: str) -> tuple[Row, bool]:
        """The name makes it once: after a refusal the profile that is there counts."""
        config = {**mark_config(mark), GROUP: cid, POLICY: policy or NO_POLICY, **more}
        if policy == "host-affinity":
            config[HOSTS] = " ".join(self.hosts.get(cid, ()))
        config |= self.placement_groups.ensure(cid, policy)
        body = {"name": cid, "description": "a server group of Coterie", "config": config, "devices": {}}
        try:
            self.client.run(f"create profile {cid}", "POST", _PATH, body)
        except Refusal as error:
            found = look_after(error, lambda: self.read(cid))
            if found is None:
                if error.http_status < 500:
                    self.placement_groups.delete(cid)
                raise
            return found, False
        return body, True

    def mend_placement(self, cid: str, policy: str | None) -> None:
        """What others deleted or changed of the placement group, and what a group of an older server lacks."""
        key = {} if is_adopted(cid) else self.placement_groups.ensure(cid, policy)

        def name_it(row: Row) -> bool:
            is_named = row["config"].get(PLACEMENT) == cid
            row["config"] |= key
            return not is_named

        if key:
            self.client.edit(f"change profile {cid}", f"{_PATH}/{cid}", name_it)

    def delete(self, group: ExistingGroup) -> None:
        self.delete_named(group.name)

    def delete_named(self, name: str) -> None:
        """Incus itself refuses it while a VM has it. A copy of the profile, which others made, names its placement
        group, too: then that stays, alone, and is listed until it can be deleted."""
        was_there = True
        try:
            self.client.run(f"delete profile {name}", "DELETE", f"{_PATH}/{name}")
        except Refusal as error:
            row = self.read(name)
            if row and row.get("used_by"):
                raise GroupInUse(f"profile {name} is in use", why=error.why, remedy="delete its VMs first") from error
            if row:
                raise
            was_there = False
        try:
            self.placement_groups.delete(name)
        except GroupInUse:
            if not was_there:
                raise

    def list_tagged(self, cid: str) -> list[str]:
        return [str(row["name"]) for row in self.instances(profile_of(cid))]

    def members_left(self, cid: str, groups: Sequence[ExistingGroup], record: GroupRecord | None) -> list[str]:
        return self.list_tagged(cid) if groups or record else []

    def inspect_members(
        self, cid: str, group: ExistingGroup | None, record: GroupRecord | None
    ) -> tuple[list[GroupMember], list[str]]:
        rows = self.instances(profile_of(cid))
        wanted = set(record.security_groups if record else ())
        notes = self.placement_groups.differences(group.row) if group and group.is_ours else []
        notes += [f"VM {row['name']} is on {row['location']}, which is silent" for row in rows if is_unread(row)]
        for row in (one for one in rows if not is_unread(one)):
            notes += [f"VM {row['name']} lacks security group {one}" for one in sorted(wanted - set(acls_of(row)))]
        return [self._member(row) for row in rows], notes

    def require_exchange(self, cid: str, group: ExistingGroup | None) -> None:
        """Incus changes the ACLs of living NICs."""

    def exchange_security_groups(
        self, cid: str, group: ExistingGroup | None, old: Collection[str], new: Collection[str]
    ) -> None:
        for row in self.instances(profile_of(cid)):
            self.client.edit(
                f"change ACLs of {row['name']}", f"/instances/{row['name']}", lambda one: exchange_acls(one, old, new)
            )

    def instances(self, profile: str) -> list[Row]:
        """VMs that have this profile, or share its placement group: by their own lists, since no filter finds those on
        silent members."""
        row = self.read(profile)
        own = self.placement_groups.read(str(row["config"].get(PLACEMENT) or "") if row else profile)
        others = [self.read(name) for name in _named("profiles", own) - {profile}]
        names = {name for one in (row, own, *others) for name in _named("instances", one)}
        if not names:
            return []
        rows = self.client.rows("list members of a profile", "/instances", of_group(profile))
        found = {str(row["name"]): row for row in rows if row["name"] in names}
        for name in sorted(names - set(found)):
            row = self.machines.read(name)
            found |= {name: row} if row else {}
        return list(found.values())

    def hosts_of(self, cid: str) -> list[str] | None:
        row = self.read(profile_of(cid))
        words = str((row or {"config": {}})["config"].get(HOSTS) or "").replace(",", " ").split()
        return self.members.resolve_hosts(words) if words else None

    def write_hosts(self, cid: str, hosts: Sequence[str]) -> None:
        def edit(row: Row) -> bool:
            before = row["config"].get(HOSTS)
            row["config"][HOSTS] = " ".join(hosts)
            return bool(before != row["config"][HOSTS])

        self.client.edit(f"change profile {cid}", f"{_PATH}/{cid}", edit)

    def _existing(self, row: Row) -> ExistingGroup:
        name, config = str(row["name"]), row["config"]
        policy = config.get(POLICY) or self.placement_groups.policy_of(str(config.get(PLACEMENT) or ""))
        return ExistingGroup(name, name, policy, (), is_of(row, self.client.director_uuid), row)

    def _member(self, row: Row) -> GroupMember:
        mark = vm_mark(row, self.client.director_uuid)
        ours = mark is not None and mark.director == self.client.director_uuid
        return GroupMember(str(row["name"]), row.get("location"), ours)


@dataclass(frozen=True, slots=True)
class ConfigRecords:
    """Fills the kit's `RecordStore`: keys of the profile's config, `user.coterie-record-<n>: <policy> <acl> <acl>`."""

    limit = 100

    client: Client
    profiles: Profiles

    def list_records(self) -> list[GroupRecord]:
        rows = self.client.rows("list profiles", _PATH)
        return [record for row in rows for record in read_records(row)]

    def records_of(self, cid: str) -> list[GroupRecord]:
        row = self.profiles.read(profile_of(cid))
        return read_records(row) if row else []

    def require_room(self, cid: str) -> None:
        """Every server group has a profile for its own records."""

    def add_record(self, record: GroupRecord) -> None:
        found = read_group_cid(record.cid)
        if found is None:
            raise CpiError(f"{record.cid} is no server group of ours", remedy="use the CID that create answered")
        key, value = f"{RECORD}{record.number}", " ".join([record.policy or NO_POLICY, *record.security_groups])
        if record.policy is None:
            mark = Mark(self.client.director_uuid, found.intent)
            if self.profiles.create_row(record.cid, None, mark, **{key: value})[1]:
                return

        def add(row: Row) -> bool:
            before = row["config"].get(key)
            row["config"][key] = value
            return bool(before != value)

        if self.client.edit(f"record {record.cid}", f"{_PATH}/{record.cid}", add) is None:
            raise server_groups.group_missing(record.cid)

    def delete_records(self, records: Sequence[GroupRecord]) -> None:
        cid, going = records[0].cid, {f"{RECORD}{record.number}" for record in records}
        row = self.profiles.read(cid)
        if row is None:
            return
        if is_record_only(row) and not {key for key in row["config"] if key.startswith(RECORD)} - going:
            self.profiles.delete_named(cid)
            return

        def remove(row: Row) -> bool:
            left = {key: value for key, value in row["config"].items() if key not in going}
            changed = left != row["config"]
            row["config"] = left
            return bool(changed)

        self.client.edit(f"delete records of {cid}", f"{_PATH}/{cid}", remove)


def profile_of(cid: str) -> str:
    return cid.removeprefix(ADOPTED_PREFIX) if is_adopted(cid) else cid


def is_of(row: Row, director_uuid: str) -> bool:
    """Whether this Director made it for a server group: a copy has another name."""
    mark = mark_of(row)
    return mark is not None and mark.director == director_uuid and mark.group_cid == row["name"]


def is_record_only(row: Row) -> bool:
    return bool(row["config"].get(POLICY) == NO_POLICY)


def read_records(row: Row) -> list[GroupRecord]:
    found = []
    for key, value in row["config"].items():
        number, (policy, *acls) = key.removeprefix(RECORD), str(value).split() or [""]
        if key.startswith(RECORD) and number.isdecimal() and read_group_cid(str(row["name"])):
            kept = None if policy == NO_POLICY else policy
            found.append(GroupRecord(str(row["name"]), int(number), kept, tuple(acls)))
    return found


def _named(kind: str, row: Row | None) -> set[str]:
    """Users of this kind that it lists."""
    used = [str(one).partition("?")[0] for one in (row or {}).get("used_by") or ()]
    return {one.rpartition("/")[2] for one in used if f"/{kind}/" in one}


def _own_path(name: str) -> str:
    """Names of operators may have slashes."""
    return f"{_OWN_PATH}/{quote(name, safe='')}"


def _own_policy(row: Row) -> str | None:
    """That which a placement group of LXD is for."""
    found = (policy for policy, own in _OWN_POLICIES.items() if own.items() <= row["config"].items())
    return next(found, None)


def acls_of(row: Row) -> list[str]:
    """Of all NICs of a VM."""
    nics = [one for one in (row.get("devices") or {}).values() if one.get("type") == "nic"]
    return [acl.strip() for nic in nics for acl in str(nic.get("security.acls") or "").split(",") if acl.strip()]


def exchange_acls(row: Row, old: Collection[str], new: Collection[str]) -> bool:
    changed = False
    for nic in (one for one in row["devices"].values() if one.get("type") == "nic" and one.get("network")):
        has = [one for one in str(nic.get("security.acls") or "").split(",") if one]
        wanted = list(dict.fromkeys([*(one for one in has if one not in set(old)), *new]))
        if wanted != has:
            changed = True
            nic["security.acls"] = ",".join(wanted)
            if not wanted:
                del nic["security.acls"]
    return changed


def _hosts_of(metadata: GroupMetadata) -> list[str]:
    """Without names, the members of the azs, which are cluster groups."""
    if metadata.policy != "host-affinity":
        return []
    return [str(one) for one in metadata.options.get("hosts") or [f"@{az}" for az in metadata.azs]]


def _without_hosts(metadata: GroupMetadata) -> GroupMetadata:
    return replace(metadata, options={key: one for key, one in metadata.options.items() if key != "hosts"})
