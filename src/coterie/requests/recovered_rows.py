"""Which rows follow from what the clouds of a deployment hold with our mark.

What is not provably of this deployment is not taken: two objects with one mark, a VM whose node is another one's, a
disk or group that no node of it has, a copy of a part.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from coterie.cpi.contract import CloudObject, GroupView, is_adopted, read_group_cid
from coterie.errors import Refused
from coterie.flows.recovery_tags import SIZE, NodeTags, digest, read_node_tags
from coterie.ids import Ids
from coterie.ledger.rows import groups, nodes, objects
from coterie.ledger.rows import stemcells as stemcell_rows
from coterie.ledger.rows.nodes import NodeRow
from coterie.ledger.rows.recovered import RecoveredGroup, RecoveredObject, RecoveredPart
from coterie.ledger.store import Tx
from coterie.manifest import InstanceGroupSpec
from coterie.plan import stemcells
from coterie.plan.groups import plan_groups
from coterie.plan.model import CloudNow, GroupChange, Snapshot
from coterie.plan.spec import SpecMaker
from coterie.seal.machine import Holder

_OTHER_SPEC = "its VM was made from another spec than the manifest's"
_RUNNING = ("running", "building", None)
_PARTS = ("port", "ip", "security_group", "keypair")


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
    parts: list[RecoveredPart] = field(default_factory=list)

    @property
    def id(self) -> str:
        text = json.dumps([self.deployment, [asdict(item) for item in self.items]], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:40]

    def wire(self) -> dict[str, Any]:
        items = [asdict(item) for item in self.items]
        return {"id": self.id, "deployment": self.deployment, "known": self.known, "items": items}


@dataclass(frozen=True, slots=True)
class Inventory:
    """What a cloud holds with the mark of this Director."""

    vms: list[CloudObject]
    disks: list[CloudObject]
    images: dict[str, CloudObject]  # by intent
    groups: dict[str, CloudObject]  # by CID
    views: dict[str, GroupView]
    parts: dict[str, list[CloudObject]]  # by intent, the oldest first

    @staticmethod
    def of_wire(answer: Mapping[str, Any]) -> Inventory:
        if missing := [kind for kind in _PARTS if kind not in answer]:
            raise Refused(
                "a conductor of an earlier release answered",
                why=f"it did not list: {', '.join(missing)}",
                remedy="upgrade the conductors of this cloud first",
            )
        read_all = {kind: [CloudObject.of_wire(one) for one in answer[kind]] for kind in answer if kind != "views"}
        parts: dict[str, list[CloudObject]] = defaultdict(list)
        for part in sorted((one for kind in _PARTS for one in read_all[kind]), key=_age):
            parts[part.mark.intent if part.mark else ""].append(part)
        return Inventory(
            read_all["vm"],
            read_all["disk"],
            {one.mark.intent: one for one in read_all["image"] if one.mark},
            {one.cid: one for one in read_all["server_group"]},
            {cid: GroupView.of_wire(view) for cid, view in answer["views"].items()},
            parts,
        )

    def group_of(self, vm: CloudObject, tags: NodeTags) -> str | None:
        """The CID of the group that it is in, by its own mark or by the group's members."""
        if tags.server_group is not None:
            return tags.server_group
        return next((cid for cid, view in self.views.items() if vm.cid in [m.vm_cid for m in view.members]), None)


def _age(thing: CloudObject) -> float:
    return float("inf") if thing.created_at is None else thing.created_at


