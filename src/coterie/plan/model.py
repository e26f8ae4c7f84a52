"""What the planner reads and what it says. Plain values; equal inputs give equal plans, to the byte."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

from coterie.cpi.contract import Capabilities, GroupMetadata, SecurityRule
from coterie.plan.spec import NodeSpec

# "leave": an operator's server group, which was adopted; an image that other deployments use
Action = Literal["create", "adopt", "recreate", "update", "restart", "stop", "start", "delete", "leave"]
ChangeKind = Literal["stemcell", "group", "node", "disk"]
Json = dict[str, Any]


# -- what is: the ledger's memory and the clouds' facts --


@dataclass(frozen=True, slots=True)
class DiskNow:
    intent: str
    size_mb: int
    cloud_properties: Json


@dataclass(frozen=True, slots=True)
class KeptDisk:
    """One whose node is gone. `free`: a node can have it; its deletion was not begun."""

    intent: str
    cid: str
    ref: str  # the node that it was of
    cloud: str
    az: str | None
    size_mb: int
    deployment: str = ""
    free: bool = True

    def wire(self) -> Json:
        return {"intent": self.intent, "cid": self.cid, "size_mb": self.size_mb, "of": self.name}

    @property
    def name(self) -> str:
        return f"{self.deployment}/{self.ref}" if self.deployment else self.ref


@dataclass(frozen=True, slots=True)
class NodeNow:
    uuid: str
    instance_group: str
    index: int
    az: str
    cloud: str
    state: str
    spec: NodeSpec | None
    server_group: str | None  # intent
    addresses: Mapping[str, str]
    disk: DiskNow | None
    has_vm: bool
    problem: str = ""
    unhealthy: bool = False  # its VM runs, and its health check fails
    lost: bool = False  # it failed so often that the node may be recreated
    parts: tuple[str, ...] = ()  # kind and id of what came with its VM

    @property
    def name(self) -> str:
        return f"{self.instance_group}/{self.index}"

    @property
    def never_made(self) -> bool:
        """Nothing of it was ever created, or all that was is gone: an earlier task failed or was cancelled."""
        return self.spec is None and not self.has_vm and self.disk is None and self.state in ("planned", "failing")


@dataclass(frozen=True, slots=True)
class GroupNow:
    intent: str
    name: str
    cloud: str
    cid: str | None
    state: str
    metadata: GroupMetadata
    adopted: bool
    parts: tuple[str, ...] = ()  # kind and id of what came with it


def with_parts(reason: str, parts: Sequence[str]) -> str:
    """The reason of a deletion, and the ids of what came with the object: of that goes what nothing else uses."""
    return f"{reason}; with it goes what is unused of: {', '.join(parts)}" if parts else reason


@dataclass(frozen=True, slots=True)
class CloudNow:
    """A configured cloud and what it said when it was asked last."""

    name: str
    driver: str
    conductor_group: str
    capabilities: Capabilities
    checks: tuple[Json, ...] = ()
    missing_groups: frozenset[str] = frozenset()  # CIDs that the cloud says are gone
    mendable_groups: frozenset[str] = frozenset()  # missing or changed ones that an update mends, with their members
    group_policies: Mapping[str, str | None] = field(default_factory=dict)  # what those that are there promise, by CID
    # CID → name → rules of each security group that we created
    group_rules: Mapping[str, Mapping[str, tuple[SecurityRule, ...]]] = field(default_factory=dict)
    operators_security_groups: frozenset[str] = frozenset()  # names of those that our server groups have

    def fact(self, what: str, name: str) -> Any:
        """What `check` read on the way: e.g. fact("hosts", "hosts"). None: unknown."""
        for item in self.checks:
            if item["what"] == what and item.get("facts"):
                return item["facts"].get(name)
        return None


@dataclass(frozen=True, slots=True)
class SecurityGroupOwners:
    """`holders`: (cloud, name) → the deployment that a security group belongs to. `teams`: of these deployments.
    `limits`: the teams of the planned deployment; None: it belongs to none, and may adopt any. `shared`: (cloud, name)
    of those that every team may adopt."""

    holders: Mapping[tuple[str, str], str] = field(default_factory=dict)
    teams: Mapping[str, str] = field(default_factory=dict)
    limits: frozenset[str] | None = None
    shared: frozenset[tuple[str, str]] = frozenset()

    def may_adopt(self, cloud: str, name: str, holder: str | None) -> bool:
        """`holder` None: an operator's."""
        if self.limits is None or (cloud, name) in self.shared:
            return True
        return holder is not None and self.teams.get(holder) in self.limits


