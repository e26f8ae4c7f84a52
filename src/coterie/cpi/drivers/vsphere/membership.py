"""How VMs get into the DRS groups of a cluster and out of them. A change is submitted to the one writer of the cluster,
which reads, merges, writes once for all changes that wait, and reads again; only what is visible then is acknowledged.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from coterie.cpi.contract import (
    Coordinator,
    CpiError,
    GroupInUse,
    GroupMissing,
    Json,
    NameTaken,
    OutcomeUnknown,
    VMNotFound,
    is_adopted,
    revive,
)
from coterie.cpi.drivers.vsphere import sdk
from coterie.cpi.drivers.vsphere.client import Client, Row
from coterie.cpi.drivers.vsphere.drs import Clusters, ClusterView, Edits, MemberChange, plan_edits
from coterie.cpi.drivers.vsphere.group_records import GroupRecord, GroupRecords, group_missing
from coterie.cpi.drivers.vsphere.inventory import Attributes, Inventory, vm_mark
from coterie.cpi.drivers.vsphere.sdk import Refusal, contract_error
from coterie.cpi.kit.marking import GROUP

JOINS = ("join", "restore")
_TRIES = 6
_PAUSE_S = 0.05
# another client was faster, or something went away between our read and our write: read again
_REPEATED = ("ConcurrentAccess", "TaskInProgress", "ResourceInUse", "ManagedObjectNotFound", "InvalidArgument")
_NOT_KEPT = CpiError(
    "the change of the DRS groups did not last",
    why="another writer replaced the list of members, or the vCenter did not show it",
    remedy="find out who else writes these groups, then repeat",
    retryable=True,
)


class Membership:
    """`submit`: hands a change to the writer of a domain, and returns its outcome."""

    def __init__(
        self,
        inventory: Inventory,
        attributes: Attributes,
        clusters: Clusters,
        records: GroupRecords,
        submit: Callable[[str, Json], Json],
    ) -> None:
        self._inventory = inventory
        self._attributes = attributes
        self._clusters = clusters
        self._records = records
        self._submit = submit

    def requested_group(self, env: Mapping[str, Any]) -> str | None:
        """The CID in env.bosh.server_group_cid; a group that is gone is refused before a VM is created for it."""
        cid = (env.get("bosh") or {}).get("server_group_cid")
        if not cid:
            return None
        name = self._records.require(cid).spec.name
        if is_adopted(cid) and not any(view.vm_group(name) for view in self._clusters.views().values()):
            raise GroupMissing(f"no cluster has a DRS VM group {name!r}", remedy="have the operator make it again")
        return str(cid)

    def join(self, cid: str, machine: Any) -> None:
        """Returns when the VM is seen in its group, in the cluster that it is in."""
        self._attributes.write(machine, {GROUP: cid})
        self.submit(self._inventory.cluster_of(machine), "join", cid, machine)

    def leave(self, machine: Any, attributes: Mapping[str, str]) -> None:
        """Returns when the VM is seen out of its group; a VM without one costs no call."""
        cid = attributes.get(GROUP)
        record = self._records.find(cid) if cid else None
        cluster = self._inventory.cluster_of(machine) if record else None
        if record is None or cluster is None:
            return
        view = self._clusters.view(cluster)
        rule = view.vm_rule(record.spec)
        if machine._moId in (*view.members(record.spec), *(rule.vms if rule else ())):
            self.submit(cluster, "leave", record.cid, machine)

    def move(self, vm_cid: str, cid: str | None) -> None:
        """A running VM changes its group: first into the new one, then out of the old one, and only then is it written
        down. After a crash in between it is repeated; where the new group cannot be joined, the VM is where it was."""
        machine = self._inventory.require_vm(vm_cid)
        attributes = self._attributes.read(machine)
        if cid is not None:
            cluster = self._inventory.cluster_of(machine)
            if cluster is None:
                raise CpiError(f"VM {vm_cid} is in no cluster", remedy="move it into a cluster of this cloud")
            self._records.require(cid)
            self.submit(cluster, "join", cid, machine)
        if attributes.get(GROUP) not in (None, "", cid):
            self.leave(machine, attributes)
        if attributes.get(GROUP, "") != (cid or ""):
            self._attributes.write(machine, {GROUP: cid or ""})

    def submit(self, cluster: Any, op: str, cid: str, machine: Any = None) -> None:
        change = {"op": op, "group": cid, "vm": machine._moId if machine is not None else ""}
        outcome = self._submit(self._clusters.domain(cluster), change)
        if not outcome.get("ok"):
            raise revive(outcome.get("error") or {})


@dataclass(frozen=True, slots=True)
class GroupBatch:
    """One server group's part of a batch. `refused`: by the number of the change."""

    record: GroupRecord
    change: MemberChange
    refused: dict[int, CpiError] = field(default_factory=dict)


