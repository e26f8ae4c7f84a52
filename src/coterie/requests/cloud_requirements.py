"""What a plan asks a cloud beforehand, and what the answer says of our server groups. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from coterie.cpi.contract import Mark, SecurityRule, read_rules
from coterie.ledger.rows.groups import GroupRow
from coterie.manifest import InstanceGroupSpec
from coterie.plan.groups import driver_options, instance_groups_by_server_group, security_groups_of

Known = Mapping[tuple[str, str], str]  # logical name and cloud of a server group → its CID


def known_groups(present: Iterable[GroupRow], specs: Iterable[InstanceGroupSpec], director: str) -> Known:
    """The CID is known before the cloud has answered, so a half-made group of ours is not taken for a foreign one.
    Of several with one name, the one that is live and has the requested policy counts."""
    policies = {spec.server_group.name: spec.server_group.policy for spec in specs if spec.server_group}
    worst_first = sorted(
        (group for group in present if group.state != "deleting"),
        key=lambda group: (group.policy == policies.get(group.name), group.state != "intended"),
    )
    return {(group.name, group.cloud): group.cid or Mark(director, group.intent).group_cid for group in worst_first}


def needs(specs: Sequence[InstanceGroupSpec], cloud: str, known: Known) -> dict[str, object]:
    """What the manifest asks of one cloud, as `Needs` on the wire; azs by our names, for the conductor to translate."""
    own = [spec for spec in specs if any(az.cloud == cloud for az in spec.azs)]
    kinds = {"vm", "image"} if own else set()
    policies = {spec.server_group.policy for spec in own if spec.server_group and spec.server_group.policy}
    if any(spec.disk for spec in own):
        kinds.add("disk")
    if any(spec.server_group for spec in own):
        kinds.add("server_group")
    if any(spec.security_groups for spec in own):
        kinds.add("security_group")
    azs = {az.name: dict(az.cloud_properties) for spec in own for az in spec.azs if az.cloud == cloud}
    asked = {"kinds": sorted(kinds), "policies": sorted(policies), "azs": sorted(azs), "az_properties": azs}
    return {**asked, "groups": [{**one, "cid": known.get((one["name"], cloud))} for one in _group_needs(own, cloud)]}


def groups_seen(
    able: Mapping[str, Any], seen: Mapping[str, Mapping[str, Any]]
) -> tuple[frozenset[str], frozenset[str], dict[str, str | None]]:
    """Groups that are missing; those that an update mends, where living VMs can join: missing ones of which the cloud
    still knows what they were, and changed ones. Of those that are there, what they promise now."""
    missing = frozenset(cid for cid, view in seen.items() if view["state"] == "missing")
    mendable = {cid for cid in missing if seen[cid]["policy"] is not None}
    mendable |= {cid for cid, view in seen.items() if view["state"] == "drifted"}
    mendable = mendable if able["moves_members"] else set()
    return missing, frozenset(mendable), {cid: view["policy"] for cid, view in seen.items() if cid not in missing}


def security_groups_seen(
    seen: Mapping[str, Mapping[str, Any]],
) -> tuple[dict[str, dict[str, tuple[SecurityRule, ...]]], frozenset[str]]:
    """Of our server groups, by CID: the rules of each security group that we created. And names of operators' ones."""
    found = {
        cid: [one for one in view["resources"] if one["kind"] == "security_group" and one.get("name")]
        for cid, view in seen.items()
    }
    rules = {
        cid: {one["name"]: read_rules(one["rules"]) for one in resources if one["rules"] is not None}
        for cid, resources in found.items()
    }
    names = (one["name"] for resources in found.values() for one in resources if not one["created_by_us"])
    return rules, frozenset(names)


def _group_needs(specs: Sequence[InstanceGroupSpec], cloud: str) -> list[dict[str, Any]]:
    """The server groups that the driver will be asked for, with the azs that their nodes go to."""
    found = []
    for (name, where), users in instance_groups_by_server_group(specs).items():
        group = users[-1].server_group
        if where == cloud and group is not None:
            azs = {az.name for user in users for az in user.azs if az.cloud == cloud}
            found.append(
                {
                    "name": name,
                    "policy": group.policy,
                    "options": driver_options(group),
                    "azs": sorted(azs),
                    "security_groups": [one.wire() for one in security_groups_of(users)],
                }
            )
    return found
