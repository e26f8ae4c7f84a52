"""Server groups: reserved by a record before their first VM, made as DRS VM groups by the first join, removed after the
last leave; adopted, inspected and listed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from coterie.cpi.contract import (
    ADOPTED_PREFIX,
    CloudObject,
    GroupMember,
    GroupMetadata,
    GroupMissing,
    GroupResource,
    GroupState,
    GroupView,
    InvalidCall,
    Mark,
    NameTaken,
    NotSupported,
    is_adopted,
)
from coterie.cpi.drivers.vsphere import sdk
from coterie.cpi.drivers.vsphere.client import Client, Row
from coterie.cpi.drivers.vsphere.drs import Clusters, ClusterView
from coterie.cpi.drivers.vsphere.group_records import (
    HOSTS,
    GroupRecord,
    GroupRecords,
    GroupSpec,
    read_spec,
    requested_name,
)
from coterie.cpi.drivers.vsphere.inventory import ZONE, Attributes, Inventory, vm_mark
from coterie.cpi.drivers.vsphere.membership import Membership, list_belonging, read_record
from coterie.cpi.drivers.vsphere.placement import Placement, ZoneCluster
from coterie.cpi.kit.marking import read_mark_name
from coterie.slotted import dataclass

_MEMBER = ("name", "config.instanceUuid", "runtime.host")
Views = Mapping[str, ClusterView]


@dataclass(frozen=True, slots=True)
class _GroupInCluster:
    cluster: ZoneCluster
    view: ClusterView
    record: GroupRecord

    @property
    def members(self) -> tuple[str, ...]:
        return self.view.members(self.record.spec)


@dataclass(frozen=True, slots=True)
class ServerGroups:
    client: Client
    inventory: Inventory
    placement: Placement
    attributes: Attributes
    clusters: Clusters
    records: GroupRecords
    membership: Membership
    director_uuid: str

    def create(self, metadata: GroupMetadata, mark: Mark) -> str:
        spec = read_spec(metadata, mark.group_cid)
        views = self.clusters.views()
        if metadata.options.get("adopt"):
            return _adopt(metadata, views)
        if self.records.find(mark.group_cid) is None:
            self.require_free_name(metadata.options, spec, views)
            _require_host_group(spec, views)
            self.records.create(mark.group_cid, spec)
        return mark.group_cid

    def update(self, cid: str, metadata: GroupMetadata) -> None:
        """Zones and hosts may change freely; members that another writer dropped come back; what was removed is made
        again."""
        if is_adopted(cid):
            self._restore_members(cid)
            return
        spec = read_spec(metadata, cid)
        record = self.records.find(cid) or self._write_record(cid, spec)
        if not spec.is_same_group(record.spec):
            raise NotSupported(
                f"server group {cid} keeps its policy {record.spec.policy} and its name for life",
                remedy="recreate the group",
            )
        if spec != record.spec:
            self._change_hosts(record, spec)
        self._restore_members(cid)

    def delete(self, cid: str) -> None:
        record = self.records.find(cid, unfinished=True)
        if is_adopted(cid):
            return
        if record is not None and record.ref is not None:
            self.records.require_no_vms(record.ref)
        for one in self.clusters.unique().values():
            view = self.clusters.view(one.ref)
            here = record or read_record(self.records, view, cid, one.ref)
            name = here.spec.name if here else ""
            if here and (view.vm_group(name) or {name, here.spec.host_rule} & set(view.rules) or view.tying(name)):
                self.membership.request_change(one.ref, "delete", cid)
        if record is not None:
            self.records.delete(record)
        else:
            self.records.remove_empty_folders()  # a process that removed the record may have died before that

    def inspect(self, cid: str) -> GroupView:
        record = self.records.find(cid)
        if record is None:
            folder = "/".join((*self.inventory.path("groups"), cid))
            return GroupView("missing", None, notes=(f"the folder {folder} was deleted; a repair makes it again",))
        views, spec = self.clusters.views(), record.spec
        everywhere = [_GroupInCluster(one, views[key], record) for key, one in self.clusters.unique().items()]
        groups = [one for one in everywhere if one.view.vm_group(spec.name)]
        members, belonging = (
            self._read_members([moid for one in groups for moid in one.members]),
            self.list_belonging(cid),
        )
        removed = [] if spec.adopted else list(_removed_notes(everywhere))
        absent = _absent_notes(belonging, {moid for one in groups for moid in one.members}, "the group")
        notes = [*removed, *_drift_notes(groups, members), *absent, *self.zone_notes(belonging, views)]
        return GroupView(
            state=_state(spec, bool(groups), removed, notes),
            policy=groups[0].view.policy(spec.name) if spec.adopted and groups else spec.policy,
            resources=tuple(resource for one in groups for resource in _resources(one)),
            members=tuple(members[moid] for one in groups for moid in one.members if moid in members),
            notes=(*notes, *(note for one in groups for note in _remarks(one))),
            hosts=self._allowed_hosts(groups),
        )

    def list_objects(self, director_uuid: str) -> list[CloudObject]:
        """Those with a folder, and those of which only DRS groups or rules are left."""
        records = self.records.list_all(director_uuid)
        views = self.clusters.views()
        known = {record.cid for record in records}
        # that of a zone goes with the last VM in it
        known |= {
            one.cid for one in self.records.zones.values() if any(view.members(one.spec) for view in views.values())
        }
        left: dict[str, GroupRecord] = {}
        for view in views.values():
            for name in (*view.groups, *view.rules):
                cid = name.removesuffix(HOSTS).rpartition(".")[2]
                spec = view.read_back(cid) if read_mark_name(cid, director_uuid) and cid not in known else None
                if spec is not None:
                    left.setdefault(cid, GroupRecord(cid, None, spec))
        return [self._object(record, views, director_uuid) for record in (*records, *left.values())]

    def find_object(self, cid: str, director_uuid: str) -> CloudObject | None:
        if is_adopted(cid):
            return None
        record, views = self.records.find(cid, director_uuid, unfinished=True), self.clusters.views()
        for key, view in views.items() if record is None else ():
            record = record or read_record(self.records, view, cid, self.placement.clusters[key].ref)
        return self._object(record, views, director_uuid) if record is not None else None

    def require_free_name(self, options: Mapping[str, Any], spec: GroupSpec, views: Views) -> None:
        """For a group that is not there yet."""
        ours = self.records.list_all(self.director_uuid) if "vm_group" in options else ()
        other = next((one for one in ours if one.spec.name == spec.name), None)
        if other is not None:
            raise NameTaken(f"our server group {other.cid} has the name {spec.name!r}", remedy="use another vm_group")
        name = requested_name(options)
        for view in views.values() if name else ():
            if name in view.groups:
                raise NameTaken(
                    f"cluster {view.name} has a DRS group {name!r} that is not ours",
                    remedy="use another name, or say placement.adopt: true to use the operator's group",
                )
            _require_no_rule(view, str(name), GroupSpec(None, str(name)).host_rule)

    def require_free_host_rule(self, record: GroupRecord, spec: GroupSpec, views: Views) -> None:
        """For a group that is to be tied to hosts only now: a rule of that name cannot be ours."""
        if record.spec.host_group or not spec.host_group or record.cid in spec.name:
            return
        for view in views.values():
            _require_no_rule(view, spec.host_rule)

    def _change_hosts(self, record: GroupRecord, spec: GroupSpec) -> None:
        """Tie the group to other hosts, or to none. Only while the old spec is recorded is the old rule known to be
        ours: a rule that the new spec does not have is removed first."""
        views = self.clusters.views()
        _require_host_group(spec, views)
        self.require_free_host_rule(record, spec, views)
        for key, view in views.items() if not spec.host_group else ():
            if view.host_rule(record.spec):
                self.membership.request_change(self.placement.clusters[key].ref, "untie", record.cid)
        self.records.rewrite(record, spec)

    def _write_record(self, cid: str, spec: GroupSpec) -> GroupRecord:
        """Of a group whose folder was deleted: the ledger has what was requested, the clusters what was made."""
        made, views = [], self.clusters.views()
        belonging = {row.ref._moId for row in self.list_belonging(cid)}
        for key, view in views.items():
            cluster = self.placement.clusters[key].ref
            ours = cid in spec.name or spec.name in self.records.names_in_ledger(cid, cluster)
            if view.vm_group(spec.name) and (ours or belonging & set(view.members(spec))):
                made.append(cluster)
            elif view.vm_group(spec.name):
                raise NameTaken(
                    f"cluster {view.name} has a DRS group {spec.name!r} that is not ours",
                    remedy="have the administrator rename or remove it, or give another vm_group",
                )
        self.records.create(cid, spec)
        record = self.records.require(cid)
        for cluster in made:
            self.records.note_live(record, cluster)
        return self.records.require(cid)

    def zone_notes(self, machines: Sequence[Row], views: Views) -> list[str]:
        """What is not as it was made with the groups of the zones that these VMs are in."""
        notes = []
        for record, cluster, rows in self._by_zone(machines):
            one = _GroupInCluster(cluster, views[cluster.key], record)
            if one.view.vm_group(record.spec.name) is None:
                notes.append(_removed_note(one))
            else:
                notes += [*_host_rule_notes(one), *_absent_notes(rows, set(one.members), f"zone {cluster.zone}")]
        return notes

    def _restore_members(self, cid: str) -> None:
        """In the group, and in those of their zones."""
        belonging = self.list_belonging(cid)
        clusters = {one.ref._moId: one.ref for one in self.placement.clusters_of(belonging).values()}
        for cluster in clusters.values():
            self.membership.request_change(cluster, "restore", cid)
        for record, one, _ in self._by_zone(belonging):
            self.membership.request_change(one.ref, "restore", record.cid)

    def _by_zone(self, machines: Sequence[Row]) -> list[tuple[GroupRecord, ZoneCluster, list[Row]]]:
        """Those of these VMs that were put into the group of a zone, by cluster."""
        found: dict[tuple[str, str], tuple[GroupRecord, ZoneCluster, list[Row]]] = {}
        clusters = self.placement.clusters_of(machines)
        for row in machines:
            record = self.records.of_zone(self.attributes.by_name(row.get("customValue")).get(ZONE, ""))
            if record is not None and row.ref in clusters:
                one = clusters[row.ref]
                found.setdefault((record.cid, one.name), (record, one, []))[2].append(row)
        return list(found.values())

    def list_belonging(self, cid: str) -> list[Row]:
        return list_belonging(self.inventory, self.attributes, cid)

    def _read_members(self, moids: list[str]) -> dict[str, GroupMember]:
        refs = [self.client.reference(sdk.vim.VirtualMachine, moid) for moid in moids]
        rows = self.client.read_existing(refs, sdk.vim.VirtualMachine, _MEMBER)
        hosts = self.inventory.host_names([row.get("runtime.host") for row in rows])
        members = {}
        for row in rows:
            uuid, host = str(row.get("config.instanceUuid")), hosts.get(row.get("runtime.host"))
            ours = vm_mark(str(row.get("name")), uuid, self.director_uuid) is not None
            members[row.ref._moId] = GroupMember(uuid, host, ours)
        return members

    def _allowed_hosts(self, groups: list[_GroupInCluster]) -> tuple[str, ...] | None:
        """The hosts that rules tie the group to, ours or the administrator's; None where there is no such rule."""
        refs: list[Any] = []
        for one in groups:
            moids = _tied_hosts(one)
            if moids is None:
                return None
            refs += [self.client.reference(sdk.vim.HostSystem, moid) for moid in moids]
        return tuple(sorted(self.inventory.host_names(refs).values())) if groups else None

    def _object(self, record: GroupRecord, views: Views, director_uuid: str) -> CloudObject:
        groups = [group for view in views.values() if (group := view.vm_group(record.spec.name))]
        moids = sorted({moid for group in groups for moid in group.members})
        return CloudObject(
            "server_group",
            record.cid,
            record.spec.name,
            mark=read_mark_name(record.cid, director_uuid),
            in_use_by=tuple(member.vm_cid for member in self._read_members(moids).values()),
            state="live" if groups else "reserved",
        )


