"""What the clouds themselves would refuse: checked against their facts before anything is made."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from coterie.cpi.contract import Capabilities
from coterie.group.policy import hosts_needed
from coterie.manifest import InstanceGroupSpec
from coterie.manifest.space import even_shares
from coterie.plan.groups import instance_groups_by_server_group
from coterie.plan.model import Change, CloudNow, GroupChange, NodeChange, Snapshot


def refusals(
    snapshot: Snapshot,
    specs: Sequence[InstanceGroupSpec],
    changes: Sequence[Change],
    per_az: Mapping[tuple[str, str, str], int],
) -> list[str]:
    """`per_az`: (server group, cloud, the cloud's az) → how many members it is going to have there."""
    used = {change.cloud for change in changes}
    found = [problem for name in sorted(used) for problem in _checks(snapshot.clouds[name])]
    found += _quotas(snapshot, changes)
    if any(change.kind == "node" and change.action != "delete" for change in changes):
        found += _members(snapshot, specs)
        found += _members_per_az(snapshot, specs, per_az)
        found += _hosts(snapshot, specs)
    return found


def _checks(cloud: CloudNow) -> list[str]:
    return [
        f"cloud {cloud.name}: {item['what']}: {item['detail']}" + (f"; {item['remedy']}" if item["remedy"] else "")
        for item in cloud.checks
        if not item["ok"]
    ]


def _quotas(snapshot: Snapshot, changes: Sequence[Change]) -> list[str]:
    """Only growth can exceed a quota; what is removed comes last, so it does not make room."""
    growth: dict[str, Counter[str]] = defaultdict(Counter)
    for change in changes:
        match change.details:
            case NodeChange(spec=spec, takes=takes) if change.action == "create":
                growth[change.cloud]["instances"] += 1
                growth[change.cloud]["volumes"] += spec.disk is not None and takes is None
            case GroupChange(intent=None) if change.action == "create":
                growth[change.cloud]["server_groups"] += 1
    found = []
    for name, needs in sorted(growth.items()):
        quotas = snapshot.clouds[name].fact("quotas", "quotas") or {}
        for what, more in sorted(needs.items()):
            quota = quotas.get(what) or {}
            limit, used = quota.get("limit"), quota.get("used", 0)
            if limit is not None and used + more > limit:
                found.append(f"cloud {name}: quota of {limit} {what} is exceeded: {used} used, {more} more needed")
    return found


def _members(snapshot: Snapshot, specs: Sequence[InstanceGroupSpec]) -> list[str]:
    """Some clouds bound how many VMs a server group takes; one that only shares security groups is none of theirs."""
    found = []
    for (name, cloud), users in sorted(instance_groups_by_server_group(specs).items()):
        quota = (snapshot.clouds[cloud].fact("quotas", "quotas") or {}).get("server_group_members") or {}
        asked = sum(_share(user, cloud) for user in users)
        if users[0].server_group and users[0].server_group.policy and asked > (quota.get("limit") or asked):
            found.append(
                f"cloud {cloud}: quota of {quota['limit']} server_group_members is exceeded: server group {name} has "
                f"{asked}; use fewer nodes or several groups, or have the quota raised"
            )
    return found


def _members_per_az(
    snapshot: Snapshot, specs: Sequence[InstanceGroupSpec], per_az: Mapping[tuple[str, str, str], int]
) -> list[str]:
    """Needs no host to be shown: the limits are the driver's own."""
    policies = {spec.server_group.name: spec.server_group.policy for spec in specs if spec.server_group}
    found = []
    for (name, cloud, az), asked in sorted(per_az.items()):
        can, policy = snapshot.clouds[cloud].capabilities, policies[name]
        limit = can.group_limit(policy).members_per_az
        if limit is not None and asked > limit:
            weaker = ", or soft-anti-affinity" if policy == "anti-affinity" and _softer(can, asked) else ""
            found.append(
                f"server group {name}: {asked} nodes would be in {az}, but cloud {cloud} takes {limit} members of one "
                f"{policy} group in an az; use fewer nodes, more azs{weaker}"
            )
    return found


def _softer(can: Capabilities, asked: int) -> bool:
    limit = can.group_limit("soft-anti-affinity").members_per_az
    return "soft-anti-affinity" in can.policies and (limit is None or asked <= limit)


def _hosts(snapshot: Snapshot, specs: Sequence[InstanceGroupSpec]) -> list[str]:
    """A strict group needs as many hosts as it has nodes, in the azs that its nodes go to."""
    strict = [spec for spec in specs if spec.server_group and spec.server_group.policy == "anti-affinity"]
    found = []
    for (name, cloud), users in sorted(instance_groups_by_server_group(strict).items()):
        hosts = snapshot.clouds[cloud].fact("hosts", "hosts")
        if hosts is None:
            continue
        zone_of = snapshot.clouds[cloud].capabilities.zone_of
        zones = {zone_of(az.name, az.cloud_properties) for user in users for az in user.azs if az.cloud == cloud}
        usable = {host["name"] for host in hosts if host["az"] in zones}  # a host may be in several zones
        tied = snapshot.clouds[cloud].fact(f"hosts of server group {name}", "hosts")
        usable &= usable if tied is None else set(tied)
        asked = sum(_share(user, cloud) for user in users)
        if hosts_needed("anti-affinity", asked) > len(usable):
            found.append(
                f"server group {name}: {asked} nodes must be on different hosts, but cloud {cloud} has only "
                f"{len(usable)} in {', '.join(sorted(zones))}; use fewer nodes, more azs, or soft-anti-affinity"
            )
    return found


def _share(spec: InstanceGroupSpec, cloud: str) -> int:
    """How many nodes of the group go to this cloud, when spread evenly over its azs."""
    shares = even_shares(spec.instances, len(spec.azs))
    return sum(share for share, az in zip(shares, spec.azs, strict=True) if az.cloud == cloud)
