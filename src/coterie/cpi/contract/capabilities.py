"""What a cloud can do, declared by its driver, so that the planner refuses the impossible before anything is made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from coterie.slotted import asdict, dataclass, field, fields

# atomic: set by the creating call · later: a tag after it · name: inside the name · none: cannot be marked
Marking = Literal["atomic", "later", "name", "none"]

# A Director of release 0.1.0 fails on keys that it does not know, so conductors publish newer ones beside the others.
_AFTER_0_1_0 = ("zone_property", "group_limits", "domains", "client_tokens", "group_privilege")


@dataclass(frozen=True, slots=True)
class Reason:
    """Why the vendor cannot do something, and where that is written."""

    why: str
    citation: str


@dataclass(frozen=True, slots=True)
class GroupLimit:
    """How many members a server group may have: in all, and in one of the cloud's azs. None: any number."""

    members: int | None = None
    members_per_az: int | None = None


@dataclass(frozen=True, slots=True)
class Capabilities:
    driver: str
    policies: frozenset[str] = frozenset()
    kinds: Mapping[str, Marking] = field(default_factory=dict)  # the kinds it creates
    filtered: frozenset[str] = frozenset()  # kinds whose survey the cloud itself filters by owner
    max_groups: int | None = None
    group_limits: Mapping[str, GroupLimit] = field(default_factory=dict)  # policy → how large its groups may be
    max_group_members: int | None = None  # of every policy; releases before `group_limits` know only this one
    moves_members: bool = False  # a living VM can join and leave a group, so no VM is recreated for that
    group_changes: frozenset[str] = frozenset()  # options of a living group that update_server_group changes in place
    group_privilege: str | None = None  # what groups need beyond VMs; coterie-cpi makes none unless it is told to
    grants: bool = False  # it can give a user of the cloud the rights that it needs
    boots_per_soft_group: int | None = None  # parallel boots that a soft policy survives; None: any number
    resize_disk: bool = False
    host_visibility: bool = False  # it shows which host a VM is on, so that placement can be verified
    domains: Mapping[str, str] = field(default_factory=dict)
    """Policy → the cloud's word for the failure domains that members of such a group are reported in: fault domain,
    partition, availability domain. Without an entry the policy is about hosts, and is verified by hosts alone."""
    zone_property: str | None = None  # the cloud property of an az that names the cloud's zone; None: the az's own name
    settle_s: float = 30.0  # how long after a lost answer an object may still turn up
    client_tokens: frozenset[str] = frozenset()
    """Kinds whose creating call takes a token: repeated under its mark with the same arguments it answers the first
    object, also while the first call is still on its way. A lost answer is settled by repeating the call."""
    max_parallel_calls: int = 32
    unsupported: Mapping[str, Reason] = field(default_factory=dict)  # method → why the vendor cannot

    @property
    def finds(self) -> bool:
        """Whether an unknown outcome can be settled by asking the cloud."""
        return "find" not in self.unsupported

    def group_limit(self, policy: str | None) -> GroupLimit:
        """The limit of this policy's groups. None: of groups that only share security groups, which have none."""
        if policy is None:
            return GroupLimit()
        own = self.group_limits.get(policy, GroupLimit())
        known = [one for one in (own.members, self.max_group_members) if one is not None]
        return GroupLimit(min(known, default=None), own.members_per_az)

    def zone_of(self, az: str, cloud_properties: Mapping[str, Any]) -> str:
        """The cloud's own name for an az of the cloud config."""
        named = cloud_properties.get(self.zone_property) if self.zone_property else None
        return str(named or az)

    def wire(self) -> dict[str, Any]:
        value = asdict(self)
        value["policies"] = sorted(self.policies)
        value["filtered"] = sorted(self.filtered)
        value["group_changes"] = sorted(self.group_changes)
        value["client_tokens"] = sorted(self.client_tokens)
        return value

    def publish(self) -> dict[str, Any]:
        """As a conductor answers a Director, which may be of an older release."""
        known = self.wire()
        return {"capabilities_added": {name: known.pop(name) for name in _AFTER_0_1_0}, "capabilities": known}

    @staticmethod
    def of_published(answer: Mapping[str, Any]) -> Capabilities:
        return Capabilities.of_wire({**answer["capabilities"], **answer.get("capabilities_added", {})})

    @staticmethod
    def of_wire(value: Mapping[str, Any]) -> Capabilities:
        """Of any release: what this one does not know is ignored, what is missing has its default."""
        known = {one.name: value[one.name] for one in fields(Capabilities) if one.name in value}
        for name in ("policies", "filtered", "group_changes", "client_tokens"):
            known[name] = frozenset(value.get(name, ()))
        limits = value.get("group_limits", {})
        known["group_limits"] = {
            policy: GroupLimit(one.get("members"), one.get("members_per_az")) for policy, one in limits.items()
        }
        reasons = value.get("unsupported", {})
        known["unsupported"] = {method: Reason(one["why"], one["citation"]) for method, one in reasons.items()}
        return Capabilities(**known)
