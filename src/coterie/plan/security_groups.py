"""Security groups in a plan: whose they are, which may be adopted, and which rules come and go."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from coterie.cpi.contract import GroupMetadata, SecurityGroup, compare_rules, read_rules
from coterie.plan.model import Change, GroupChange, Snapshot


@dataclass(slots=True)
class SecurityGroupPlan:
    refusals: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def assign(
    plan: SecurityGroupPlan, snapshot: Snapshot, cloud: str, requests: Iterable[SecurityGroup]
) -> tuple[SecurityGroup, ...]:
    """The same security groups; one that is not the deployment's own is adopted, or refused.

    Release 0.1.0 used any that had the name. What a deployment has from that time it keeps, as if it were adopted.
    """
    held = {one.name for group in snapshot.groups if group.cloud == cloud for one in group.metadata.security_groups}
    return tuple(_assign_one(plan, snapshot, cloud, one, one.name in held) for one in requests)


def _assign_one(
    plan: SecurityGroupPlan, snapshot: Snapshot, cloud: str, request: SecurityGroup, is_held: bool
) -> SecurityGroup:
    name, holder = request.name, snapshot.security_groups.holders.get((cloud, request.name))
    is_foreign = holder not in (None, snapshot.deployment)
    if request.adopt:
        if not is_held and not snapshot.security_groups.may_adopt(cloud, name, holder if is_foreign else None):
            plan.refusals.append(
                f"security group {name} of cloud {cloud} is not shared with the team of this deployment: use a name of "
                "your own, or have it listed in shared_security_groups of the cloud config"
            )
        return request
    is_operators = name in snapshot.clouds[cloud].operators_security_groups
    if is_held and (is_foreign or is_operators):
        owner = "an operator" if is_operators else "another deployment"
        plan.notes.append(
            f"security group {name} of cloud {cloud} belongs to {owner}: it is used as before, and its rules are not "
            "changed; say adopt: true under security_groups, or use another name"
        )
        return replace(request, adopt=True)
    if is_foreign:
        plan.refusals.append(
            f"security group {name} of cloud {cloud} belongs to another deployment: use another name, or say adopt: "
            "true under security_groups to use that group as it is"
        )
    return request


def differing(snapshot: Snapshot, cloud: str, cid: str | None, metadata: GroupMetadata) -> list[str]:
    """Names of security groups of a server group whose rules in the cloud are not the requested ones."""
    present = snapshot.clouds[cloud].group_rules.get(cid or "", {})
    return [
        one.name
        for one in metadata.security_groups
        if one.rules is not None
        and not one.adopt
        and one.name in present
        and compare_rules(present[one.name], read_rules(one.rules))
    ]


def with_rules(snapshot: Snapshot, changes: Sequence[Change]) -> list[Change]:
    """The changes, those of server groups with a line for each security group that is created or adopted, and each rule
    that comes or goes. A security group of several server groups is told with the first of them."""
    told: set[tuple[str, str]] = set()
    found = []
    for change in changes:
        if isinstance(change.details, GroupChange):
            lines = _lines(snapshot, change.cloud, change.details.metadata, told)
            change = replace(change, details=replace(change.details, rules=tuple(lines)))
        found.append(change)
    return found


def _lines(snapshot: Snapshot, cloud: str, metadata: GroupMetadata, told: set[tuple[str, str]]) -> Iterable[str]:
    present = {name: rules for seen in snapshot.clouds[cloud].group_rules.values() for name, rules in seen.items()}
    held = {one.name for group in snapshot.groups if group.cloud == cloud for one in group.metadata.security_groups}
    for one in metadata.security_groups:
        if (cloud, one.name) in told:
            continue
        told.add((cloud, one.name))
        if one.name not in held:
            yield f"security group {one.name}: {'adopted, and left as it is' if one.adopt else 'created'}"
        if one.rules is None or one.adopt:
            continue
        changes = compare_rules(present.get(one.name, ()), read_rules(one.rules))
        yield from (f"security group {one.name}: {line}" for line in changes.lines())


def names_to_own(changes: Iterable[Change]) -> Mapping[tuple[str, str], None]:
    """(cloud, name) of each security group that belongs to the deployment after these changes."""
    return {
        (change.cloud, one.name): None
        for change in changes
        if isinstance(change.details, GroupChange)
        for one in change.details.metadata.security_groups
        if not one.adopt
    }
