"""Nodes in a plan: which are created, recreated (and why), changed in place, removed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from coterie.errors import NotFound, Refused
from coterie.group.policy import by_index
from coterie.manifest import InstanceGroupSpec
from coterie.plan.address_pool import AddressPool, covers
from coterie.plan.azs import choose_azs
from coterie.plan.groups import GroupPlan
from coterie.plan.kept import DiskOffers
from coterie.plan.members import Members
from coterie.plan.migrate import Migration
from coterie.plan.model import Change, KeptDisk, NodeChange, NodeNow, NodeRemoval, Rollout, Snapshot, with_parts
from coterie.plan.spec import NodeSpec, SpecMaker, reasons_to_recreate, reasons_to_update, seal_spec
from coterie.seal.machine import Holder


@dataclass(slots=True)
class NodePlan:
    changes: list[Change] = field(default_factory=list)
    removals: list[Change] = field(default_factory=list)
    rollouts: list[Rollout] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    members_per_az: Mapping[tuple[str, str, str], int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Options:
    """What the request adds to the manifest. `only`: leave every node but these alone, e.g. "broker/0". `reuse_disks`:
    new nodes take the kept disks of nodes of their names."""

    recreate: bool = False
    only: frozenset[str] = frozenset()
    delete_disks: bool = False
    resurrection: bool = False
    reuse_disks: bool = False


@dataclass(frozen=True, slots=True)
class _Slot:
    index: int
    az: str
    node: NodeNow | None
    kept: dict[str, str]


def plan_nodes(
    migration: Migration,
    group_specs: Sequence[InstanceGroupSpec],
    stemcells: dict[str, str],
    groups: GroupPlan,
    disks: DiskOffers,
    options: Options,
) -> NodePlan:
    plan, snapshot = NodePlan(), migration.snapshot
    present: dict[str, dict[int, NodeNow]] = defaultdict(dict)
    for node in snapshot.nodes:
        present[node.instance_group][node.index] = node
    address_pool = AddressPool(snapshot, group_specs)
    members = Members(snapshot, group_specs)
    plan.members_per_az = members.counts
    for group_spec in group_specs:
        slots = _slots(group_spec, present[group_spec.name], address_pool, disks)
        stemcell = stemcells[group_spec.name]
        group = _Group(plan, migration, group_spec, stemcell, groups, disks, options, address_pool, members)
        group.plan(slots)
    wanted = {(group_spec.name, index) for group_spec in group_specs for index in range(group_spec.instances)}
    for node in snapshot.nodes:
        if (node.instance_group, node.index) not in wanted:
            plan.removals.append(removal(node, _why_removed(node, group_specs), options.delete_disks))
    plan.refusals += address_pool.refusals
    if options.only:
        _refuse_part_of_migration(migration)
        _confine(plan, wanted, options.only)
    return plan


def _refuse_part_of_migration(migration: Migration) -> None:
    """Names change for all nodes at once: one could get the name that another one still has."""
    if migration.names_before:
        raise Refused(
            "nodes get other names by migrated_from",
            why="that cannot be done for some of them alone",
            remedy="deploy the manifest without --node first",
        )


def _confine(plan: NodePlan, wanted: set[tuple[str, int]], only: frozenset[str]) -> None:
    unknown = sorted(only - {f"{name}/{index}" for name, index in wanted}, key=by_index)
    if unknown:
        raise NotFound(
            f"there is no node {', '.join(unknown)} in the manifest",
            remedy=f"name nodes as GROUP/INDEX; its groups are: {', '.join(sorted({name for name, _ in wanted}))}",
        )
    plan.changes = [change for change in plan.changes if change.subject in only]
    plan.removals = []


def why_lost(state: str, by_health: bool, problem: str) -> str:
    return f"its health check fails: {problem}" if by_health else f"its VM is {state}"


def unhealthy_notes(snapshot: Snapshot, changes: Sequence[Change]) -> list[str]:
    """Nodes that fail their health check and are left as they are."""
    changed = {change.subject for change in changes}
    left = [node for node in snapshot.nodes if node.unhealthy and node.name not in changed]
    doubted = [node.name for node in left if node.lost and node.cloud in snapshot.doubtful]
    others = [node.name for node in left if not (node.lost and node.cloud in snapshot.doubtful)]
    why = {
        "the health check fails": others,
        "the health check fails, as that of so many in the cloud that more likely the way to them is broken": doubted,
    }
    return [
        f"{_some(names)}: {what}; to recreate a node all the same: --recreate --node NODE"
        for what, names in why.items()
        if names
    ]


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def removal(node: NodeNow, reason: str, delete_disks: bool) -> Change:
    if node.disk is not None:
        reason += f"; its disk of {node.disk.size_mb} MiB is {'DELETED' if delete_disks else 'kept'}"
    details = NodeRemoval(node.uuid, node.instance_group, delete_disks)
    reason = with_parts(reason, node.parts)
    return Change("delete", "node", node.name, reason, node.cloud, details, node.az, destructive=True)


def _why_removed(node: NodeNow, group_specs: Sequence[InstanceGroupSpec]) -> str:
    for group_spec in group_specs:
        if group_spec.name == node.instance_group:
            return f"scale down to {group_spec.instances}"
    return f"instance group {node.instance_group} is no longer in the manifest"


def _slots(
    group_spec: InstanceGroupSpec, present: dict[int, NodeNow], address_pool: AddressPool, disks: DiskOffers
) -> list[_Slot]:
    placed = {index: node.az for index, node in present.items()}
    for index in range(group_spec.instances):
        az = disks.find_az(group_spec, index) if index not in present else None
        if az is not None:
            placed[index] = az
    azs = choose_azs(group_spec.instances, [az.name for az in group_spec.azs], placed, _static_azs(group_spec))
    slots = []
    for index, az in enumerate(azs):
        node = present.get(index)
        slots.append(_Slot(index, az, node, address_pool.keep(group_spec, node, az) if node else {}))
    return slots


def _static_azs(group_spec: InstanceGroupSpec) -> dict[int, str]:
    """Index → az, where a static address lies in a subnet of exactly one az."""
    fixed: dict[int, str] = {}
    order = [az.name for az in group_spec.azs]
    for network in group_spec.networks:
        if network.type != "manual" or not network.static_ips:
            continue
        for index, ip in enumerate(network.static_ips[: group_spec.instances]):
            serving = [az for az in order if covers(network, az, ip)]
            if len(serving) == 1:
                fixed.setdefault(index, serving[0])
    return fixed


class _Group:
    """The changes of one instance group."""

    def __init__(
        self,
        plan: NodePlan,
        migration: Migration,
        group_spec: InstanceGroupSpec,
        stemcell: str,
        groups: GroupPlan,
        disks: DiskOffers,
        options: Options,
        address_pool: AddressPool,
        members: Members,
    ) -> None:
        self._plan = plan
        self._migration = migration
        self._snapshot = snapshot = migration.snapshot
        self._group_spec = group_spec
        self._groups = groups
        self._disks = disks
        self._options = options
        self._address_pool = address_pool
        self._members = members
        self._holder = Holder(snapshot.director["uuid"], snapshot.deployment, group_spec.name)
        self._specs = SpecMaker(group_spec, stemcell, self._holder if snapshot.seals else None)
        self._made = 0

    def plan(self, slots: Sequence[_Slot]) -> None:
        before = len(self._plan.changes)
        for slot in sorted(slots, key=self._order):
            self._slot(slot)
        if len(self._plan.changes) > before:
            self._plan.rollouts.append(self._rollout())

    def _order(self, slot: _Slot) -> tuple[int, int]:
        azs = [az.name for az in self._group_spec.azs]
        return azs.index(slot.az), slot.index

    def _slot(self, slot: _Slot) -> None:
        addresses = self._address_pool.fill(self._group_spec, slot.index, slot.az, slot.kept)
        canary = self._made < self._group_spec.update.canaries
        member = self._members.number(self._group_spec, slot.az, slot.node)
        spec = self._specs.make(slot.az, addresses, canary=canary, member=member)
        change = self._change(slot, spec, addresses)
        if change is not None:
            self._made += isinstance(change.details, NodeChange) and change.details.may_be_canary
            self._plan.changes.append(change)

    def _change(self, slot: _Slot, spec: NodeSpec, addresses: dict[str, str]) -> Change | None:
        node, cloud, key = slot.node, spec.cloud, self._key(spec.cloud)
        subject, group = f"{self._group_spec.name}/{slot.index}", self._groups.ref(key) if key else None
        details = NodeChange(self._group_spec.name, slot.index, spec, addresses, group)
        takes = self._take_disk(node, slot, cloud)
        details = replace(details, takes=takes)
        if node is None or node.never_made:
            details = replace(
                details, open_networks=tuple(self._address_pool.open_networks(self._group_spec, slot.kept))
            )
        if node is None:
            reason = "new" if takes is None else f"new, with {_kept(takes)}"
            return Change("create", "node", subject, reason, cloud, details, slot.az)
        if node.state == "stopped":
            return self._change_stopped(node, subject, slot.az, details)
        if node.never_made:
            return self._create_again(node, subject, slot.az, details)
        reasons = self._reasons(node, spec)
        moved = self._reason_to_move(node, cloud)
        if moved and (reasons or not self._moves_members(cloud)):
            reasons.append(moved)
        details = replace(self._of_present(details, node), regrouped=moved is not None and not reasons)
        self._check_disk(node, spec)
        if reasons:
            leaves = self._check_move(node, slot.az, cloud)
            details = replace(details, leaves_disk=leaves)
            why = "; ".join([*self._name_change(node), *reasons, *_disk_moves(node, leaves, takes)])
            # Of a VM that never came up nothing is interrupted.
            destructive = node.has_vm and node.spec is not None
            return Change("recreate", "node", subject, why, cloud, details, slot.az, destructive=destructive)
        return self._update(node, subject, slot.az, details, moved)

    def _of_present(self, details: NodeChange, node: NodeNow) -> NodeChange:
        return replace(
            details,
            node=node.uuid,
            gains={net: ip for net, ip in details.addresses.items() if node.addresses.get(net) != ip},
            leaves={net: ip for net, ip in node.addresses.items() if details.addresses.get(net) != ip},
            renamed_from=self._migration.names_before.get(node.uuid),
        )

    def _create_again(self, node: NodeNow, subject: str, az: str, details: NodeChange) -> Change:
        self._check_move(node, az, details.spec.cloud)
        why = f"not made last time: {node.problem}" if node.problem else "not made last time"
        why = "; ".join([*self._name_change(node), why, *_disk_moves(node, None, details.takes)])
        return Change("create", "node", subject, why, details.spec.cloud, self._of_present(details, node), az)

    def _take_disk(self, node: NodeNow | None, slot: _Slot, cloud: str) -> KeptDisk | None:
        """Of a node that has none and shall have one."""
        if node is not None and node.disk is not None:
            return None
        disk, wanted = self._disks.take(self._group_spec, slot.index, slot.az, cloud), self._group_spec.disk
        name = f"{self._group_spec.name}/{slot.index}"
        if disk is None or wanted is None:
            return None
        if disk.size_mb > wanted.size_mb:
            self._plan.refusals.append(
                f"{name}: {_kept(disk)} cannot shrink to {wanted.size_mb} MiB; give it at least {disk.size_mb} MiB, or "
                "an empty disk: without disk_from and --reuse-disks"
            )
        elif disk.size_mb < wanted.size_mb and not self._snapshot.clouds[cloud].capabilities.resize_disk:
            self._plan.refusals.append(
                f"{name}: {_kept(disk)} cannot grow to {wanted.size_mb} MiB in cloud {cloud}; "
                f"give it {disk.size_mb} MiB"
            )
        return disk

    def _name_change(self, node: NodeNow) -> list[str]:
        before = self._migration.names_before.get(node.uuid)
        return [] if before is None else [f"renamed from {before}"]

    def _change_stopped(self, node: NodeNow, subject: str, az: str, details: NodeChange) -> Change | None:
        """It gets its new spec, and is made by it when it is started."""
        spec = details.spec
        known = self._known(node.spec) if node.spec else spec
        reasons = [*self._name_change(node), *reasons_to_recreate(known, spec), *reasons_to_update(known, spec)]
        if known.disk != spec.disk and (disk := _disk_reason(node, spec)) is not None:
            reasons.append(disk)  # its disk changes when it is started
        if not reasons:
            return None
        self._check_disk(node, spec)
        leaves = self._check_move(node, az, spec.cloud)
        details = replace(self._of_present(details, node), leaves_disk=leaves, stays_stopped=True)
        reasons += [*_disk_moves(node, leaves, details.takes), "it is stopped, and stays so"]
        return Change("update", "node", subject, "; ".join(reasons), spec.cloud, details, az)

    def _check_move(self, node: NodeNow, az: str, cloud: str) -> str | None:
        """The intent of the disk that stays behind, if the manifest lets the node leave its az."""
        if node.cloud != cloud:
            self._plan.refusals.append(
                f"{node.name}: it is in cloud {node.cloud} and cannot move to {cloud}; make the nodes anew in an "
                "instance group of another name: they come first, and the old ones go after them"
            )
        elif node.az != az and node.disk is not None:
            if node.uuid in self._migration.may_leave_az:
                return node.disk.intent
            self._plan.refusals.append(
                f"{node.name}: its disk is in {node.az} and cannot follow it to {az}; to begin with an empty one there "
                f"and keep the old one: migrated_from: [{{name: {node.instance_group}, az: {node.az}}}]"
            )
        return None

    def _reasons(self, node: NodeNow, spec: NodeSpec) -> list[str]:
        if node.state in ("dead", "missing") or (node.lost and node.cloud not in self._snapshot.doubtful):
            return [why_lost(node.state, node.lost, node.problem)]
        if (node.state != "up" and not node.unhealthy) or node.spec is None:
            return [f"not finished last time: {node.problem}" if node.problem else "not finished last time"]
        reasons = reasons_to_recreate(self._known(node.spec), spec)
        if not reasons and self._options.recreate:
            reasons.append("asked for")
        return reasons

    def _known(self, spec: NodeSpec) -> NodeSpec:
        """As it is compared: one that is still stored in plain has its secrets by name, too; and equal secrets that
        have their name from the instance group before have it from this one."""
        if not self._snapshot.seals:
            return spec
        for migrated in self._group_spec.migrated_from:
            holder = replace(self._holder, instance_group=migrated.name)
            if spec.secret is not None and spec.secret == self._specs.secret_of(holder):
                return replace(spec, secret=self._specs.secret_of(self._holder))
        return seal_spec(spec, self._holder)

    def _reason_to_move(self, node: NodeNow, cloud: str) -> str | None:
        """Why the node changes its server group, if it does."""
        key = self._key(cloud)
        if key in self._groups.moves:
            return self._groups.moves[key]
        if key is not None and node.server_group != self._groups.stays.get(key, "a new one"):
            return f"joins server group {key[0]}"
        if key is None and node.server_group is not None:
            return "leaves its server group"
        return None

    def _moves_members(self, cloud: str) -> bool:
        return self._snapshot.clouds[cloud].capabilities.moves_members

    def _update(self, node: NodeNow, subject: str, az: str, details: NodeChange, moved: str | None) -> Change | None:
        spec = details.spec
        reasons = self._name_change(node)
        reasons += reasons_to_update(self._known(node.spec), spec) if node.spec else []
        if moved:
            reasons.append(f"{moved}, in place")
        disk = _disk_reason(node, spec)
        if disk is not None:
            reasons.insert(0, disk if details.takes is None else f"gets {_kept(details.takes)}")
        if node.problem and not node.unhealthy:  # it is up: a change in place failed before it touched the VM
            reasons.append(f"not finished last time: {node.problem}")
        if not reasons:
            return None
        details = replace(details, disk_changes=disk is not None)
        drops = disk is not None and spec.disk is None
        return Change("update", "node", subject, "; ".join(reasons), spec.cloud, details, az, destructive=drops)

    def _check_disk(self, node: NodeNow, spec: NodeSpec) -> None:
        if node.disk is None or spec.disk is None:
            return
        if spec.disk.size_mb < node.disk.size_mb:
            self._plan.refusals.append(
                f"{node.name}: its disk cannot shrink from {node.disk.size_mb} to {spec.disk.size_mb} MiB"
            )
        elif _disk_reason(node, spec) and not self._snapshot.clouds[node.cloud].capabilities.resize_disk:
            self._plan.refusals.append(f"{node.name}: cloud {node.cloud} cannot change a disk in place")

    def _key(self, cloud: str) -> tuple[str, str] | None:
        group = self._group_spec.server_group
        return (group.name, cloud) if group else None

    def _rollout(self) -> Rollout:
        update, group = self._group_spec.update, self._group_spec.server_group
        limits = [
            limit
            for az in self._group_spec.azs
            if (limit := self._snapshot.clouds[az.cloud].capabilities.boots_per_soft_group)
            and group is not None
            and (group.policy or "").startswith("soft-")
        ]
        # A soft group that cannot take parallel boots is filled a few at a time, group after group.
        in_flight = min([update.max_in_flight, *limits])
        return Rollout(self._group_spec.name, update.canaries, in_flight, update.serial or bool(limits))


def _kept(disk: KeptDisk) -> str:
    return f"the kept disk {disk.cid} of {disk.name} ({disk.size_mb} MiB)"


def _disk_moves(node: NodeNow, leaves: str | None, takes: KeptDisk | None) -> list[str]:
    moves = []
    if leaves is not None and node.disk is not None:
        moves.append(f"its disk of {node.disk.size_mb} MiB stays in {node.az} and is kept; it begins with an empty one")
    if takes is not None:
        moves.append(f"gets {_kept(takes)}")
    return moves


def _disk_reason(node: NodeNow, spec: NodeSpec) -> str | None:
    now, wanted = node.disk, spec.disk
    if now is None:
        return f"add a disk of {wanted.size_mb} MiB" if wanted else None
    if wanted is None:
        return f"let go of its disk of {now.size_mb} MiB, which is kept"
    if now.size_mb != wanted.size_mb:
        return f"disk {now.size_mb} → {wanted.size_mb} MiB"
    return "disk type changed" if now.cloud_properties != wanted.cloud_properties else None