class ClusterWriter:
    """Writes the groups and rules of a cluster. Only the coordinator calls `apply`; its `hold` renews the lease
    right before a write, or raises."""

    def __init__(
        self,
        client: Client,
        attributes: Attributes,
        clusters: Clusters,
        records: GroupRecords,
        director_uuid: str,
        coordinator: Coordinator,
    ) -> None:
        self._client = client
        self._attributes = attributes
        self._clusters = clusters
        self._records = records
        self._director_uuid = director_uuid
        self._coordinator = coordinator

    def apply(self, domain: str, changes: Sequence[Json]) -> list[Json]:
        """The outcome of each change."""
        cluster = self._clusters.of_domain(domain)
        outcomes = {index: _refusal(_overtaken(changes[index])) for index in _list_overtaken(changes)}
        self._clusters.wait_until_idle(cluster)
        failure = _NOT_KEPT
        for attempt in range(_TRIES):
            waiting = {index: change for index, change in enumerate(changes) if index not in outcomes}
            if not waiting:
                break
            time.sleep(_PAUSE_S * attempt)
            try:
                outcomes |= self._attempt(cluster, waiting)
            except Refusal as refusal:
                failure = contract_error(refusal)
                if not refusal.is_a(*_REPEATED):
                    break
            except OutcomeUnknown:
                continue  # the next read shows whether it was written
            except GroupInUse as error:
                failure = error
                break
        return [outcomes.get(index) or _refusal(failure) for index in range(len(changes))]

    def _attempt(self, cluster: Any, waiting: dict[int, Json]) -> dict[int, Json]:
        """Read, write once, read again; the outcomes that are certain now."""
        view = self._clusters.view(cluster)
        batches, outcomes = self._judge_all(view, cluster, waiting)
        edits = Edits()
        for batch in batches:
            plan_edits(view, batch.change, edits)
        if edits.first or edits.then:
            view = self._write(cluster, batches, edits)
        for batch in batches:
            if view.vm_group(batch.change.spec.name) is not None:
                self._records.note_live(batch.record, cluster)
            open_changes = {index: change for index, change in waiting.items() if index not in outcomes}
            outcomes |= self._acknowledge(view, batch, _of_group(open_changes, batch.record.cid))
        return outcomes

    def _judge_all(
        self, view: ClusterView, cluster: Any, waiting: dict[int, Json]
    ) -> tuple[list[GroupBatch], dict[int, Json]]:
        """Each group's part of the batch, and the outcomes of those that are refused."""
        batches: list[GroupBatch] = []
        outcomes: dict[int, Json] = {}
        for cid in dict.fromkeys(change["group"] for change in waiting.values()):
            changes = _of_group(waiting, cid)
            batch = self._judge(view, cluster, cid, changes)
            if isinstance(batch, CpiError):
                outcomes |= dict.fromkeys(changes, _refusal(batch))
                continue
            outcomes |= {index: _refusal(error) for index, error in batch.refused.items()}
            batches.append(batch)
        return batches, outcomes

    def _judge(self, view: ClusterView, cluster: Any, cid: str, changes: dict[int, Json]) -> GroupBatch | CpiError:
        """What the changes of one group come to; an error if none of them is possible."""
        record = self._records.find(cid)
        if record is None:
            return group_missing(cid, "nothing in the vCenter remembers it")
        rule = view.vm_rule(record.spec)
        present, joining, leaving = set(view.members(record.spec)), _vms(changes, *JOINS), _vms(changes, "leave")
        named = present | joining | set(rule.vms if rule else ())
        existing, ours = self._read_vms(cid, named)
        gone = frozenset(named - existing)
        known = cluster._moId in record.live or bool(ours & present - joining)
        known = known or (cluster._moId in record.making and present <= ours | gone)
        change = MemberChange(
            record.spec,
            joining=frozenset(joining & existing),
            leaving=frozenset(leaving),
            gone=gone,
            ours=frozenset(ours),
            owned=view.owned_rules(cid, record.spec, gone | ours | leaving, known),
            untie=any(one["op"] == "untie" for one in changes.values()),
        )
        restores = any(one["op"] == "restore" for one in changes.values())
        closed = _closed(view, cluster, record, change, known, restores) if joining else None
        return closed or _batch(view, record, change, known, changes)

    def _write(self, cluster: Any, batches: Sequence[GroupBatch], edits: Edits) -> ClusterView:
        """Before a group comes or goes, its record says that it may be there, or absent: a process that dies in
        between leaves no group of unknown origin and no false alarm."""
        added = {one.name for op, one in edits.first if op == "add"}
        removed = {one.name for op, one in edits.then if op == "remove"}
        for batch in batches:
            if batch.change.spec.name in added:
                self._records.note_making(batch.record, cluster)
            if batch.change.spec.name in removed:
                self._records.note_reserved(batch.record, cluster)
        for part in (edits.first, edits.then):
            if part:
                self._coordinator.hold(self._clusters.domain(cluster))
                self._clusters.write(cluster, part)
        return self._clusters.view(cluster)

    def _acknowledge(self, view: ClusterView, batch: GroupBatch, changes: dict[int, Json]) -> dict[int, Json]:
        """What the cluster shows now; the others are tried again."""
        visible = {index for index, change in changes.items() if _is_visible(view, batch.change, change)}
        joined = {index for index in visible if changes[index]["op"] in JOINS}
        outcomes: dict[int, Json] = {index: {"ok": True} for index in visible}
        if joined and self._records.find(batch.record.cid) is None:
            error = group_missing(batch.record.cid, "it was deleted while VMs joined it")
            outcomes |= dict.fromkeys(joined, _refusal(error))
        return outcomes

    def _read_vms(self, cid: str, moids: set[str]) -> tuple[set[str], set[str]]:
        """Which of these VMs exist, and which of them are this Director's."""
        refs = [self._client.reference(sdk.vim.VirtualMachine, moid) for moid in sorted(moids)]
        paths = ["name", "config.instanceUuid", "customValue"]
        rows = self._client.read_existing(refs, sdk.vim.VirtualMachine, paths)
        return {row.ref._moId for row in rows}, {row.ref._moId for row in rows if self._is_ours(cid, row)}

    def _is_ours(self, cid: str, row: Row) -> bool:
        """By its mark; one that was renamed, by the group that is written on it."""
        if vm_mark(str(row.get("name")), str(row.get("config.instanceUuid")), self._director_uuid):
            return True
        return self._attributes.named(row.get("customValue")).get(GROUP) == cid


