"""What a cloud can do, declared by its driver, so that the planner refuses the impossible before anything is made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

# atomic: set by the creating call · later: a tag after it · name: inside the name · none: cannot be marked
Marking = Literal["atomic", "later", "name", "none"]


@dataclass(frozen=True, slots=True)
class Reason:
    """Why the vendor cannot do something, and where that is written."""

    why: str
    citation: str


@dataclass(frozen=True, slots=True)
class Capabilities:
    driver: str
    policies: frozenset[str] = frozenset()
    kinds: Mapping[str, Marking] = field(default_factory=dict)  # the kinds it creates
    filtered: frozenset[str] = frozenset()  # kinds whose survey the cloud itself filters by owner
    empty_groups: bool = True  # False: create_server_group only reserves, the first join materialises
    max_groups: int | None = None
    max_group_members: int | None = None
    moves_members: bool = False  # a living VM can join and leave a group, so nobody is made anew for that
    group_changes: frozenset[str] = frozenset()  # options of a living group that update_server_group changes in place
    grants: bool = False  # it can give a user of the cloud the rights that it needs
    boots_per_soft_group: int | None = None  # parallel boots that a soft policy survives; None: any number
    resize_disk: bool = False
    snapshots: bool = False
    managed_networks: bool = False
    host_visibility: bool = False
    zone_property: str | None = None  # the cloud property of an az that names the cloud's zone; None: the az's own name
    settle_s: float = 30.0  # how long after a lost answer an object may still turn up
    max_parallel_calls: int = 32
    unsupported: Mapping[str, Reason] = field(default_factory=dict)  # method → why the vendor cannot

    @property
    def finds(self) -> bool:
        """Whether an unknown outcome can be settled by asking the cloud."""
        return "find" not in self.unsupported

    def zone_of(self, az: str, cloud_properties: Mapping[str, Any]) -> str:
        """The cloud's own name for an az of the cloud config."""
        named = cloud_properties.get(self.zone_property) if self.zone_property else None
        return str(named or az)

    def wire(self) -> dict[str, Any]:
        value = asdict(self)
        value["policies"] = sorted(self.policies)
        value["filtered"] = sorted(self.filtered)
        value["group_changes"] = sorted(self.group_changes)
        return value

    @staticmethod
    def of_wire(value: Mapping[str, Any]) -> Capabilities:
        fields = dict(value)
        fields["policies"] = frozenset(value["policies"])
        fields["filtered"] = frozenset(value["filtered"])
        fields["group_changes"] = frozenset(value.get("group_changes", ()))  # an older conductor says nothing of it
        fields["unsupported"] = {m: Reason(**r) for m, r in value["unsupported"].items()}
        return Capabilities(**fields)