def _adopt(metadata: GroupMetadata, views: Views) -> str:
    name = requested_name(metadata.options)
    if not name:
        raise InvalidCall("options.adopt needs options.vm_group or a name", remedy="name the operator's group")
    found = next(((view, group) for view in views.values() if (group := view.vm_group(name))), None)
    if found is None:
        raise GroupMissing(
            f"there is no DRS VM group {name!r} to adopt",
            why=f"looked in {', '.join(sorted(view.name for view in views.values()))}",
            remedy="have the operator make it, or leave adopt out to make one of our own",
        )
    view, group = found
    policy = view.policy(group.name)
    if metadata.policy != policy:
        raise InvalidCall(
            f"DRS VM group {name!r} promises {policy}, not {metadata.policy}",
            remedy=f"say placement.policy: {policy}, or adopt another group",
        )
    return ADOPTED_PREFIX + group.name


def _require_host_group(spec: GroupSpec, views: Views) -> None:
    if spec.host_group and not any(view.host_group(spec.host_group) for view in views.values()):
        known = sorted({group.name for view in views.values() for group in view.groups.values() if group.of_hosts})
        raise InvalidCall(
            f"there is no DRS host group {spec.host_group!r}",
            remedy=f"use one of: {', '.join(known)}" if known else "have the administrator make one",
        )


