"""A world without clouds: snapshots, and what they become when a plan is carried out. For planner tests only."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from coterie.cpi.contract import POLICIES, Capabilities
from coterie.manifest import GroupWish, load_both, resolve
from coterie.plan.model import CloudNow, DiskNow, GroupNow, NodeNow, Plan, Snapshot, StemcellNow
from coterie.plan.nodes import Options
from coterie.plan.planner import make_plan, plan_removal

CONFIG = """
clouds:
- {name: lab, driver: sandbox}
- {name: far, driver: sandbox}
azs:
- {name: z1, cloud: lab, cloud_properties: {zone: z1}}
- {name: z2, cloud: lab, cloud_properties: {zone: z2}}
- {name: f1, cloud: far, cloud_properties: {zone: z1}}
vm_types:
- {name: small, cloud_properties: {cpu: 1, ram_mb: 1024}}
- {name: big, cloud_properties: {cpu: 8, ram_mb: 8192}}
disk_types:
- {name: fast, disk_size: 2048, cloud_properties: {kind: ssd}}
networks:
- name: net
  type: manual
  subnets:
  - {range: 10.1.0.0/16, gateway: 10.1.0.1, azs: [z1], static: [10.1.9.0 - 10.1.9.200]}
  - {range: 10.2.0.0/16, gateway: 10.2.0.1, azs: [z2], static: [10.2.9.0 - 10.2.9.200]}
  - {range: 10.3.0.0/16, gateway: 10.3.0.1, azs: [f1]}
"""


def manifest(*groups: str, extra: str = "") -> str:
    listed = "\n".join(f"- {{{group}}}" for group in groups)
    return (
        "name: dep\n"
        "stemcells:\n- {alias: default, name: debian, version: '1'}\n- {alias: next, name: debian, version: '2'}\n"
        f"instance_groups:\n{listed}\n{extra}"
    )


def group(name: str, instances: int, azs: str = "z1, z2", more: str = "", stemcell: str = "default") -> str:
    text = f"name: {name}, instances: {instances}, azs: [{azs}], vm_type: small, stemcell: {stemcell}"
    if "networks:" not in more:
        text += ", networks: [{name: net}]"
    return text + (f", {more}" if more else "")


def wishes(text: str) -> list[GroupWish]:
    deployment, config = load_both((text, "m.yml"), (CONFIG, "c.yml"))
    return resolve(deployment.value, config.value)


def cloud(name: str, **capabilities: Any) -> CloudNow:
    able = {"policies": frozenset(POLICIES), "resize_disk": True, **capabilities}
    return CloudNow(name, "sandbox", "", Capabilities("sandbox", **able))


@dataclass
class World:
    """The ledger's part of a snapshot, and the pure carrying-out of plans on it."""

    clouds: dict[str, CloudNow] = field(default_factory=lambda: {"lab": cloud("lab"), "far": cloud("far")})
    nodes: dict[str, NodeNow] = field(default_factory=dict)
    groups: dict[str, GroupNow] = field(default_factory=dict)
    images: dict[tuple[str, str], str] = field(default_factory=dict)
    made: int = 0

    def snapshot(self) -> Snapshot:
        return Snapshot(
            director={"name": "dir", "uuid": "u"},
            deployment="dep",
            nodes=tuple(sorted(self.nodes.values(), key=lambda n: (n.instance_group, n.index))),
            groups=tuple(self.groups.values()),
            clouds=self.clouds,
            stemcells=(StemcellNow("debian", "1", "deb"), StemcellNow("debian", "2", "deb")),
            images=dict(self.images),
            images_left={},
            images_used_elsewhere=frozenset(),
            taken={},
        )

    def plan(self, text: str, **options: Any) -> Plan:
        return make_plan(self.snapshot(), wishes(text), Options(**options))

    def remove(self, delete_disks: bool = False) -> Plan:
        return plan_removal(self.snapshot(), delete_disks)

    def deploy(self, text: str, **options: Any) -> Plan:
        plan = self.plan(text, **options)
        self.carry_out(plan)
        return plan

    def carry_out(self, plan: Plan) -> None:
        new = {c.subject: self._intent() for c in plan.changes if c.kind == "group" and c.action == "create"}
        for change in plan.changes:
            getattr(self, f"_{change.kind}")(change, new)

    def _stemcell(self, change: Any, new: dict[str, str]) -> None:
        key = (change.cloud, change.details["stemcell"])
        if change.action == "create":
            self.images[key] = self._intent()
        else:
            del self.images[key]

    def _group(self, change: Any, new: dict[str, str]) -> None:
        if change.action == "delete":
            del self.groups[change.details["intent"]]
            return
        intent = change.details.get("intent") or new[change.subject]
        name = change.subject.partition("@")[0]
        self.groups[intent] = GroupNow(
            intent, name, change.cloud, f"cg-{intent}", "live", change.details["metadata"], False
        )

    def _node(self, change: Any, new: dict[str, str]) -> None:
        details = change.details
        if change.action == "delete":
            del self.nodes[change.subject]
            return
        old = self.nodes.get(change.subject)
        ref = details["server_group"]
        wanted = details["wish"]["disk"]
        disk = DiskNow("d", wanted["size_mb"], wanted["cloud_properties"]) if wanted else None
        self.nodes[change.subject] = NodeNow(
            uuid=old.uuid if old else self._intent(),
            instance_group=details["instance_group"],
            index=details["index"],
            az=details["wish"]["az"],
            cloud=change.cloud,
            state="up",
            spec=details["wish"],
            server_group=(ref.get("intent") or new[ref["new"]]) if ref else None,
            addresses=details["addresses"],
            disk=disk,
            has_vm=True,
        )

    def alter(self, name: str, **values: Any) -> None:
        self.nodes[name] = replace(self.nodes[name], **values)

    def _intent(self) -> str:
        self.made += 1
        return f"i{self.made:025d}"