@dataclass(frozen=True, slots=True)
class StemcellNow:
    name: str
    version: str
    os: str | None

    @property
    def ref(self) -> str:
        return f"{self.name}/{self.version}"


@dataclass(frozen=True, slots=True)
class Snapshot:
    director: Mapping[str, str]  # name, uuid
    deployment: str
    nodes: tuple[NodeNow, ...]
    groups: tuple[GroupNow, ...]
    clouds: Mapping[str, CloudNow]
    stemcells: tuple[StemcellNow, ...]  # the catalogue, in the order of its coming
    images: Mapping[tuple[str, str], str]  # (cloud, "name/version") that is there or on its way → intent
    images_left: Mapping[tuple[str, str], str]  # begun by an upload that did not finish → intent
    images_used_elsewhere: frozenset[tuple[str, str]]  # by nodes of other deployments
    taken: Mapping[str, frozenset[str]]  # network → addresses of other deployments
    kept: tuple[KeptDisk, ...] = ()  # of this deployment
    kept_elsewhere: tuple[KeptDisk, ...] = ()  # of others whose disks the manifest asks for
    security_groups: SecurityGroupOwners = field(default_factory=SecurityGroupOwners)
    seals: bool = False  # secrets of machines are stored sealed
    resurrection: bool | None = None  # None: the deployment is new
    doubtful: frozenset[str] = frozenset()  # clouds in which too many nodes are lost to believe it


# -- what shall be done --


@dataclass(frozen=True, slots=True)
class ServerGroupRef:
    """A server group of a plan: by `intent` one that is there, by `new` (a subject) one that the plan makes."""

    intent: str | None = None
    new: str | None = None

    def wire(self) -> Json:
        return {"new": self.new} if self.intent is None else {"intent": self.intent}


@dataclass(frozen=True, slots=True)
class NodeChange:
    """A node to create, recreate, update, restart, stop or start. `takes`: the kept disk that it gets. The fields after
    that are of nodes that are there."""

    instance_group: str
    index: int
    spec: NodeSpec
    addresses: Mapping[str, str]
    server_group: ServerGroupRef | None
    takes: KeptDisk | None = None
    node: str | None = None  # uuid
    gains: Mapping[str, str] = field(default_factory=dict)  # network → address
    leaves: Mapping[str, str] = field(default_factory=dict)
    regrouped: bool | None = None  # its VM changes its server group in place
    disk_changes: bool | None = None
    renamed_from: str | None = None  # its name before
    leaves_disk: str | None = None  # intent of the disk that stays in the az that the node leaves
    stays_stopped: bool = False  # the change takes effect when it is started
    replaces_disk: DiskRemoval | None = None  # it runs, and the disk that it takes comes in the place of this one
    attaches: bool = False  # it runs, and is given the disk that it takes by a request for that alone
    open_networks: tuple[str, ...] = ()  # of a new node: it gets the address in `addresses`, or the next that is free

    @property
    def may_be_canary(self) -> bool:
        """Whether its step shows if machines work by the new spec: one that stays stopped proves nothing, and disks are
        changed after all machines."""
        return not self.stays_stopped and not self.disk_changes

    @property
    def without_open_addresses(self) -> NodeChange:
        addresses = {name: ip for name, ip in self.addresses.items() if name not in self.open_networks}
        gains = {name: ip for name, ip in self.gains.items() if name not in self.open_networks}
        networks = {
            name: {key: value for key, value in entry.items() if key != "ip" or name not in self.open_networks}
            for name, entry in self.spec.networks.items()
        }
        return replace(self, spec=replace(self.spec, networks=networks), addresses=addresses, gains=gains)

    def wire(self) -> Json:
        shown: Json = {
            "instance_group": self.instance_group,
            "index": self.index,
            "wish": self.spec.wire(),
            "addresses": dict(self.addresses),
            "server_group": self.server_group.wire() if self.server_group else None,
        }
        if self.node is not None:
            shown.update(node=self.node, gains=dict(self.gains), leaves=dict(self.leaves))
        if self.regrouped is not None:
            shown["regrouped"] = self.regrouped
        if self.disk_changes is not None:
            shown["disk_changes"] = self.disk_changes
        if self.takes is not None:
            shown["takes"] = self.takes.wire()
        for name in ("renamed_from", "leaves_disk", "stays_stopped", "attaches"):
            if getattr(self, name):
                shown[name] = getattr(self, name)
        if self.open_networks:
            shown["open_networks"] = list(self.open_networks)
        if self.replaces_disk is not None:
            shown["replaces_disk"] = self.replaces_disk.wire()
        return shown