def _closed(
    view: ClusterView, cluster: Any, record: GroupRecord, change: MemberChange, known: bool, restores: bool
) -> CpiError | None:
    """Why no VM can join this group here."""
    spec = record.spec
    group = view.vm_group(spec.name)
    if group is None and spec.adopted:
        return group_missing(record.cid, f"cluster {view.name} has no DRS VM group {spec.name!r}")
    if group is None and cluster._moId in record.live and not restores:
        return group_missing(record.cid, f"its DRS VM group {spec.name!r} was removed or renamed in {view.name}")
    unmistakable = record.cid in spec.name or spec.adopted or known
    if group is not None and not unmistakable:
        return NameTaken(
            f"cluster {view.name} has a DRS group {spec.name!r} that is not ours",
            remedy="use another vm_group, or say placement.adopt: true to use it",
        )
    taken = view.conflicts(spec, change.owned)
    if taken:
        return NameTaken(
            f"cluster {view.name} has a DRS rule {taken[0]!r} that is not ours",
            why="it was not made by us, or has VMs of others in it",
            remedy="use another vm_group, or have the administrator rename the rule or take their VMs out of it",
        )
    return None


def _batch(
    view: ClusterView, record: GroupRecord, change: MemberChange, known: bool, changes: dict[int, Json]
) -> GroupBatch:
    """VMs that are gone join nothing; a group that is in use is not deleted, and then nothing of it is changed."""
    refused: dict[int, CpiError] = {
        index: VMNotFound(f"VM {one['vm']} is gone and joins nothing", remedy="create it again")
        for index, one in changes.items()
        if one["op"] in JOINS and one["vm"] in change.gone
    }
    users = _list_users(view, change, known)
    deletes = [index for index, one in changes.items() if one["op"] == "delete"]
    if users and deletes:
        in_use = GroupInUse(
            f"server group {record.cid} is kept in cluster {view.name}",
            why=f"used by {', '.join(users[:5])}",
            remedy="delete our VMs first; have the administrator take foreign VMs and rules off the group",
        )
        refused |= dict.fromkeys(deletes, in_use)
        if len(deletes) == len(changes):
            return GroupBatch(record, MemberChange(record.spec, ours=change.ours), refused)
    return GroupBatch(record, change, refused)


