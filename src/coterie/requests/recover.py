"""Recovery: the rows of a deployment written again from marks in its clouds and its manifest, when the ledger was lost
or is old. A plan first, applied only if the clouds still show the same; it changes no cloud.

What is not provably of this deployment is not taken: two objects with one mark, a VM whose node is another one's, a
disk or group that no node of it has.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from coterie.cpi.contract import CloudObject, GroupView, is_adopted, read_group_cid
from coterie.errors import NotFound, StalePlan
from coterie.flows.marks import SIZE, NodeMarks, digest, read_marks
from coterie.ids import Ids
from coterie.ledger.rows import clouds, deployments, events, groups, identity, nodes, objects, recovered, snapshot
from coterie.ledger.rows import stemcells as stemcell_rows
from coterie.ledger.rows.events import Event
from coterie.ledger.rows.nodes import NodeRow
from coterie.ledger.rows.recovered import RecoveredGroup, RecoveredObject
from coterie.ledger.store import Ledger, Tx, time
from coterie.manifest import InstanceGroupSpec
from coterie.plan import stemcells
from coterie.plan.groups import plan_groups
from coterie.plan.model import CloudNow, GroupChange, Snapshot
from coterie.plan.spec import SpecMaker
from coterie.redact import hide_yaml
from coterie.requests.ask_clouds import ask
from coterie.requests.draft import ask_clouds, store_config
from coterie.requests.machine_secrets import seal_groups
from coterie.requests.request import CheckedRequest, PlanRequest, az_groups, read
from coterie.seal.machine import Holder

_PATIENCE_S = 300.0
_OTHER_SPEC = "its VM was made from another spec than the manifest's"
_RUNNING = ("running", "building", None)


@dataclass(frozen=True, slots=True)
class Item:
    """One object: what it becomes in the ledger, or (`taken` False) why it is left alone."""

    kind: str
    name: str
    cloud: str
    cid: str
    why: str
    taken: bool


@dataclass(slots=True)
class Recovery:
    """`known`: objects of the deployment that the ledger has already."""

    deployment: str
    items: list[Item] = field(default_factory=list)
    known: int = 0
    nodes: list[NodeRow] = field(default_factory=list)
    objects: list[RecoveredObject] = field(default_factory=list)
    groups: list[RecoveredGroup] = field(default_factory=list)

    @property
    def id(self) -> str:
        text = json.dumps([self.deployment, [asdict(item) for item in self.items]], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:40]

    def wire(self) -> dict[str, Any]:
        items = [asdict(item) for item in self.items]
        return {"id": self.id, "deployment": self.deployment, "known": self.known, "items": items}


def plan_recovery(ledger: Ledger, request: PlanRequest) -> Recovery:
    """Ask the clouds what carries our mark, and say which rows follow from that. Writes nothing but dated facts."""
    return _draft(ledger, request)[1]


def apply_recovery(ledger: Ledger, request: PlanRequest, expect: str, by: str | None) -> Recovery:
    """Write the rows, if it is the very plan that was looked at."""
    checked, found = _draft(ledger, request)
    if found.id != expect:
        raise StalePlan(
            f"recovery {expect} is out of date",
            why=f"the clouds and the ledger now give {found.id}",
            remedy="look at the new one and confirm that",
        )
    with ledger.write() as tx:
        deployments.lock(tx, checked.name)
        _write(tx, request, checked, found)
        taken = Counter(item.kind for item in found.items if item.taken)
        body = ", ".join(f"{count} {kind}" for kind, count in sorted(taken.items())) or "nothing"
        events.append(tx, [Event(None, "deployment.recovered", checked.name, body, {**taken, "by": by})], time(tx))
    return found


def _draft(ledger: Ledger, request: PlanRequest) -> tuple[CheckedRequest, Recovery]:
    checked = read(ledger, request)
    wanted = checked.groups()
    facts = ask_clouds(ledger, checked, wanted)
    with ledger.read() as tx:
        director = identity.director(tx).uuid
    rows = [checked.clouds[name] for name in sorted(facts)]
    answers = ask(ledger, [(row, "inventory", {"director": director}) for row in rows], _PATIENCE_S)
    inventories = {row.name: Inventory.of_wire(answer) for row, answer in zip(rows, answers, strict=True)}
    with ledger.read() as tx:
        seen = snapshot.read(tx, checked.name, facts, checked.shared_security_groups())
        work = _Draft(tx, checked.name, director, wanted, seen, facts)
        for cloud, inventory in inventories.items():
            work.add_cloud(cloud, inventory)
    if not work.found.items and not work.found.known:
        raise NotFound(
            f"no cloud holds anything of deployment {checked.name} with the mark of this Director",
            why=f"this Director's uuid is {director}",
            remedy="a Director whose ledger was lost gets its former uuid at its first start: COTERIE_UUID; the tag "
            "coterie-director of any VM shows it",
        )
    return checked, work.found


def _write(tx: Tx, request: PlanRequest, checked: CheckedRequest, found: Recovery) -> None:
    present = clouds.config(tx)
    config_id = present.id if present else 0
    if request.cloud_config is not None:
        config_id = store_config(tx, checked.config_text, checked.clouds, az_groups(checked.config.value))
    wanted, deployment = checked.groups(), checked.deployment
    resurrection = bool(deployment and deployment.value.resurrection)
    seal_groups(tx, checked.name, wanted)
    manifest = hide_yaml(checked.manifest)
    deployments.save(tx, checked.name, manifest=manifest, config_id=config_id, resurrection=resurrection)
    groups.set_instance_groups(tx, checked.name, {group.name: group.conductor_group for group in wanted})
    for group in found.groups:
        recovered.put_group(tx, group)
    for node in found.nodes:
        recovered.put_node(tx, node)
    for thing in found.objects:
        recovered.put_object(tx, thing)
    known = {(row.name, row.cloud): row.intent for row in groups.of_deployment(tx, checked.name)}
    users = [
        (spec.name, known[spec.server_group.name, az.cloud])
        for spec in wanted
        for az in spec.azs
        if spec.server_group and (spec.server_group.name, az.cloud) in known
    ]
    groups.set_users(tx, checked.name, users)


@dataclass(frozen=True, slots=True)
class Inventory:
    """What a cloud holds with the mark of this Director."""

    vms: list[CloudObject]
    disks: list[CloudObject]
    images: dict[str, CloudObject]  # by intent
    groups: dict[str, CloudObject]  # by CID
    views: dict[str, GroupView]

    @staticmethod
    def of_wire(answer: Mapping[str, Any]) -> Inventory:
        read_all = {kind: [CloudObject.of_wire(one) for one in answer[kind]] for kind in answer if kind != "views"}
        return Inventory(
            read_all["vm"],
            read_all["disk"],
            {one.mark.intent: one for one in read_all["image"] if one.mark},
            {one.cid: one for one in read_all["server_group"]},
            {cid: GroupView.of_wire(view) for cid, view in answer["views"].items()},
        )

    def group_of(self, vm: CloudObject, marks: NodeMarks) -> str | None:
        """The CID of the group that it is in, by its own mark or by the group's members."""
        if marks.server_group is not None:
            return marks.server_group
        return next((cid for cid, view in self.views.items() if vm.cid in [m.vm_cid for m in view.members]), None)


