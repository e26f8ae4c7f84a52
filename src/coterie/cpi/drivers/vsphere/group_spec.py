"""What a server group is asked to be, and how that is written on the labels of its holder. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from coterie.cpi.contract import ADOPTED_PREFIX, GroupMetadata, InvalidCall, NotSupported
from coterie.cpi.drivers.vsphere.marking import NAME_LIMIT, escaped, unescaped

TOGETHER = ("affinity", "soft-affinity")
APART = ("anti-affinity", "soft-anti-affinity")
POLICIES = frozenset({*TOGETHER, *APART, "host-affinity"})
OPTIONS = ("name", "adopt", "vm_group", "host_group", "rule", "affine")
_LONGEST = 70  # a label is `host_group=NAME`, and the inventory takes 80 characters


@dataclass(frozen=True, slots=True)
class GroupSpec:
    """`name`: of the DRS VM group. `host_group`: keep the members on (or, not `affine`, off) these hosts."""

    policy: str | None
    name: str
    host_group: str | None = None
    rule: str = "must"
    affine: bool = True
    adopted: bool = False

    def same_group(self, other: GroupSpec) -> bool:
        """Whether one can become the other: what it is tied to may change, what it is may not."""
        return (self.policy, self.name) == (other.policy, other.name)

    @property
    def host_rule(self) -> str:
        return f"{self.name[: NAME_LIMIT - 6]}.hosts"

    @property
    def mandatory(self) -> bool:
        """Of the rule between VMs; a soft policy is a wish to DRS."""
        return not str(self.policy).startswith("soft-")


def read_spec(metadata: GroupMetadata, cid: str) -> GroupSpec:
    """The wish, if vSphere can fulfil it."""
    options = metadata.options
    _refuse_impossible(metadata)
    rule, affine = options.get("rule") or "must", options.get("affine", True)
    if rule not in ("must", "should"):
        raise InvalidCall(f"options.rule is {rule!r}", remedy="use must or should")
    if not isinstance(affine, bool):
        raise InvalidCall(f"options.affine is {affine!r}", remedy="say true or false")
    host_group = _name("host_group", options)
    if host_group is None and ("rule" in options or "affine" in options):
        raise InvalidCall(
            "options.rule is given without options.host_group", remedy="name the host group, or leave it out"
        )
    name = _name("vm_group", options) or _automatic(metadata, cid)
    return GroupSpec(metadata.policy, name, host_group, str(rule), affine)


def adopted_spec(cid: str) -> GroupSpec:
    """The spec behind the handle of an operator's group."""
    return GroupSpec(None, cid.removeprefix(ADOPTED_PREFIX), adopted=True)


def wanted_name(options: Mapping[str, Any]) -> str | None:
    """The name that an operator's group may have already."""
    return _name("vm_group", options) or _name("name", options)


def labels(spec: GroupSpec) -> list[str]:
    found = {"policy": spec.policy or "none", "name": spec.name}
    if spec.host_group:
        found |= {"host_group": spec.host_group, "rule": spec.rule, "affine": "yes" if spec.affine else "no"}
    return [f"{key}={escaped(value)}" for key, value in found.items()]


def of_labels(names: Iterable[str]) -> GroupSpec | None:
    """What was written; None while it is not whole."""
    found = dict(unescaped(name).split("=", 1) for name in names if "=" in name)
    if "policy" not in found or "name" not in found:
        return None
    policy = None if found["policy"] == "none" else found["policy"]
    return GroupSpec(
        policy, found["name"], found.get("host_group"), found.get("rule", "must"), found.get("affine", "yes") == "yes"
    )


def _refuse_impossible(metadata: GroupMetadata) -> None:
    for key in metadata.options:
        if key not in OPTIONS:
            raise InvalidCall(f"options.{key} is not known", remedy=f"use one of: {', '.join(OPTIONS)}")
    if metadata.policy is not None and metadata.policy not in POLICIES:
        raise NotSupported(f"policy {metadata.policy!r} is impossible on vSphere", remedy=f"use {', '.join(POLICIES)}")
    if metadata.security_groups:
        raise NotSupported(
            "vCenter has no security groups",
            remedy="leave them out for this cloud; firewalls are the network's business",
        )


def _automatic(metadata: GroupMetadata, cid: str) -> str:
    """Named after what it is for, and unmistakably ours."""
    return f"{metadata.deployment}.{metadata.instance_group}"[: _LONGEST - len(cid) - 1] + f".{cid}"


def _name(key: str, options: Mapping[str, Any]) -> str | None:
    value = options.get(key)
    if value is None:
        return None
    if not isinstance(value, str) or not value or len(escaped(value)) > _LONGEST:
        raise InvalidCall(f"options.{key} is {value!r}", remedy=f"give a name of at most {_LONGEST} characters")
    return value
