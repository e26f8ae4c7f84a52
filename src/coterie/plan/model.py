"""What the planner reads and what it says. Plain values; equal inputs give equal plans, to the byte."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from coterie.cpi.contract import Capabilities

Action = Literal["create", "adopt", "recreate", "update", "delete", "leave"]  # an operator's group is adopted and left
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
    """One whose node is gone."""

    intent: str
    cid: str
    ref: str  # the node that it was of
    cloud: str
    az: str | None
    size_mb: int


@dataclass(frozen=True, slots=True)
class NodeNow:
    uuid: str
    instance_group: str
    index: int
    az: str
    cloud: str
    state: str
    spec: Json | None
    server_group: str | None  # intent
    addresses: Mapping[str, str]
    disk: DiskNow | None
    has_vm: bool
    problem: str = ""

    @property
    def name(self) -> str:
        return f"{self.instance_group}/{self.index}"


@dataclass(frozen=True, slots=True)
class GroupNow:
    intent: str
    name: str
    cloud: str
    cid: str | None
    state: str
    metadata: Json
    adopted: bool


@dataclass(frozen=True, slots=True)
class CloudNow:
    """A configured cloud and what it said when it was asked last."""

    name: str
    driver: str
    conductor_group: str
    capabilities: Capabilities
    checks: tuple[Json, ...] = ()
    missing_groups: frozenset[str] = frozenset()  # CIDs that the cloud says are gone
    mendable_groups: frozenset[str] = frozenset()  # those of them that an update makes again, with their members
    group_policies: Mapping[str, str | None] = field(default_factory=dict)  # what those that are there promise, by CID

    def fact(self, what: str, name: str) -> Any:
        """What `check` read on the way: e.g. fact("hosts", "hosts"). None: unknown."""
        for item in self.checks:
            if item["what"] == what and item.get("facts"):
                return item["facts"].get(name)
        return None


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
    kept: tuple[KeptDisk, ...] = ()


# -- what shall be done --


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that will be done, to whom, and why."""

    action: Action
    kind: ChangeKind
    subject: str
    reason: str
    cloud: str
    az: str | None = None
    destructive: bool = False
    details: Json = field(default_factory=dict)  # what execution needs; nothing is left to decide later

    def wire(self) -> Json:
        return {
            "action": self.action,
            "kind": self.kind,
            "subject": self.subject,
            "reason": self.reason,
            "cloud": self.cloud,
            "az": self.az,
            "destructive": self.destructive,
            "details": self.details,
        }


@dataclass(frozen=True, slots=True)
class Rollout:
    """How the nodes of one instance group are changed."""

    instance_group: str
    canaries: int
    max_in_flight: int
    serial: bool


@dataclass(frozen=True, slots=True)
class Plan:
    deployment: str
    changes: tuple[Change, ...]
    rollouts: tuple[Rollout, ...] = ()
    # instance group → its server groups: {"intent"} or {"new"}; None: as they are
    users: tuple[tuple[str, Json], ...] | None = ()
    notes: tuple[str, ...] = ()
    deletes_deployment: bool = False

    @property
    def id(self) -> str:
        """Names this plan by its content: a plan made from another state that says the same is the same plan."""
        text = json.dumps(self._content(), sort_keys=True, separators=(",", ":"))
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
        return {"id": self.id, "counts": self.counts(), "destructive": self.destructive, **self._content()}

    def _content(self) -> Json:
        return {
            "deployment": self.deployment,
            "changes": [change.wire() for change in self.changes],
            "rollouts": [asdict(rollout) for rollout in self.rollouts],
            "users": [list(user) for user in self.users or ()],
            "notes": list(self.notes),
            "deletes_deployment": self.deletes_deployment,
        }