def _require_no_rule(view: ClusterView, *names: str) -> None:
    rule = next((one for one in names if one in view.rules), None)
    if rule is not None:
        raise NameTaken(f"cluster {view.name} has a DRS rule {rule!r} that is not ours", remedy="use another name")


def _state(spec: GroupSpec, is_made: bool, removed: list[str], notes: list[str]) -> GroupState:
    if removed or (spec.adopted and not is_made):
        return "missing"
    if notes:
        return "drifted"
    return "live" if is_made else "reserved"


def _removed_notes(everywhere: list[_GroupInCluster]) -> Iterator[str]:
    for one in everywhere:
        if one.cluster.ref._moId in one.record.live and one.view.vm_group(one.record.spec.name) is None:
            yield _removed_note(one)


def _removed_note(one: _GroupInCluster) -> str:
    return f"DRS VM group {one.record.spec.name!r} was removed or renamed in cluster {one.view.name}"


def _absent_notes(belonging: Sequence[Row], inside: set[str], where: str) -> Iterator[str]:
    """VMs of ours that are not where they belong; those still coming up are not counted."""
    for row in belonging:
        if row.ref._moId not in inside and row.get("runtime.powerState") == "poweredOn":
            vm = f"{row.get('name')} ({row.get('config.instanceUuid')})"
            yield f"VM {vm} is no member of {where} any more: another writer replaced the list"


