"""How VMs get into the DRS groups of a cluster and out of them. A change is submitted to the one writer of the cluster,
which reads, merges, writes once for all changes that wait, and reads again; only what is visible then is acknowledged.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from coterie.cpi.contract import (
    ADOPTED_PREFIX,
    Coordinator,
    CpiError,
    GroupInUse,
    GroupMissing,
    InvalidCall,
    Json,
    NameTaken,
    NoPlacement,
    OutcomeUnknown,
    VMNotFound,
    revive,
)
from coterie.cpi.drivers.vsphere import sdk
from coterie.cpi.drivers.vsphere.client import Client, Row
from coterie.cpi.drivers.vsphere.drs import Clusters, ClusterView, DrsGroup, Edit, Edits, MemberChange, plan_edits
from coterie.cpi.drivers.vsphere.group_records import GroupRecord, GroupRecords, GroupSpec, group_missing
from coterie.cpi.drivers.vsphere.inventory import ZONE, Attributes, Inventory, vm_mark
from coterie.cpi.drivers.vsphere.placement import ZONED, ZoneCluster
from coterie.cpi.drivers.vsphere.sdk import Refusal, contract_error
from coterie.cpi.kit.marking import GROUP
from coterie.errors import CoterieError
from coterie.slotted import dataclass, replace

_TRIES = 6
_PLANS = 8  # of one attempt: two where a rule follows a group, one more whenever another client was faster
_PAUSE_S = 0.05
# another client was faster, or something went away between our read and our write: read again
_REPEATED = ("ConcurrentAccess", "TaskInProgress", "ResourceInUse", "ManagedObjectNotFound", "InvalidArgument")
_NOT_KEPT = CpiError(
    "the change of the DRS groups did not last",
    why="another writer replaced the list of members, or the vCenter did not show it",
    remedy="find out who else writes these groups, then repeat",
    retryable=True,
)


@dataclass(frozen=True, slots=True)
class Membership:
    """`submit`: hands a change to the writer of a domain, and returns its outcome."""

    inventory: Inventory
    attributes: Attributes
    clusters: Clusters
    records: GroupRecords
    submit: Callable[[str, Json], Json]

    def requested_group(self, env: Mapping[str, Any], vm_group: str | None = None) -> str | None:
        """The CID in env.bosh.server_group_cid, or that of the administrator's group in cloud_properties.vm_group."""
        cid = (env.get("bosh") or {}).get("server_group_cid")
        if cid and vm_group:
            raise InvalidCall(
                f"cloud_properties.vm_group {vm_group!r} beside a server group",
                why="a VM is in one group that Coterie keeps",
                remedy="leave out vm_group, or say placement.vm_group and placement.adopt: true instead",
            )
        cid = cid or (f"{ADOPTED_PREFIX}{vm_group}" if vm_group else None)
        return str(cid) if cid else None

    def list_joinable(self, cid: str | None, clusters: Sequence[ZoneCluster]) -> list[ZoneCluster]:
        """Those of a zone's clusters in which a VM can join this group and that of the zone. Where there is none, it is
        refused before a VM is created."""
        spec = self.records.require(cid).spec if cid else None
        hosts = clusters[0].settings.host_group if clusters else None
        if not clusters or not (hosts or (spec and spec.adopted)):
            return list(clusters)
        views, where = self.clusters.views(), ", ".join(one.name for one in clusters)
        found = [one for one in clusters if not hosts or views[one.key].host_group(hosts)]
        if not found:
            raise NoPlacement(
                f"cluster {where} has no host group {hosts!r}, which zone {clusters[0].zone} names",
                remedy="have the administrator make it, or take host_group out of the zone",
            )
        found = [one for one in found if not (spec and spec.adopted) or views[one.key].vm_group(spec.name)]
        if not found and spec:
            why = f"a VM of zone {clusters[0].zone} cannot join it"
            remedy = "have the operator make it there, or use another zone"
            raise GroupMissing(f"cluster {where} has no DRS VM group {spec.name!r}", why=why, remedy=remedy)
        return found

    def join(self, cid: str | None, machine: Any, zone: str | None = None) -> None:
        """Returns when the VM is seen in its group, and in that of its zone, in the cluster that it is in."""
        of_zone = self.records.zones.get(zone or "")
        if of_zone:
            self.attributes.write(machine, {ZONE: of_zone.cid})
            self.request_change(self.inventory.cluster_of(machine), "restore", of_zone.cid, machine)
        if cid:
            self.attributes.write(machine, {GROUP: cid})
            self.request_change(self.inventory.cluster_of(machine), "join", cid, machine)

    def leave(self, machine: Any, *cids: str | None) -> None:
        """Returns when the VM is seen out of these groups; a VM without one costs no call."""
        cluster = self.inventory.cluster_of(machine) if any(cids) else None
        if cluster is None:
            return
        view = self.clusters.view(cluster)
        for cid in filter(None, cids):
            record = self.records.find(cid) or read_record(self.records, view, cid, cluster)
            rule = view.vm_rule(record.spec) if record else None
            if record and machine._moId in (*view.members(record.spec), *(rule.vms if rule else ())):
                self.request_change(cluster, "leave", cid, machine)

    def move(self, vm_cid: str, cid: str | None) -> None:
        """A running VM changes its group: first into the new one, then out of the old one, and only then is it written
        down. After a crash in between it is repeated; where the new group cannot be joined, the VM is where it was."""
        machine = self.inventory.require_vm(vm_cid)
        attributes = self.attributes.read(machine)
        if cid is not None:
            cluster = self.inventory.cluster_of(machine)
            if cluster is None:
                raise CpiError(f"VM {vm_cid} is in no cluster", remedy="move it into a cluster of this cloud")
            self.records.require(cid)
            self.request_change(cluster, "join", cid, machine)
        if attributes.get(GROUP) not in (None, "", cid):
            self.leave(machine, attributes.get(GROUP))
        if attributes.get(GROUP, "") != (cid or ""):
            self.attributes.write(machine, {GROUP: cid or ""})

    def request_change(self, cluster: Any, op: str, cid: str, machine: Any = None) -> None:
        change = {"op": op, "group": cid, "vm": machine._moId if machine is not None else ""}
        outcome = self.submit(self.clusters.domain(cluster), change)
        if not outcome.get("ok"):
            raise revive(outcome.get("error") or {})


