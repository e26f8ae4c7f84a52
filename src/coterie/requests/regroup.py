"""Moves nodes, azs and clouds to another conductor group, with their unfinished steps.

Refused where no conductor serves the group, or the cloud is not sealed to it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from coterie.errors import NotFound, Refused
from coterie.group.policy import by_index
from coterie.ledger import writes
from coterie.ledger.rows import clouds, conductor_groups, events, keys, machine_secrets, nodes
from coterie.ledger.rows.clouds import CloudRow
from coterie.ledger.rows.events import Event
from coterie.ledger.rows.nodes import NodeRow
from coterie.ledger.store import Ledger, Tx, time
from coterie.ledger.work import conductors, steps
from coterie.manifest import InstanceGroupSpec
from coterie.plan.model import NodeChange, NodeRemoval, Plan
from coterie.ring.members import fold, group_name


def require_group(tx: Tx, cloud: CloudRow, group: str) -> None:
    """Refuse a group that has no live conductor for the cloud, or that the cloud is not sealed to."""
    conductors.living(tx).require(group, cloud.driver)
    if fold(group) not in cloud.groups:
        raise Refused(
            f"cloud {cloud.name} is not sealed to conductor group {group!r}",
            why=f"it is sealed to {', '.join(map(repr, cloud.groups))}",
            remedy=f"add {group!r} to other_conductor_groups of cloud {cloud.name} in the cloud config, write its "
            "properties in plain there, and set it: coterie clouds set FILE",
        )


def move_node(ledger: Ledger, uuid: str, group: str | None, permit: Callable[[Tx], None] = lambda tx: None) -> None:
    """`group` None: what it inherits. Where it comes from does not matter: out of an empty group works.

    `permit` is asked inside the transaction that moves it: it raises, or not.
    """
    wanted = None if group is None else group_name(group)
    with ledger.write() as tx:
        permit(tx)
        node = nodes.get(tx, uuid)
        cloud = clouds.get(tx, node.cloud) if node else None
        if node is None or cloud is None:
            raise NotFound(f"no node {uuid!r} in a configured cloud", remedy="list them with `coterie nodes`")
        writes.execute(tx, nodes.set_conductor_group(uuid, wanted))
        target = conductor_groups.of_node(tx, uuid) or ""
        require_group(tx, cloud, target)
        _require_secrets(tx, node, fold(target))
        steps.regroup_node(tx, uuid, fold(target))
        body = f"conductor group {target!r}" if wanted is not None else f"conductor group {target!r}, inherited"
        events.append(
            tx, [Event(None, "node.moved", node.name, body, {"uuid": uuid, "conductor_group": wanted})], time(tx)
        )


def _require_secrets(tx: Tx, node: NodeRow, group: str) -> None:
    """Conductors of the group must be able to open what the node's VM is made from."""
    name = (node.spec or {}).get("secret")
    if name is None or any(keys.can_open(tx, group, row.key_id) for row in machine_secrets.of_name(tx, name)):
        return
    raise Refused(
        f"conductor group {group!r} could not make node {node.name} anew",
        why="its env and user_data were sealed before its cloud had that group",
        remedy=f"deploy the manifest of {node.deployment} again, which seals them to all groups of the cloud",
    )


def move_clouds(tx: Tx, wanted: Mapping[str, CloudRow], azs: Mapping[str, str | None]) -> None:
    """Before a cloud config comes into force: clouds and azs with nodes may only go to a group that serves the driver.

    `azs`: the conductor group of each az; None: its cloud's.
    """
    present = clouds.all_clouds(tx)
    _refuse_lost_groups(tx, present, wanted)
    for name, cloud in wanted.items():
        before = present.get(name)
        if before is None or before.conductor_group == cloud.conductor_group:
            continue
        if nodes.of_cloud(tx, name):
            conductors.living(tx).require(cloud.conductor_group, cloud.driver)
        steps.regroup_cloud(tx, name, cloud.conductor_group)
        body = f"conductor group {cloud.conductor_group!r}, before {before.conductor_group!r}"
        data = {"conductor_group": cloud.conductor_group}
        events.append(tx, [Event(None, "cloud.moved", name, body, data)], time(tx))
    _move_azs(tx, wanted, azs)


