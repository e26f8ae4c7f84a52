"""What a manifest asks of server groups must be possible in each cloud that its nodes are in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from coterie.cpi.contract import Capabilities
from coterie.manifest.rules.pair import Pair
from coterie.manifest.schema import InstanceGroup
from coterie.manifest.server_groups import ServerGroupSpec, server_groups
from coterie.manifest.space import even_shares
from coterie.manifest.tree import Loc


def check_policies(pair: Pair, capabilities: Mapping[str, Capabilities], *, auto_anti_affinity: bool) -> None:
    specs = server_groups(pair.deployment.value, auto_anti_affinity=auto_anti_affinity)
    members: Counter[tuple[str, str]] = Counter()
    groups: dict[str, set[str]] = {}
    for loc, group in pair.groups():
        spec = specs.get(group.name)
        for cloud, count in _clouds(pair, group).items() if spec else ():
            if spec and cloud in capabilities:
                _check_policy(pair, loc, spec, cloud, capabilities[cloud])
                _check_members(pair, loc, spec, cloud, capabilities[cloud], count, members)
                _check_groups(pair, loc, spec, cloud, capabilities[cloud].max_groups, groups.setdefault(cloud, set()))


def _clouds(pair: Pair, group: InstanceGroup) -> Counter[str]:
    """Cloud → how many of the group's instances it gets."""
    found: Counter[str] = Counter()
    for az, count in zip(group.azs, even_shares(group.instances, len(group.azs)), strict=True):
        if az in pair.azs:
            found[pair.azs[az].cloud] += count
    return found


def _check_policy(pair: Pair, loc: Loc, spec: ServerGroupSpec, cloud: str, can: Capabilities) -> None:
    refused = can.unsupported.get("create_server_group")
    if refused:
        what = f"the cloud '{cloud}' (driver {can.driver}) has no server groups: {refused.why}"
        pair.deployment.add(_cause(pair, loc), what, "remove placement and security_groups, or use another cloud")
    elif spec.policy is not None and spec.policy not in can.policies and not spec.adopt:
        what = f"the cloud '{cloud}' (driver {can.driver}) cannot do {spec.policy}"
        possible = ", ".join(sorted(can.policies)) or "none"
        pair.deployment.add(
            _cause(pair, loc), what, f"use a policy that it can do ({possible}), or azs of another cloud"
        )


def _cause(pair: Pair, loc: Loc) -> Loc:
    """The field that asks for the server group: the group's own, or the switch for all groups."""
    group = pair.deployment.value.instance_groups[int(loc[-1])]
    if group.placement:
        return (*loc, "placement", "policy")
    if pair.deployment.value.features.enable_auto_anti_affinity:
        return ("features", "enable_auto_anti_affinity")
    return (*loc, "security_groups")


def _check_members(
    pair: Pair,
    loc: Loc,
    spec: ServerGroupSpec,
    cloud: str,
    can: Capabilities,
    count: int,
    members: Counter[tuple[str, str]],
) -> None:
    """How many of them an az gets is known only when the nodes are: see `plan/limits`."""
    limit, before = can.group_limit(spec.policy).members, members[cloud, spec.name]
    members[cloud, spec.name] += count
    if limit is not None and before <= limit < before + count:
        what = f"the server group '{spec.name}' would have {before + count:,} members, but '{cloud}' allows {limit:,}"
        pair.deployment.add((*loc, "instances"), what, "use fewer instances, more clouds, or another server group")


def _check_groups(pair: Pair, loc: Loc, spec: ServerGroupSpec, cloud: str, limit: int | None, names: set[str]) -> None:
    before = len(names)
    names.add(spec.name)
    if limit is not None and before <= limit < len(names):
        what = f"the deployment needs more than the {limit:,} server groups that '{cloud}' allows"
        pair.deployment.add((*loc, "placement"), what, "let instance groups share one with placement.server_group")
