"""Whether the security groups of a server group have the rules that were requested. Pure."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace

from coterie.cpi.contract import GroupMetadata, GroupView, compare_rules, read_rules


def with_rule_drift(metadata: GroupMetadata, view: GroupView) -> GroupView:
    """What the cloud holds, drifted where rules differ. Security groups that are adopted keep their own."""
    notes = _rule_drift(metadata, view) if view.state != "missing" else []
    return replace(view, state="drifted", notes=(*view.notes, *notes)) if notes else view


def adopt_foreign(metadata: GroupMetadata, own: Container[str]) -> GroupMetadata:
    """`own`: names of security groups that belong to the deployment. The others, which release 0.1.0 used by their
    name alone, are never changed by it."""
    security_groups = tuple(
        one if one.adopt or one.name in own else replace(one, adopt=True) for one in metadata.security_groups
    )
    return replace(metadata, security_groups=security_groups)


def _rule_drift(metadata: GroupMetadata, view: GroupView) -> list[str]:
    requested = {one.name: one.rules for one in metadata.security_groups if one.rules is not None and not one.adopt}
    notes: list[str] = []
    for one in view.resources:
        rules = requested.get(one.name or "")
        if rules is None or one.rules is None or not one.created_by_us:
            continue
        changes = compare_rules(read_rules(one.rules), read_rules(rules))
        notes += [f"security group {one.name} lacks the rule: {rule}" for rule in changes.come]
        notes += [f"security group {one.name} has a rule that was not requested: {rule}" for rule in changes.go]
    return list(dict.fromkeys(notes))
