"""A world without clouds: snapshots, and what they become when a plan is carried out. For planner tests only."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field, replace
from typing import Any

from coterie.cpi.contract import POLICIES, Capabilities
from coterie.manifest import InstanceGroupSpec, load_both, resolve
from coterie.plan.model import (
    Change,
    CloudNow,
    DiskNow,
    GroupChange,
    GroupNow,
    NodeNow,
    Plan,
    Snapshot,
    StemcellNow,
)
from coterie.plan.nodes import Options
from coterie.plan.planner import make_plan, plan_removal
from coterie.plan.stages import Stage, stages

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


def group_specs(text: str) -> list[InstanceGroupSpec]:
    deployment, config = load_both((text, "m.yml"), (CONFIG, "c.yml"))
    return resolve(deployment.value, config.value)


def cloud(name: str, **capabilities: Any) -> CloudNow:
    able = {"policies": frozenset(POLICIES), "resize_disk": True, **capabilities}
    return CloudNow(name, "sandbox", "", Capabilities("sandbox", **{"zone_property": "zone", **able}))


@dataclass
class World:
    """The ledger's part of a snapshot, and the pure carrying-out of plans on it."""

    clouds: dict[str, CloudNow] = field(default_factory=lambda: {"lab": cloud("lab"), "far": cloud("far")})
    nodes: dict[str, NodeNow] = field(default_factory=dict)
    groups: dict[str, GroupNow] = field(default_factory=dict)
    images: dict[tuple[str, str], str] = field(default_factory=dict)
    images_used_elsewhere: frozenset[tuple[str, str]] = frozenset()
    made: int = 0
    resurrection: bool | None = None

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
            images_used_elsewhere=self.images_used_elsewhere,
            taken={},
            resurrection=self.resurrection,
        )

    def plan(self, text: str, **options: Any) -> Plan:
        return make_plan(self.snapshot(), group_specs(text), Options(**options))

    def remove(self, delete_disks: bool = False) -> Plan:
        return plan_removal(self.snapshot(), delete_disks)

    def deploy(self, text: str, **options: Any) -> Plan:
        plan = self.plan(text, **options)
        self.carry_out(plan)
        return plan

    def carry_out(self, plan: Plan) -> None:
        self.carry_out_partly(plan, ())

    def carry_out_partly(self, plan: Plan, failing: Container[str]) -> None:
        """As a task does: rows first, then stage by stage, where a failure stops what needs its stage done.
        `failing`: the subjects whose changes fail."""
        new = self._accept(plan)
        ended: list[bool] = []  # stage → whether it is done; False: failed or skipped
        for stage in stages(plan):
            if any(how == "done" and not ended[n] for n, how in stage.needs):
                ended.append(False)
                continue
            ended.append(self._carry_out_stage(stage, new, failing))

    def _carry_out_stage(self, stage: Stage, new: dict[str, str], failing: Container[str]) -> bool:
        done = True
        for change in stage.changes:
            if done or not stage.stop_on_failure:
                done &= self._carry_out_one(change, new, failing)
        return done

    def _accept(self, plan: Plan) -> dict[str, str]:
        new = {}
        for change in plan.changes:
            if isinstance(change.details, GroupChange) and change.details.intent is None:
                new[change.subject] = intent = self._intent()
                self._know_group(change, intent, "intended")
            if change.kind == "node" and change.action == "create":
                self._know_node(change, state="planned", spec=None, server_group=None, disk=None, has_vm=False)
        return new

    def _carry_out_one(self, change: Change, new: dict[str, str], failing: Container[str]) -> bool:
        if change.kind == "group" and change.action in ("delete", "leave"):
            intent = change.details.intent
            if any(node.has_vm and node.server_group == intent for node in self.nodes.values()):
                return False
        if change.subject not in failing:
            getattr(self, f"_{change.kind}")(change, new)
            return True
        if change.kind == "node":
            self._fail(change)
        return False

    def _fail(self, change: Change) -> None:
        """Some are left with the VM that they had, some with none."""
        self.alter(change.subject, state="failing", problem="no luck")
        if change.action != "delete" and change.details.index % 2:
            self.alter(change.subject, server_group=None, has_vm=False)

    def _stemcell(self, change: Change, new: dict[str, str]) -> None:
        key = (change.cloud, change.details.stemcell)
        if change.action == "create":
            self.images[key] = self._intent()
        else:
            del self.images[key]

    def _group(self, change: Change, new: dict[str, str]) -> None:
        if change.action in ("delete", "leave"):
            del self.groups[change.details.intent]
            return
        self._know_group(change, change.details.intent or new[change.subject], "live")

    def _know_group(self, change: Change, intent: str, state: str) -> None:
        name, _, cloud = change.subject.partition("@")
        metadata = change.details.metadata
        cid = f"cg-{intent}" if state == "live" else None
        adopted = bool(metadata.options.get("adopt"))
        self.groups[intent] = GroupNow(intent, name, cloud, cid, state, metadata, adopted)

    def _node(self, change: Change, new: dict[str, str]) -> None:
        details = change.details
        if change.action == "delete":
            del self.nodes[change.subject]
            return
        ref, wanted = details.server_group, details.spec.disk
        self._know_node(
            change,
            state="up",
            spec=details.spec,
            server_group=(ref.intent or new[ref.new]) if ref else None,
            disk=DiskNow("d", wanted.size_mb, dict(wanted.cloud_properties)) if wanted else None,
            has_vm=True,
        )

    def _know_node(self, change: Change, **values: Any) -> None:
        old = self.nodes.get(change.subject)
        self.nodes[change.subject] = NodeNow(
            uuid=old.uuid if old else self._intent(),
            instance_group=change.details.instance_group,
            index=change.details.index,
            az=change.details.spec.az,
            cloud=change.cloud,
            addresses=change.details.addresses,
            **values,
        )

    def alter(self, name: str, **values: Any) -> None:
        self.nodes[name] = replace(self.nodes[name], **values)

    def _intent(self) -> str:
        self.made += 1
        return f"i{self.made:025d}"