def _refuse_lost_groups(tx: Tx, present: Mapping[str, CloudRow], wanted: Mapping[str, CloudRow]) -> None:
    """A group that nodes or instance groups still have must stay among those of the cloud."""
    for name, cloud in wanted.items():
        lost = set(present[name].groups) - set(cloud.groups) if name in present else set()
        used = conductor_groups.set_apart(tx, name, lost) if lost else {}
        if used:
            group, node = min(used.items())
            raise Refused(
                f"cloud {name} cannot leave conductor group {group!r}",
                why=f"node {node} has that group",
                remedy="keep it in other_conductor_groups; or first give the node another one (coterie nodes set "
                "--conductor-group, or --inherit), or its instance group in the manifest",
            )


def _move_azs(tx: Tx, wanted: Mapping[str, CloudRow], azs: Mapping[str, str | None]) -> None:
    moved = conductor_groups.find_changes_by_azs(tx, azs)
    conductor_groups.inherit(tx, moved)
    fleet = conductors.living(tx)
    for uuid, group in moved.items():
        node = nodes.get(tx, uuid)
        cloud = wanted.get(node.cloud) if node else None
        if node is None or cloud is None or node.conductor_group is not None:
            continue
        target = cloud.conductor_group if group is None else group
        fleet.require(target, cloud.driver)
        steps.regroup_node(tx, uuid, target)


def require_conductors(
    tx: Tx, deployment: str, configured: Mapping[str, CloudRow], specs: Sequence[InstanceGroupSpec], plan: Plan
) -> Plan:
    """Refuse a plan for whose nodes no conductor lives. The plan, with a note of nodes that change their group."""
    inheritance = Inheritance.of(specs)
    moved = inheritance.find_changes(tx, deployment, plan)
    present = {node.uuid: node for node in nodes.of_deployment(tx, deployment)}
    fleet = conductors.living(tx)
    served: set[tuple[str, str]] = set()
    for change in plan.changes:
        details = change.details
        if not isinstance(details, NodeChange | NodeRemoval):
            continue
        node, cloud = present.get(details.node or ""), configured[change.cloud]
        if node is None:
            group = inheritance.of_new(details) if isinstance(details, NodeChange) else None
        elif node.conductor_group is not None:
            group = node.conductor_group
        else:
            group = moved.get(node.uuid, node.inherited_group)
        served.add((cloud.conductor_group if group is None else group, cloud.driver))
    for group, driver in sorted(served):
        fleet.require(group, driver)
    return replace(plan, notes=(*plan.notes, *_moves(present, configured, moved)))


def _moves(
    present: Mapping[str, NodeRow], configured: Mapping[str, CloudRow], moved: Mapping[str, str | None]
) -> Iterator[str]:
    """A line for each change of conductor groups, with the nodes that make it."""
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for uuid, after in moved.items():
        node = present[uuid]
        if node.conductor_group is None:
            default = configured[node.cloud].conductor_group
            before = default if node.inherited_group is None else node.inherited_group
            found[before, default if after is None else after].append(node.name)
    for (before, after), names in sorted(found.items()):
        if before != after:
            shown = ", ".join(sorted(names, key=by_index)[:5]) + (", …" if len(names) > 5 else "")
            yield f"{len(names)} nodes go from conductor group {before!r} to {after!r}: {shown}"


@dataclass(frozen=True, slots=True)
class Inheritance:
    """What the nodes of a deployment inherit when a plan is accepted, by instance group and az."""

    groups: Mapping[tuple[str, str], str | None]

    @staticmethod
    def of(specs: Sequence[InstanceGroupSpec]) -> Inheritance:
        return Inheritance({(spec.name, az.name): az.conductor_group for spec in specs for az in spec.azs})

    def of_new(self, change: NodeChange) -> str | None:
        return self.groups.get((change.instance_group, change.spec.az))

    def find_changes(self, tx: Tx, deployment: str, plan: Plan) -> dict[str, str | None]:
        """Nodes that are there and will inherit another group; those that the plan removes keep theirs."""
        planned = [change.details for change in plan.changes]
        removed = {details.node for details in planned if isinstance(details, NodeRemoval)}
        azs = {details.node: details.spec.az for details in planned if isinstance(details, NodeChange)}
        return {
            node.uuid: after
            for node in nodes.of_deployment(tx, deployment)
            if node.uuid not in removed
            and (place := (node.instance_group, azs.get(node.uuid, node.az))) in self.groups
            and (after := self.groups[place]) != node.inherited_group
        }
