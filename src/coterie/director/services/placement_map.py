"""The map of all nodes: hosts and racks as the clouds showed them last, and the promises judged by that. Reads only."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from coterie.director.context import AppContext
from coterie.group.audit import Host, Member, audit
from coterie.ledger.views import deployments
from coterie.ledger.views.placement_map import every_group, known_hosts, placed_nodes

Json = dict[str, Any]
_DOWN = ("dead", "missing")


def placement_map(context: AppContext, deployment: str | None) -> Json:
    """Without a question to a cloud: as of the last look and check. The audit asks."""
    with context.ledger.read() as tx:
        if deployment is not None:
            deployments.one(tx, deployment)  # refuses one that the caller cannot see
        nodes, groups, shown = placed_nodes(tx, deployment), every_group(tx, deployment), known_hosts(tx)
    hosts = {
        cloud: {one["name"]: Host(one["name"], one["az"], one.get("rack")) for one in listed}
        for cloud, listed in shown.items()
    }
    members: dict[str, list[Json]] = defaultdict(list)
    for node in nodes:
        host = hosts.get(node["cloud"], {}).get(node["host"] or "")
        node["rack"] = host.rack if host else None
        if node["group"]:
            members[node["group"]].append(node)
    return {
        "nodes": nodes,
        "hosts": [
            {"cloud": cloud, "az": host.az, "rack": host.rack, "name": host.name}
            for cloud, listed in sorted(hosts.items())
            for host in listed.values()
        ],
        "groups": [_group(one, members[one["intent"]], hosts.get(one["cloud"], {})) for one in groups],
    }


def _group(group: Json, members: list[Json], hosts: dict[str, Host]) -> Json:
    listed = [
        Member(one["node"], one["host"], None, one["state"] if one["state"] in _DOWN else None) for one in members
    ]
    zones = sorted({hosts[one.host].az for one in listed if one.host in hosts})
    judged = audit(group["policy"], listed, list(hosts.values()), zones)
    holds, why = judged["holds"], judged["why"]
    if group["state"] == "missing":
        holds, why = False, "the group is not in the cloud any more"
    return {
        **{name: group[name] for name in ("intent", "deployment", "name", "cloud", "cid", "policy", "state", "remedy")},
        "size": len(members),
        "promise": judged["promise"],
        "holds": holds,
        "why": why,
        "worst_host": judged["worst_host"],
        "worst_rack": judged["worst_rack"],
    }