def list_belonging(inventory: Inventory, attributes: Attributes, cid: str) -> list[Row]:
    """Our VMs that belong to a group, whether or not the vCenter has them in it."""
    rows = inventory.list_machines("vms", None, "name", "config.instanceUuid", "runtime.powerState", *ZONED)
    return [row for row in rows if cid in _groups_of(attributes.by_name(row.get("customValue")))]


def _groups_of(attributes: Mapping[str, str]) -> tuple[str | None, str | None]:
    return attributes.get(GROUP), attributes.get(ZONE)


def read_record(records: GroupRecords, view: ClusterView, cid: str, cluster: Any) -> GroupRecord | None:
    """A group whose folder is gone, as the ledger, the DRS group and its rules tell it in this cluster."""
    spec = view.read_back(cid, records.names_in_ledger(cid, cluster))
    return GroupRecord(cid, None, spec, frozenset([cluster._moId])) if spec is not None else None


@dataclass(slots=True)
class Change:
    """One submitted change, and its outcome once that is certain. `vm` empty: of all VMs that belong to the group."""

    op: str
    cid: str
    vm: str
    outcome: Json | None = None

    @property
    def joins(self) -> bool:
        return self.op in ("join", "restore")

    def refuse(self, error: CpiError) -> None:
        self.outcome = {"ok": False, "error": error.facts()}


@dataclass(frozen=True, slots=True)
class GroupBatch:
    """One server group's part of a batch. `known`: the group was made in this cluster."""

    record: GroupRecord
    members: MemberChange
    changes: list[Change]
    known: bool
    names: Mapping[str, str]  # of the VMs, by id


