"""Nodes in a plan: which are created, recreated (and why), changed in place, removed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from coterie.errors import NotFound
from coterie.group.policy import by_index
from coterie.manifest import InstanceGroupSpec
from coterie.plan.address_pool import AddressPool, covers
from coterie.plan.azs import choose_azs
from coterie.plan.groups import GroupPlan
from coterie.plan.members import Members
from coterie.plan.model import Change, NodeChange, NodeNow, NodeRemoval, Rollout, Snapshot, with_parts
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
    """What the request adds to the manifest. `only`: leave every node but these alone, e.g. "broker/0"."""

    recreate: bool = False
    only: frozenset[str] = frozenset()
    delete_disks: bool = False
    resurrection: bool = False


@dataclass(frozen=True, slots=True)
class _Slot:
    index: int
    az: str
    node: NodeNow | None
    kept: dict[str, str]


def plan_nodes(
    snapshot: Snapshot,
    group_specs: Sequence[InstanceGroupSpec],
    stemcells: dict[str, str],
    groups: GroupPlan,
    options: Options,
) -> NodePlan:
    plan = NodePlan()
    present: dict[str, dict[int, NodeNow]] = defaultdict(dict)
    for node in snapshot.nodes:
        present[node.instance_group][node.index] = node
    address_pool = AddressPool(snapshot, group_specs)
    members = Members(snapshot, group_specs)
    plan.members_per_az = members.counts
    for group_spec in group_specs:
        slots = _slots(group_spec, present[group_spec.name], address_pool)
        stemcell = stemcells[group_spec.name]
        _Group(plan, snapshot, group_spec, stemcell, groups, options, address_pool, members).plan(slots)
    wanted = {(group_spec.name, index) for group_spec in group_specs for index in range(group_spec.instances)}
    for node in snapshot.nodes:
        if (node.instance_group, node.index) not in wanted:
            plan.removals.append(removal(node, _why_removed(node, group_specs), options.delete_disks))
    plan.refusals += address_pool.refusals
    if options.only:
        _confine(plan, wanted, options.only)
    return plan


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
    names = [node.name for node in snapshot.nodes if node.unhealthy and node.name not in changed]
    if not names:
        return []
    shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    return [f"{shown}: the health check fails; to recreate a node all the same: --recreate --node NODE"]


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


def _slots(group_spec: InstanceGroupSpec, present: dict[int, NodeNow], address_pool: AddressPool) -> list[_Slot]:
    placed = {index: node.az for index, node in present.items()}
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
        snapshot: Snapshot,
        group_spec: InstanceGroupSpec,
        stemcell: str,
        groups: GroupPlan,
        options: Options,
        address_pool: AddressPool,
        members: Members,
    ) -> None:
        self._plan = plan
        self._snapshot = snapshot
        self._group_spec = group_spec
        self._groups = groups
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
            self._made += 1
            self._plan.changes.append(change)

    def _change(self, slot: _Slot, spec: NodeSpec, addresses: dict[str, str]) -> Change | None:
        node, cloud, key = slot.node, spec.cloud, self._key(spec.cloud)
        subject, group = f"{self._group_spec.name}/{slot.index}", self._groups.ref(key) if key else None
        details = NodeChange(self._group_spec.name, slot.index, spec, addresses, group)
        if node is None:
            return Change("create", "node", subject, "new", cloud, details, slot.az)
        if node.never_made:
            return self._create_again(node, subject, slot.az, details)
        reasons = self._reasons(node, spec)
        moved = self._reason_to_move(node, cloud)
        if moved and (reasons or not self._moves_members(cloud)):
            reasons.append(moved)
        details = replace(_of_present(details, node), regrouped=moved is not None and not reasons)
        self._check_disk(node, spec)
        if reasons:
            self._check_move(node, slot.az, cloud)
            why = "; ".join(reasons)
            # Of a VM that never came up nothing is interrupted.
            destructive = node.has_vm and node.spec is not None
            return Change("recreate", "node", subject, why, cloud, details, slot.az, destructive=destructive)
        return self._update(node, subject, slot.az, details, moved)

    def _create_again(self, node: NodeNow, subject: str, az: str, details: NodeChange) -> Change:
        self._check_move(node, az, details.spec.cloud)
        why = f"not made last time: {node.problem}" if node.problem else "not made last time"
        return Change("create", "node", subject, why, details.spec.cloud, _of_present(details, node), az)

    def _check_move(self, node: NodeNow, az: str, cloud: str) -> None:
        if node.cloud != cloud:
            self._plan.refusals.append(
                f"{node.name}: it is in cloud {node.cloud} and cannot move to {cloud}; make the nodes anew in an "
                "instance group of another name: they come first, and the old ones go after them"
            )
        elif node.az != az and node.disk is not None:
            self._plan.refusals.append(f"{node.name}: its disk is in {node.az} and cannot follow it to {az}")

    def _reasons(self, node: NodeNow, spec: NodeSpec) -> list[str]:
        if node.state in ("dead", "missing") or node.lost:
            return [why_lost(node.state, node.lost, node.problem)]
        if (node.state != "up" and not node.unhealthy) or node.spec is None:
            return [f"not finished last time: {node.problem}" if node.problem else "not finished last time"]
        reasons = reasons_to_recreate(self._known(node.spec), spec)
        if not reasons and self._options.recreate:
            reasons.append("asked for")
        return reasons

    def _known(self, spec: NodeSpec) -> NodeSpec:
        """As it is compared: one that is still stored in plain has its secrets by name, too."""
        return seal_spec(spec, self._holder) if self._snapshot.seals else spec

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
        reasons = reasons_to_update(self._known(node.spec), spec) if node.spec else []
        if moved:
            reasons.append(f"{moved}, in place")
        disk = _disk_reason(node, spec)
        if disk is not None:
            reasons.insert(0, disk)
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


def _of_present(details: NodeChange, node: NodeNow) -> NodeChange:
    return replace(
        details,
        node=node.uuid,
        gains={net: ip for net, ip in details.addresses.items() if node.addresses.get(net) != ip},
        leaves={net: ip for net, ip in node.addresses.items() if details.addresses.get(net) != ip},
    )


def _disk_reason(node: NodeNow, spec: NodeSpec) -> str | None:
    now, wanted = node.disk, spec.disk
    if now is None:
        return f"add a disk of {wanted.size_mb} MiB" if wanted else None
    if wanted is None:
        return f"let go of its disk of {now.size_mb} MiB, which is kept"
    if now.size_mb != wanted.size_mb:
        return f"disk {now.size_mb} → {wanted.size_mb} MiB"
    return "disk type changed" if now.cloud_properties != wanted.cloud_properties else None