class _Draft:
    """The rows of one deployment, cloud after cloud."""

    def __init__(
        self,
        tx: Tx,
        name: str,
        director: str,
        wanted: Iterable[InstanceGroupSpec],
        seen: Snapshot,
        facts: Mapping[str, CloudNow],
    ) -> None:
        self._tx = tx
        self._name = name
        self._director = director
        self._specs = {spec.name: spec for spec in wanted}
        self._facts = facts
        self._cells = stemcells.choose(seen, list(self._specs.values()), [])
        self._wanted_groups = {
            (change.details.name, change.cloud): change.details.metadata
            for change in plan_groups(seen, list(self._specs.values())).changes
            if isinstance(change.details, GroupChange)
        }
        self._present = {node.uuid: node for node in nodes.of_deployment(tx, name)}
        self._group_intents = {(row.cloud, row.cid): row.intent for row in groups.of_deployment(tx, name)}
        self._images = set(seen.images)
        self._seals = seen.seals
        self.found = Recovery(name)

    def add_cloud(self, cloud: str, inventory: Inventory) -> None:
        intents = Counter(vm.mark.intent for vm in inventory.vms if vm.mark)
        places = Counter(read_marks(vm.tags or {}).uuid for vm in inventory.vms)
        for vm in inventory.vms:
            marks = read_marks(vm.tags or {})
            if marks.deployment not in (None, self._name):
                continue
            why = self._refusal(vm, marks, inventory, intents, places)
            if why is not None:
                self._leave("vm", marks, cloud, vm, why)
            elif marks.uuid in self._present and self._present[marks.uuid or ""].vm_cid == vm.cid:
                self.found.known += 1
            else:
                self._take_vm(cloud, inventory, vm, marks)
        copied = Counter(disk.mark.intent for disk in inventory.disks if disk.mark)
        for disk in inventory.disks:
            self._add_disk(cloud, disk, copied[disk.mark.intent] if disk.mark else 0)

    def _refusal(
        self,
        vm: CloudObject,
        marks: NodeMarks,
        inventory: Inventory,
        intents: Counter[str],
        places: Counter[str | None],
    ) -> str | None:
        """Why this VM cannot be proved to be the node that it claims to be."""
        if marks.deployment is None or marks.uuid is None or marks.instance_group is None or marks.index is None:
            return "it does not say which node it is"
        if vm.mark is None or intents[vm.mark.intent] > 1:
            return "several VMs carry its mark: was it copied?"
        if places[marks.uuid] > 1:
            return "several VMs claim to be this node"
        spec = self._specs.get(marks.instance_group)
        if spec is None or marks.index >= spec.instances:
            return f"the manifest has no {marks.instance_group}/{marks.index}"
        present = self._present.get(marks.uuid)
        if present is not None and present.vm_cid != vm.cid and present.vm_cid in [one.cid for one in inventory.vms]:
            return f"the ledger has VM {present.vm_cid} for this node, and that one is there"
        other = [node for node in self._present.values() if node.name == f"{marks.instance_group}/{marks.index}"]
        if other and other[0].uuid != marks.uuid:
            return f"the ledger has another node {other[0].name}"
        if self._az(spec, vm, marks) is None:
            return "its az is not marked, and the cloud's zone does not tell it"
        if self._addresses(spec, marks) is None:
            return "its addresses are not marked"
        return None

    def _take_vm(self, cloud: str, inventory: Inventory, vm: CloudObject, marks: NodeMarks) -> None:
        spec = self._specs[marks.instance_group or ""]
        az, addresses = self._az(spec, vm, marks) or "", self._addresses(spec, marks) or {}
        holder = Holder(self._director, self._name, spec.name) if self._seals else None
        made = SpecMaker(spec, marks.stemcell or self._cells[spec.name], holder).make(az, addresses, canary=False)
        same = marks.spec in (None, digest(made))
        problem = None if same else {"code": "recovered", "what": _OTHER_SPEC}
        node = NodeRow(
            uuid=marks.uuid or "",
            deployment=self._name,
            instance_group=spec.name,
            index=marks.index or 0,
            az=az,
            cloud=cloud,
            conductor_group=None,
            inherited_group=next(one.conductor_group for one in spec.azs if one.name == az),
            state=("up" if vm.state in _RUNNING else "dead") if same else "failing",
            spec=made.wire(),
            vm_intent=vm.mark.intent if vm.mark else None,
            vm_cid=vm.cid,
            server_group=self._take_group(cloud, inventory, spec, inventory.group_of(vm, marks)),
            host=vm.host,
            addresses=addresses,
            problem=problem,
        )
        self._present[node.uuid] = node
        self.found.nodes.append(node)
        self._add_object("vm", cloud, vm, node, az=az)
        sure = "as the manifest says" if marks.spec else "assumed to be as the manifest says"
        self._take("vm", node.name, cloud, vm.cid, sure if same else _OTHER_SPEC)
        self._take_image(cloud, inventory, marks)

    def _take_group(self, cloud: str, inventory: Inventory, spec: InstanceGroupSpec, cid: str | None) -> str | None:
        """The intent of the server group with this CID, if it is there and ours, or an operator's that was adopted."""
        if cid is None or spec.server_group is None:
            return None
        if (cloud, cid) in self._group_intents:
            return self._group_intents[cloud, cid]
        metadata = self._wanted_groups.get((spec.server_group.name, cloud))
        mark = read_group_cid(cid)
        ours = mark is not None and mark.belongs_to(self._director) and cid in inventory.groups
        if metadata is None or not (ours or is_adopted(cid)):
            return None
        view = inventory.views.get(cid)
        if view is not None and view.policy is not None:
            metadata = replace(metadata, policy=view.policy)
        intent = mark.intent if mark else Ids().intent()
        group = RecoveredGroup(intent, spec.server_group.name, cloud, cid, is_adopted(cid), metadata.wire())
        self._group_intents[cloud, cid] = intent
        self.found.groups.append(group)
        self._take("server_group", group.name, cloud, cid, f"{metadata.policy}; VMs of its nodes are in it")
        return intent

    def _take_image(self, cloud: str, inventory: Inventory, marks: NodeMarks) -> None:
        if marks.stemcell is None or marks.image is None or (cloud, marks.stemcell) in self._images:
            return
        image = inventory.images.get(marks.image)
        name, _, version = marks.stemcell.rpartition("/")
        row = stemcell_rows.get(self._tx, name, version)
        cid = image.cid if image else marks.image_cid if row is not None and row.image is None else None
        if cid is None:
            return
        self._images.add((cloud, marks.stemcell))
        self.found.objects.append(
            RecoveredObject(marks.image, "image", cloud, cid, "live", None, None, None, marks.stemcell)
        )
        self._take("image", marks.stemcell, cloud, cid, "VMs of its nodes were made from it")

    def _add_disk(self, cloud: str, disk: CloudObject, alike: int) -> None:
        marks = read_marks(disk.tags or {})
        if marks.deployment not in (None, self._name):
            return
        users = disk.in_use_by or ()
        attached = next((node for node in self._present.values() if node.vm_cid in users and node.cloud == cloud), None)
        claimed = self._present.get(marks.uuid or "")
        if attached is None and marks.deployment is None:
            return  # it names no deployment, and no node of this one has it
        node = attached or (claimed if not users else None)
        mine = disk.mark.intent if disk.mark else ""
        held = objects.get(self._tx, mine)
        if held is not None and held.state in objects.OPEN:
            self.found.known += 1
        elif alike > 1:
            self._leave("disk", marks, cloud, disk, "several disks carry its mark: was it copied?")
        elif attached and claimed and attached.uuid != claimed.uuid:
            self._leave("disk", marks, cloud, disk, f"it claims to be of {claimed.name}, and {attached.name} has it")
        elif users and attached is None:
            self._leave("disk", marks, cloud, disk, f"it is attached to {', '.join(users)}, which is no node of ours")
        elif node is not None and self._has_disk(node):
            self._leave("disk", marks, cloud, disk, f"{node.name} has another disk")
        else:
            self._add_object("disk", cloud, disk, node, az=node.az if node else disk.az)
            why = (
                f"attached to {attached.name}"
                if attached
                else "marked with its node"
                if node
                else "kept: no node has it"
            )
            self._take("disk", node.name if node else f"{marks.instance_group}/{marks.index}", cloud, disk.cid, why)

    def _has_disk(self, node: NodeRow) -> bool:
        recorded = [row for row in objects.of_node(self._tx, node.uuid) if row.kind == "disk"]
        return bool(recorded) or any(one.node == node.uuid and one.kind == "disk" for one in self.found.objects)

    def _add_object(self, kind: Any, cloud: str, thing: CloudObject, node: NodeRow | None, *, az: str | None) -> None:
        marks, size, properties = read_marks(thing.tags or {}), str((thing.tags or {}).get(SIZE, "")), None
        if kind == "disk":
            spec = self._specs.get(node.instance_group if node else marks.instance_group or "")
            wanted = spec.disk if spec else None
            size = size if size.isdigit() else str(wanted.size_mb if wanted else 0)
            properties = dict(wanted.cloud_properties) if wanted else {}
        self.found.objects.append(
            RecoveredObject(
                intent=thing.mark.intent if thing.mark else "",
                kind=kind,
                cloud=cloud,
                cid=thing.cid,
                state="live" if node else "kept",
                az=az,
                deployment=self._name,
                node=node.uuid if node else None,
                ref=node.name if node else f"{marks.instance_group}/{marks.index}",
                size_mb=int(size) if kind == "disk" else 0,
                properties=properties,
            )
        )

    def _az(self, spec: InstanceGroupSpec, vm: CloudObject, marks: NodeMarks) -> str | None:
        names = [az.name for az in spec.azs]
        if marks.az is not None:
            return marks.az if marks.az in names else None
        if len(names) == 1:
            return names[0]
        fitting = [
            az.name
            for az in spec.azs
            if vm.az and self._facts[az.cloud].capabilities.zone_of(az.name, az.vm_properties) == vm.az
        ]
        return fitting[0] if len(fitting) == 1 else None

    def _addresses(self, spec: InstanceGroupSpec, marks: NodeMarks) -> dict[str, str] | None:
        if marks.addresses is not None:
            return dict(marks.addresses)
        found: dict[str, str] = {}
        for network in spec.networks:
            if network.type == "manual" and not network.static_ips:
                return None
            if network.type == "manual":
                found[network.name] = str(network.static_ips[marks.index or 0])
        return found

    def _take(self, kind: str, name: str, cloud: str, cid: str, why: str) -> None:
        self.found.items.append(Item(kind, name, cloud, cid, why, taken=True))

    def _leave(self, kind: str, marks: NodeMarks, cloud: str, thing: CloudObject, why: str) -> None:
        name = f"{marks.instance_group}/{marks.index}" if marks.instance_group else thing.name
        self.found.items.append(Item(kind, name, cloud, thing.cid, why, taken=False))