class RecoveryDraft:
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
        places = Counter(read_node_tags(vm.tags or {}).uuid for vm in inventory.vms)
        for vm in inventory.vms:
            tags = read_node_tags(vm.tags or {})
            if tags.deployment not in (None, self._name):
                continue
            why = self._refusal(vm, tags, inventory, intents, places)
            if why is not None:
                self._leave("vm", tags, cloud, vm, why)
            elif tags.uuid in self._present and self._present[tags.uuid or ""].vm_cid == vm.cid:
                self.found.known += 1
            else:
                self._take_vm(cloud, inventory, vm, tags)
        copied = Counter(disk.mark.intent for disk in inventory.disks if disk.mark)
        for disk in inventory.disks:
            self._add_disk(cloud, disk, copied[disk.mark.intent] if disk.mark else 0)

    def _refusal(
        self,
        vm: CloudObject,
        tags: NodeTags,
        inventory: Inventory,
        intents: Counter[str],
        places: Counter[str | None],
    ) -> str | None:
        """Why this VM cannot be proved to be the node that it claims to be."""
        if tags.deployment is None or tags.uuid is None or tags.instance_group is None or tags.index is None:
            return "it does not say which node it is"
        if vm.mark is None or intents[vm.mark.intent] > 1:
            return "several VMs carry its mark: was it copied?"
        if places[tags.uuid] > 1:
            return "several VMs claim to be this node"
        spec = self._specs.get(tags.instance_group)
        if spec is None or tags.index >= spec.instances:
            return f"the manifest has no {tags.instance_group}/{tags.index}"
        present = self._present.get(tags.uuid)
        if present is not None and present.vm_cid != vm.cid and present.vm_cid in [one.cid for one in inventory.vms]:
            return f"the ledger has VM {present.vm_cid} for this node, and that one is there"
        other = [node for node in self._present.values() if node.name == f"{tags.instance_group}/{tags.index}"]
        if other and other[0].uuid != tags.uuid:
            return f"the ledger has another node {other[0].name}"
        if self._az(spec, vm, tags) is None:
            return "its az is not marked, and the cloud's zone does not tell it"
        if self._addresses(spec, tags) is None:
            return "its addresses are not marked"
        return None

    def _take_vm(self, cloud: str, inventory: Inventory, vm: CloudObject, tags: NodeTags) -> None:
        spec = self._specs[tags.instance_group or ""]
        az, addresses = self._az(spec, vm, tags) or "", self._addresses(spec, tags) or {}
        holder = Holder(self._director, self._name, spec.name) if self._seals else None
        made = SpecMaker(spec, tags.stemcell or self._cells[spec.name], holder).make(az, addresses, member=tags.member)
        same = tags.spec in (None, digest(made))
        problem = None if same else {"code": "recovered", "what": _OTHER_SPEC}
        node = NodeRow(
            uuid=tags.uuid or "",
            deployment=self._name,
            instance_group=spec.name,
            index=tags.index or 0,
            az=az,
            cloud=cloud,
            conductor_group=None,
            inherited_group=next(one.conductor_group for one in spec.azs if one.name == az),
            state=("up" if vm.state in _RUNNING else "dead") if same else "failing",
            spec=made.wire(),
            vm_intent=vm.mark.intent if vm.mark else None,
            vm_cid=vm.cid,
            server_group=self._take_group(cloud, inventory, spec, inventory.group_of(vm, tags)),
            host=vm.host,
            addresses=addresses,
            problem=problem,
        )
        self._present[node.uuid] = node
        self.found.nodes.append(node)
        self._add_object("vm", cloud, vm, node, az=az)
        sure = "as the manifest says" if tags.spec else "assumed to be as the manifest says"
        self._take("vm", node.name, cloud, vm.cid, sure if same else _OTHER_SPEC)
        self._take_image(cloud, inventory, tags)
        self._take_parts(cloud, inventory.parts.get(node.vm_intent or "", ()), node.name, node.vm_intent or "", vm.cid)

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
        self._take_parts(cloud, inventory.parts.get(intent, ()), group.name, intent, cid)
        return intent

    def _take_parts(self, cloud: str, marked: Sequence[CloudObject], name: str, intent: str, owner: str) -> None:
        """Of what bears the mark of the owner: what a VM has, else the oldest of each name, since a copy is younger
        than what it was copied from. That a group uses a security group may be copied with its tags."""
        alike: dict[tuple[str, str], list[CloudObject]] = defaultdict(list)
        for part in marked:
            alike[part.kind, part.name].append(part)
        for several in alike.values():
            used = [part for part in several if part.kind != "security_group" and owner in (part.in_use_by or ())]
            ours = used or several[:1]
            for part in several:
                if part in ours:
                    self.found.parts.append(RecoveredPart(cloud, intent, part.kind, part.name, part.cid))
                    self._take(part.kind, name, cloud, part.cid, f"it came with {owner}")
                else:
                    why = f"it did not come with {owner}, whose mark it has: was it copied?"
                    self.found.items.append(Item(part.kind, name, cloud, part.cid, why, taken=False))

    def _take_image(self, cloud: str, inventory: Inventory, tags: NodeTags) -> None:
        if tags.stemcell is None or tags.image is None or (cloud, tags.stemcell) in self._images:
            return
        image = inventory.images.get(tags.image)
        name, _, version = tags.stemcell.rpartition("/")
        row = stemcell_rows.get(self._tx, name, version)
        cid = image.cid if image else tags.image_cid if row is not None and row.image is None else None
        if cid is None:
            return
        self._images.add((cloud, tags.stemcell))
        self.found.objects.append(
            RecoveredObject(tags.image, "image", cloud, cid, "live", None, None, None, tags.stemcell)
        )
        self._take("image", tags.stemcell, cloud, cid, "VMs of its nodes were made from it")

    def _add_disk(self, cloud: str, disk: CloudObject, alike: int) -> None:
        tags = read_node_tags(disk.tags or {})
        if tags.deployment not in (None, self._name):
            return
        users = disk.in_use_by or ()
        attached = next((node for node in self._present.values() if node.vm_cid in users and node.cloud == cloud), None)
        claimed = self._present.get(tags.uuid or "")
        if attached is None and tags.deployment is None:
            return  # it names no deployment, and no node of this one has it
        node = attached or (claimed if not users else None)
        mine = disk.mark.intent if disk.mark else ""
        held = objects.get(self._tx, mine)
        if held is not None and held.state in objects.OPEN:
            self.found.known += 1
        elif alike > 1:
            self._leave("disk", tags, cloud, disk, "several disks carry its mark: was it copied?")
        elif attached and claimed and attached.uuid != claimed.uuid:
            self._leave("disk", tags, cloud, disk, f"it claims to be of {claimed.name}, and {attached.name} has it")
        elif users and attached is None:
            self._leave("disk", tags, cloud, disk, f"it is attached to {', '.join(users)}, which is no node of ours")
        elif node is not None and self._has_disk(node):
            self._leave("disk", tags, cloud, disk, f"{node.name} has another disk")
        else:
            self._add_object("disk", cloud, disk, node, az=node.az if node else disk.az)
            why = (
                f"attached to {attached.name}"
                if attached
                else "marked with its node"
                if node
                else "kept: no node has it"
            )
            self._take("disk", node.name if node else f"{tags.instance_group}/{tags.index}", cloud, disk.cid, why)

    def _has_disk(self, node: NodeRow) -> bool:
        recorded = [row for row in objects.of_node(self._tx, node.uuid) if row.kind == "disk"]
        return bool(recorded) or any(one.node == node.uuid and one.kind == "disk" for one in self.found.objects)

    def _add_object(self, kind: Any, cloud: str, thing: CloudObject, node: NodeRow | None, *, az: str | None) -> None:
        tags, size, properties = read_node_tags(thing.tags or {}), str((thing.tags or {}).get(SIZE, "")), None
        if kind == "disk":
            spec = self._specs.get(node.instance_group if node else tags.instance_group or "")
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
                ref=node.name if node else f"{tags.instance_group}/{tags.index}",
                size_mb=int(size) if kind == "disk" else 0,
                properties=properties,
            )
        )

    def _az(self, spec: InstanceGroupSpec, vm: CloudObject, tags: NodeTags) -> str | None:
        names = [az.name for az in spec.azs]
        if tags.az is not None:
            return tags.az if tags.az in names else None
        if len(names) == 1:
            return names[0]
        fitting = [
            az.name
            for az in spec.azs
            if vm.az and self._facts[az.cloud].capabilities.zone_of(az.name, az.vm_properties) == vm.az
        ]
        return fitting[0] if len(fitting) == 1 else None

    def _addresses(self, spec: InstanceGroupSpec, tags: NodeTags) -> dict[str, str] | None:
        if tags.addresses is not None:
            return dict(tags.addresses)
        found: dict[str, str] = {}
        for network in spec.networks:
            if network.type == "manual" and not network.static_ips:
                return None
            if network.type == "manual":
                found[network.name] = str(network.static_ips[tags.index or 0])
        return found

    def _take(self, kind: str, name: str, cloud: str, cid: str, why: str) -> None:
        self.found.items.append(Item(kind, name, cloud, cid, why, taken=True))

    def _leave(self, kind: str, tags: NodeTags, cloud: str, thing: CloudObject, why: str) -> None:
        name = f"{tags.instance_group}/{tags.index}" if tags.instance_group else thing.name
        self.found.items.append(Item(kind, name, cloud, thing.cid, why, taken=False))