@dataclass(frozen=True, slots=True)
class ClusterWriter:
    """Writes the groups and rules of a cluster. Only the coordinator calls `apply`; its `hold` renews the lease
    right before a write, or raises."""

    client: Client
    inventory: Inventory
    attributes: Attributes
    clusters: Clusters
    records: GroupRecords
    director_uuid: str
    coordinator: Coordinator
    report: Callable[[str, str], None]

    def apply(self, domain: str, submitted: Sequence[Json]) -> list[Json]:
        """The outcome of each change."""
        cluster = self.clusters.of_domain(domain)
        changes = [Change(one["op"], one["group"], one["vm"]) for one in submitted]
        _refuse_overtaken(changes)
        self.clusters.wait_until_idle(cluster)
        failure = _NOT_KEPT
        for attempt in range(_TRIES):
            waiting = [change for change in changes if change.outcome is None]
            if not waiting:
                break
            time.sleep(_PAUSE_S * attempt)
            try:
                self._attempt(cluster, waiting)
            except Refusal as refusal:
                failure = contract_error(refusal)
                if not refusal.is_a(*_REPEATED):
                    break
            except OutcomeUnknown:
                continue  # the next read shows whether it was written
            except GroupInUse as error:
                failure = error
                break
        return [change.outcome or {"ok": False, "error": failure.facts()} for change in changes]

    def _attempt(self, cluster: Any, waiting: Sequence[Change]) -> None:
        """Read, write once for all, read again, and acknowledge what is visible; the others are tried again."""
        view, batches = self.clusters.view(cluster), list[GroupBatch]()
        for _ in range(_PLANS):
            open_changes = [change for change in waiting if change.outcome is None]
            batches, edits = self._judge_all(view, cluster, open_changes), Edits()
            for batch in batches:
                plan_edits(view, batch.members, edits)
            part = edits.first or edits.then
            if not part:
                break
            self._note(batches, part, cluster)
            view = self._write_unless_changed(cluster, view, batches, part)
        for batch in batches:
            if view.vm_group(batch.record.spec.name) is not None:
                self.records.note_live(batch.record, cluster)
            self._acknowledge(view, batch)

    def _judge_all(self, view: ClusterView, cluster: Any, waiting: Sequence[Change]) -> list[GroupBatch]:
        """Each group's part of the batch; a change that is impossible is refused."""
        batches = []
        for cid in dict.fromkeys(change.cid for change in waiting):
            changes = [change for change in waiting if change.cid == cid]
            try:
                batches.append(_refuse_impossible(view, self._judge(view, cluster, cid, changes)))
            except (GroupMissing, NameTaken) as error:
                for change in changes:
                    change.refuse(error)
        return batches

    def _judge(self, view: ClusterView, cluster: Any, cid: str, changes: list[Change]) -> GroupBatch:
        """What the changes of one group come to; raises where none of them is possible."""
        joins = any(change.joins for change in changes)
        record = self.records.require(cid) if joins else self.records.find(cid)
        record = record or read_record(self.records, view, cid, cluster) or GroupRecord(cid, None, GroupSpec(None, cid))
        rule, present = view.vm_rule(record.spec), set(view.members(record.spec))
        leaving = {change.vm for change in changes if change.op == "leave"}
        joining = {change.vm for change in changes if change.joins and change.vm}
        joining |= self._list_missing(view, cluster, record, changes) - leaving
        named = present | joining | set(rule.vms if rule else ())
        rows = self._read_vms(named)
        existing, ours = set(rows), {moid for moid, row in rows.items() if self._is_ours(cid, row)}
        gone = frozenset(named - existing)
        known = cluster._moId in record.live or bool(ours & present - joining)
        known = known or (cluster._moId in record.making and present <= ours | gone)
        members = MemberChange(
            record.spec,
            joining=frozenset(joining & existing),
            leaving=frozenset(leaving),
            gone=gone,
            ours=frozenset(ours),
            owned=view.owned_rules(cid, record.spec, gone | ours | leaving, known),
            untie=any(change.op == "untie" for change in changes),
            mend=any(change.op == "restore" for change in changes),
            delete=any(change.op == "delete" for change in changes),
        )
        names = {moid: str(row.get("name")) for moid, row in rows.items()}
        batch = GroupBatch(record, members, changes, known, names)
        if joining:
            _require_joinable(view, cluster, batch)
        return batch

    def _list_missing(self, view: ClusterView, cluster: Any, record: GroupRecord, changes: list[Change]) -> set[str]:
        """All VMs of a group that is repaired; those that run of a zone's group that was removed."""
        repaired = any(change.joins and not change.vm for change in changes)
        removed = self.records.of_zone(record.cid) and not view.vm_group(record.spec.name)
        if not repaired and not (removed and any(change.joins for change in changes)):
            return set()
        rows = list_belonging(self.inventory, self.attributes, record.cid)
        where = self.clusters.placement.clusters_of(rows)
        here = [row for row in rows if row.ref in where and where[row.ref].ref == cluster]
        return {row.ref._moId for row in here if repaired or row.get("runtime.powerState") == "poweredOn"}

    def _note(self, batches: Sequence[GroupBatch], part: Sequence[Edit], cluster: Any) -> None:
        """Before a group comes or goes, its record says that it may be there, or absent: a process that dies in
        between leaves no group of unknown origin and no false alarm."""
        changed = {(op, one.name) for op, one in part if isinstance(one, DrsGroup)}
        for batch in batches:
            if ("add", batch.record.spec.name) in changed:
                self.records.note_making(batch.record, cluster)
            if ("remove", batch.record.spec.name) in changed:
                self.records.note_reserved(batch.record, cluster)

    def _write_unless_changed(
        self, cluster: Any, planned: ClusterView, batches: Sequence[GroupBatch], part: Sequence[Edit]
    ) -> ClusterView:
        """What is there after the write; or, where another client has changed one of these groups since they were
        read, what is there now, and nothing is written: planning again keeps what that client wrote."""
        self.coordinator.hold(self.clusters.domain(cluster))
        base = self.clusters.view(cluster)
        specs = [batch.record.spec for batch in batches]
        if any(base.about(spec) != planned.about(spec) for spec in specs):
            return base
        seen = self.clusters.write(cluster, part)
        after = self.clusters.view(cluster)
        restored = [edit for op, one in part if isinstance(one, DrsGroup) for edit in _put_back(one, base, seen, after)]
        if not restored:
            return after
        what = "; ".join(self._describe(one, after) for _, one in restored if isinstance(one, DrsGroup))
        try:
            self.coordinator.hold(self.clusters.domain(cluster))
            self.clusters.write(cluster, restored)
        except CoterieError as error:
            self.report(
                "group.overwritten", f"{what}: our write took that back, and it could not be repeated ({error})"
            )
            raise
        self.report("group.restored", f"{what}: our write took that back, and it was put back")
        return self.clusters.view(cluster)

    def _describe(self, wanted: DrsGroup, after: ClusterView) -> str:
        """What another client had changed in a group."""
        group = after.vm_group(wanted.name)
        present, members = set(group.members if group else ()), set(wanted.members)
        names = {moid: str(row.get("name")) for moid, row in self._read_vms(present ^ members).items()}
        changes = [("added", members - present), ("took out", present - members)]
        told = [f"{verb} {', '.join(sorted(names.get(vm, vm) for vm in some))}" for verb, some in changes if some]
        return f"another client {' and '.join(told)} in DRS group {wanted.name!r} of cluster {after.name}"

    def _acknowledge(self, view: ClusterView, batch: GroupBatch) -> None:
        visible = [one for one in batch.changes if one.outcome is None and _is_visible(view, batch.members, one)]
        cid = batch.record.cid
        deleted = any(change.joins for change in visible) and self.records.find(cid) is None
        for change in visible:
            if deleted and change.joins:
                change.refuse(group_missing(cid, "it was deleted while VMs joined it"))
            else:
                change.outcome = {"ok": True}

    def _read_vms(self, moids: set[str]) -> dict[str, Row]:
        """Those of these VMs that exist."""
        refs = [self.client.reference(sdk.vim.VirtualMachine, moid) for moid in sorted(moids)]
        paths = ["name", "config.instanceUuid", "customValue"]
        return {row.ref._moId: row for row in self.client.read_existing(refs, sdk.vim.VirtualMachine, paths)}

    def _is_ours(self, cid: str, row: Row) -> bool:
        """By its mark; one that was renamed, by the group that is written on it."""
        if vm_mark(str(row.get("name")), str(row.get("config.instanceUuid")), self.director_uuid):
            return True
        return cid in _groups_of(self.attributes.by_name(row.get("customValue")))