@dataclass(frozen=True, slots=True)
class NodeRemoval:
    node: str
    instance_group: str
    delete_disks: bool

    def wire(self) -> Json:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class GroupChange:
    """A server group to create, adopt or update. `intent` None: it has no row yet. `rules`: a line for each rule of its
    security groups that comes or goes."""

    name: str
    metadata: GroupMetadata
    intent: str | None = None
    cid: str | None = None
    rules: tuple[str, ...] = ()

    def wire(self) -> Json:
        shown: Json = {"name": self.name, "metadata": self.metadata.wire()}
        if self.rules:
            shown["rules"] = list(self.rules)
        return shown if self.intent is None else {**shown, "intent": self.intent, "cid": self.cid}


@dataclass(frozen=True, slots=True)
class GroupRemoval:
    intent: str
    cid: str | None

    def wire(self) -> Json:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class StemcellUpload:
    """`intent`: of an upload that was begun and did not finish."""

    stemcell: str
    intent: str | None = None

    def wire(self) -> Json:
        return asdict(self) if self.intent is not None else {"stemcell": self.stemcell}


@dataclass(frozen=True, slots=True)
class StemcellRemoval:
    stemcell: str
    intent: str

    def wire(self) -> Json:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class DiskRemoval:
    intent: str
    cid: str

    def wire(self) -> Json:
        return asdict(self)


Details = NodeChange | NodeRemoval | GroupChange | GroupRemoval | StemcellUpload | StemcellRemoval | DiskRemoval


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that will be done, to what, and why. `details`: all that its step needs; no decision is left to it, but
    for an image: it goes if no node uses it when the step runs."""

    action: Action
    kind: ChangeKind
    subject: str
    reason: str
    cloud: str
    details: Details
    az: str | None = None
    destructive: bool = False

    @property
    def lasting(self) -> Change:
        """Without what may turn out otherwise when it is carried out."""
        details = self.details
        return replace(self, details=details.without_open_addresses) if isinstance(details, NodeChange) else self

    def wire(self) -> Json:
        return {
            "action": self.action,
            "kind": self.kind,
            "subject": self.subject,
            "reason": self.reason,
            "cloud": self.cloud,
            "az": self.az,
            "destructive": self.destructive,
            "details": self.details.wire(),
        }


@dataclass(frozen=True, slots=True)
class Rollout:
    """How the nodes of one instance group are changed."""

    instance_group: str
    canaries: int
    max_in_flight: int
    serial: bool


@dataclass(frozen=True)
class Plan:
    deployment: str
    changes: tuple[Change, ...]
    rollouts: tuple[Rollout, ...] = ()
    users: tuple[tuple[str, ServerGroupRef], ...] | None = ()  # instance group → its server groups; None: as they are
    notes: tuple[str, ...] = ()
    deletes_deployment: bool = False
    switches: tuple[str, ...] = ()  # what is switched on or off for the whole deployment
    server_group_names: tuple[tuple[str, str], ...] = ()  # intents of those that get another name, with the name
    offers: tuple[tuple[str, KeptDisk], ...] = ()  # kept disks that new nodes could have; no part of the plan itself

    @cached_property  # of a large plan it takes as long as the plan
    def id(self) -> str:
        """Names this plan by its content: a plan made from another state that says the same is the same plan. Without
        what other deployments may be faster with: which free address a new node gets, and who brings or removes an
        image."""
        changes = [change.lasting for change in self.changes if change.kind != "stemcell"]
        content = {**self._content(), "changes": [change.wire() for change in changes]}
        text = json.dumps(content, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:20]

    @property
    def destructive(self) -> bool:
        return any(change.destructive for change in self.changes)

    def counts(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for change in self.changes:
            found[change.action] = found.get(change.action, 0) + 1
        return found

    def to_json(self) -> Json:
        return {
            "id": self.id,
            "counts": self.counts(),
            "destructive": self.destructive,
            **self._content(),
            **self._offers(),
        }

    def _offers(self) -> Json:
        return {"offers": [{"node": node, **disk.wire()} for node, disk in self.offers]}

    def _content(self) -> Json:
        return {
            "deployment": self.deployment,
            "changes": [change.wire() for change in self.changes],
            "rollouts": [asdict(rollout) for rollout in self.rollouts],
            "users": [[name, group.wire()] for name, group in self.users or ()],
            "notes": list(self.notes),
            "deletes_deployment": self.deletes_deployment,
            "switches": list(self.switches),
            **({"server_group_names": dict(self.server_group_names)} if self.server_group_names else {}),
        }