def _drift_notes(groups: list[_GroupInCluster], members: Mapping[str, GroupMember]) -> Iterator[str]:
    for one in groups:
        if not one.record.spec.adopted:
            yield from _vm_rule_notes(one, members)
            yield from _host_rule_notes(one)
            if not one.view.drs:
                yield f"DRS is off in cluster {one.view.name}: groups and rules have no effect"


def _vm_rule_notes(one: _GroupInCluster, members: Mapping[str, GroupMember]) -> Iterator[str]:
    spec, name, where = one.record.spec, one.record.spec.name, f"in cluster {one.view.name}"
    rule, ours = one.view.vm_rule(spec), [vm for vm in one.members if vm in members and members[vm].ours]
    if not spec.has_vm_rule:
        return
    if rule is None:
        if len(ours) > 1:
            yield f"the rule {name!r} was removed {where}"
        return
    if rule.kind != spec.vm_rule_kind:
        yield f"the rule {name!r} keeps VMs {rule.kind}, not {spec.vm_rule_kind}, {where}"
    if rule.mandatory != spec.mandatory:
        yield f"the rule {name!r} is {_strictness(rule.mandatory)}, not {_strictness(spec.mandatory)}, {where}"
    if not rule.enabled:
        yield f"the rule {name!r} is switched off {where}"
    for vm in ours:
        if vm not in rule.vms:
            yield f"VM {members[vm].vm_cid} was taken out of the rule {name!r} {where}"