def _require_joinable(view: ClusterView, cluster: Any, batch: GroupBatch) -> None:
    """Raises where no VM can join this group here."""
    record, spec = batch.record, batch.record.spec
    group = view.vm_group(spec.name)
    restores = any(change.op == "restore" for change in batch.changes)
    if group is None and spec.adopted:
        raise group_missing(record.cid, f"cluster {view.name} has no DRS VM group {spec.name!r}")
    if group is None and cluster._moId in record.live and not restores:
        raise group_missing(record.cid, f"its DRS VM group {spec.name!r} was removed or renamed in {view.name}")
    if group is not None and not (record.cid in spec.name or spec.adopted or batch.known):
        raise NameTaken(
            f"cluster {view.name} has a DRS group {spec.name!r} that is not ours",
            remedy="use another vm_group, or say placement.adopt: true to use it",
        )
    taken = view.conflicts(spec, batch.members.owned)
    if taken:
        raise NameTaken(
            f"cluster {view.name} has a DRS rule {taken[0]!r} that is not ours",
            why="it was not made by us, or has VMs of others in it",
            remedy="use another vm_group, or have the administrator rename the rule or take their VMs out of it",
        )


def _refuse_impossible(view: ClusterView, batch: GroupBatch) -> GroupBatch:
    """VMs that are gone join nothing; a group that is in use is not deleted, and then nothing of it is changed."""
    for change in batch.changes:
        if change.joins and change.vm in batch.members.gone:
            change.refuse(VMNotFound(f"VM {change.vm} is gone and joins nothing", remedy="create it again"))
    users = _list_users(view, batch)
    deletes = [change for change in batch.changes if change.op == "delete"]
    if not users or not deletes:
        return batch
    for change in deletes:
        change.refuse(
            GroupInUse(
                f"server group {change.cid} is kept in cluster {view.name}",
                why=f"used by {', '.join(users[:5])}",
                remedy="delete our VMs first; have the administrator take foreign VMs and rules off the group",
                details={"foreign_only": not batch.members.ours & set(view.members(batch.record.spec))},
            )
        )
    if len(deletes) < len(batch.changes):
        return batch
    return replace(batch, members=MemberChange(batch.record.spec, ours=batch.members.ours))


