"""The groups and rules of a cluster, as they were read from it or shall be written to it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Op = Literal["add", "edit", "remove"]


@dataclass(frozen=True, slots=True)
class Group:
    name: str
    of_hosts: bool
    members: tuple[str, ...]
    unique_id: str | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """`kind`: apart and together are between VMs, hosts ties a VM group to a host group, other is not ours."""

    name: str
    kind: Literal["apart", "together", "hosts", "other"]
    vms: tuple[str, ...] = ()
    vm_group: str | None = None
    host_group: str | None = None
    affine: bool = True
    mandatory: bool = False
    enabled: bool = True
    key: int | None = None


@dataclass(frozen=True, slots=True)
class ClusterView:
    name: str
    drs: bool
    groups: Mapping[str, Group]
    rules: Mapping[str, Rule]

    def vm_group(self, name: str) -> Group | None:
        """By name, or by the identifier that the vCenter gave it."""
        found = self.groups.get(name) or next((g for g in self.groups.values() if g.unique_id == name), None)
        return found if found and not found.of_hosts else None

    def host_group(self, name: str) -> Group | None:
        found = self.groups.get(name) or next((g for g in self.groups.values() if g.unique_id == name), None)
        return found if found and found.of_hosts else None

    def about(self, group: str) -> list[Rule]:
        """Rules that tie this VM group to hosts."""
        return [rule for rule in self.rules.values() if rule.vm_group == group]