def _side(affine: bool) -> str:
    return "on" if affine else "off"


def _strictness(mandatory: bool) -> str:
    return "strict" if mandatory else "soft"


def _host_rule_notes(one: _GroupInCluster) -> Iterator[str]:
    spec = one.record.spec
    if not spec.host_group:
        return
    if one.view.host_group(spec.host_group) is None:
        yield f"cluster {one.view.name} has no host group {spec.host_group!r}"
        return
    rule, where = one.view.rules.get(spec.host_rule), f"in cluster {one.view.name}"
    what = f"the rule {spec.host_rule!r}"
    if rule is None:
        yield f"{what} was removed {where}"
        return
    if rule.kind != "hosts" or rule.vm_group != spec.name:
        yield f"{what} is about {rule.vm_group or 'VMs'}, not about the group {spec.name!r}, {where}"
        return
    host_group = one.view.host_group(spec.host_group)
    if host_group and rule.host_group != host_group.name:
        yield f"{what} names the host group {rule.host_group!r}, not {host_group.name!r}, {where}"
    if rule.affine != spec.affine:
        yield f"{what} keeps VMs {_side(rule.affine)} those hosts, not {_side(spec.affine)}, {where}"
    if rule.mandatory != (spec.rule == "must"):
        yield f"{what} says {'must' if rule.mandatory else 'should'}, not {spec.rule}, {where}"
    if not rule.enabled:
        yield f"{what} is switched off {where}"


def _tied_hosts(one: _GroupInCluster) -> set[str] | None:
    """The hosts that all rules in force allow."""
    rules = [rule for rule in one.view.tying(one.record.spec.name) if rule.affine and rule.enabled and rule.host_group]
    groups = [one.view.host_group(str(rule.host_group)) for rule in rules]
    tied = [set(group.members) for group in groups if group is not None]
    return set.intersection(*tied) if tied else None


def _remarks(one: _GroupInCluster) -> Iterator[str]:
    """What is as it should be and good to know."""
    if one.view.drs:
        yield f"DRS is on in cluster {one.view.name}"
    for rule in one.view.foreign_rules(one.record.spec):
        verb, side = "must" if rule.mandatory else "should", "on" if rule.affine else "off"
        yield f"administrator's rule {rule.name!r} in {one.view.name}: {verb} be {side} {rule.host_group!r}"


def _resources(one: _GroupInCluster) -> Iterator[GroupResource]:
    spec, view, zone = one.record.spec, one.view, one.cluster.zone
    ours = not spec.adopted
    yield GroupResource("server_group", f"{view.name}/{spec.name}", zone, ours)
    rule = view.vm_rule(spec)
    if rule is not None:
        yield GroupResource("rule", f"{view.name}/{rule.name}", zone, ours)
    for tying in view.tying(spec.name):
        yield GroupResource("rule", f"{view.name}/{tying.name}", zone, ours and tying.name == spec.host_rule)
        if tying.host_group:
            yield GroupResource("host_group", f"{view.name}/{tying.host_group}", zone, False)