def _list_users(view: ClusterView, batch: GroupBatch) -> list[str]:
    """VMs and rules that need the group. Where it was never made, nothing can be using it, whatever its name."""
    members, spec = batch.members, batch.record.spec
    rules = view.conflicts(spec, members.owned) if batch.known else []
    vms: list[str] = []
    if view.vm_group(spec.name) is not None:
        vms = [*members.stay(view.members(spec)), *sorted(members.joining)]
    named = [f"{batch.names.get(vm, vm)} ({'ours' if vm in members.ours else 'foreign'})" for vm in vms]
    return list(dict.fromkeys([*named, *(f"the rule {name!r}" for name in rules)]))


def _is_visible(view: ClusterView, members: MemberChange, change: Change) -> bool:
    spec, rule, present = members.spec, view.vm_rule(members.spec), view.members(members.spec)
    if change.joins:
        vms = {change.vm} if change.vm else members.joining
        return vms <= set(present) and (rule is None or vms <= set(rule.vms))
    if change.op == "leave":
        return change.vm not in present
    if change.op == "untie":
        return spec.host_rule not in members.owned or spec.host_rule not in view.rules
    return view.vm_group(spec.name) is None


def _put_back(written: DrsGroup, base: ClusterView, seen: Sequence[ClusterView], after: ClusterView) -> list[Edit]:
    """What another client changed in a group between our last look and our write, which replaced its list. `seen`:
    read while the vCenter wrote; the last one without our own change has theirs."""

    def members(view: ClusterView) -> set[str]:
        group = view.vm_group(written.name)
        return set(group.members) if group else set()

    before, ours = members(base), set(written.members)
    coming, going = ours - before, before - ours
    theirs = [found for view in seen if not coming <= (found := members(view)) or going & found]
    added = theirs[-1] - before - ours if theirs else set()
    dropped = (before - theirs[-1]) & ours if theirs else set()
    group, present = after.vm_group(written.name), members(after)
    wanted = (present | added) - dropped
    if wanted == present:
        return []
    if group is None:
        return [("add", replace(written, members=tuple(sorted(wanted))))]
    stay = [vm for vm in group.members if vm in wanted]
    return [("edit", replace(group, members=(*stay, *sorted(wanted - present))))]


def _refuse_overtaken(changes: Sequence[Change]) -> None:
    """Of a join and a leave of the same VM the later one counts; the earlier was left by a process that died."""
    last = {(change.cid, change.vm): change.joins for change in changes}
    for change in changes:
        if change.vm and last[change.cid, change.vm] != change.joins:
            change.refuse(
                CpiError(
                    f"VM {change.vm} does not {change.op} {change.cid}",
                    why="the opposite was requested later",
                    remedy="repeat, if it is still wanted",
                    retryable=True,
                )
            )
