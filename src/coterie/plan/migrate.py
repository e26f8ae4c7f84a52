"""Nodes whose instance group has another name in the manifest now: planned under their new names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from coterie.manifest import InstanceGroupSpec, MigrationSpec
from coterie.plan.model import GroupNow, NodeNow, Snapshot


@dataclass(frozen=True, slots=True)
class Migration:
    """`snapshot`: with nodes and server groups under their new names. `names_before`: of the nodes, by uuid.
    `may_leave_az`: the uuids of nodes that may go to another az, without their disks. `server_groups`: intents of those
    that get another name, with the name."""

    snapshot: Snapshot
    names_before: Mapping[str, str]
    may_leave_az: frozenset[str]
    server_groups: tuple[tuple[str, str], ...] = ()


def migrate(snapshot: Snapshot, specs: Sequence[InstanceGroupSpec]) -> Migration:
    """A node keeps its index where that is free, else it gets the lowest free one. Nodes beyond the number of instances
    keep their names, and are removed under them."""
    renamed: dict[str, NodeNow] = {}
    groups: dict[str, GroupNow] = {}
    leaving: set[str] = set()
    for spec in specs:
        if spec.migrated_from:
            leaving |= {node.uuid for source in spec.migrated_from if source.az for node in _nodes_of(snapshot, source)}
            renamed |= _rename(snapshot, spec)
            groups |= _rename_server_groups(snapshot, spec)
    names = {node.uuid: node.name for node in snapshot.nodes if node.uuid in renamed}
    nodes = tuple(renamed.get(node.uuid, node) for node in snapshot.nodes)
    known = replace(snapshot, nodes=nodes, groups=tuple(groups.get(group.intent, group) for group in snapshot.groups))
    server_groups = tuple((intent, group.name) for intent, group in groups.items())
    return Migration(known, names, frozenset(leaving), server_groups)


def _rename(snapshot: Snapshot, spec: InstanceGroupSpec) -> dict[str, NodeNow]:
    sources = [source for source in spec.migrated_from if source.name != spec.name]
    moving = [node for source in sources for node in _nodes_of(snapshot, source)]
    taken = {node.index for node in snapshot.nodes if node.instance_group == spec.name}
    indexes: dict[str, int] = {}
    for node in moving:
        if node.index < spec.instances and node.index not in taken:
            indexes[node.uuid] = node.index
            taken.add(node.index)
    free = (index for index in range(spec.instances) if index not in taken)
    rest = (node.uuid for node in moving if node.uuid not in indexes)
    indexes |= dict(zip(rest, free, strict=False))
    return {
        node.uuid: replace(node, instance_group=spec.name, index=indexes[node.uuid])
        for node in moving
        if node.uuid in indexes
    }


def _nodes_of(snapshot: Snapshot, source: MigrationSpec) -> list[NodeNow]:
    return [node for node in snapshot.nodes if node.instance_group == source.name and source.az in (None, node.az)]


def _rename_server_groups(snapshot: Snapshot, spec: InstanceGroupSpec) -> dict[str, GroupNow]:
    """One that has its name from its instance group gets the new one, so that its nodes can stay in it."""
    if spec.server_group is None or spec.server_group.named:
        return {}
    names = {source.name for source in spec.migrated_from if source.az is None}
    return {
        group.intent: replace(group, name=spec.name)
        for group in snapshot.groups
        if group.name in names and "name" not in group.metadata.options
    }