def _list_users(view: ClusterView, change: MemberChange, known: bool) -> list[str]:
    """VMs and rules that need the group. Where it was never made, nothing can be using it, whatever its name."""
    rules = view.conflicts(change.spec, change.owned) if known else []
    if view.vm_group(change.spec.name) is None:
        return [f"the rule {name!r}" for name in rules]
    members = [*change.stay(view.members(change.spec)), *sorted(change.joining)]
    named = [f"{vm} ({'ours' if vm in change.ours else 'foreign'})" for vm in members]
    rules += [rule.name for rule in view.foreign_rules(change.spec)]
    return [*dict.fromkeys(named), *(f"the rule {name!r}" for name in dict.fromkeys(rules))]


def _is_visible(view: ClusterView, change: MemberChange, one: Json) -> bool:
    spec, rule, members = change.spec, view.vm_rule(change.spec), view.members(change.spec)
    if one["op"] in JOINS:
        return one["vm"] in members and (rule is None or one["vm"] in rule.vms)
    if one["op"] == "leave":
        # a group that an administrator's rule needs cannot be emptied: its last member leaves by being destroyed
        kept = bool(view.foreign_rules(spec)) or spec.adopted
        return one["vm"] not in members or (kept and set(members) <= change.leaving | change.gone)
    if one["op"] == "untie":
        return spec.host_rule not in change.owned or spec.host_rule not in view.rules
    return view.vm_group(spec.name) is None


def _list_overtaken(changes: Sequence[Json]) -> list[int]:
    """Of a join and a leave of the same VM the later one counts; the earlier was left by a process that died."""
    last = {(change["group"], change["vm"]): change["op"] in JOINS for change in changes}
    return [
        index
        for index, change in enumerate(changes)
        if change["vm"] and last[change["group"], change["vm"]] != (change["op"] in JOINS)
    ]


def _overtaken(change: Json) -> CpiError:
    return CpiError(
        f"VM {change['vm']} does not {change['op']} {change['group']}",
        why="the opposite was requested later",
        remedy="repeat, if it is still wanted",
        retryable=True,
    )


def _of_group(changes: dict[int, Json], cid: str) -> dict[int, Json]:
    return {index: change for index, change in changes.items() if change["group"] == cid}


def _vms(changes: dict[int, Json], *ops: str) -> set[str]:
    return {str(change["vm"]) for change in changes.values() if change["op"] in ops}


def _refusal(error: CpiError) -> Json:
    return {"ok": False, "error": error.facts()}
