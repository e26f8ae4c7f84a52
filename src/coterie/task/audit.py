"""Placement as it is now: asks the clouds where the VMs are and compares that with what was promised."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from coterie.group.audit import Host, Member, audit
from coterie.ledger import clouds, deployments, groups, identity, nodes
from coterie.ledger.clouds import CloudRow
from coterie.ledger.groups import GroupRow
from coterie.ledger.nodes import NodeRow
from coterie.ledger.store import Ledger
from coterie.task.refresh import ask


def placement_audit(ledger: Ledger, deployment: str | None) -> dict[str, Any]:
    """{"nodes": where each one is, "groups": what was promised and whether it holds}; `deployment` None: all."""
    with ledger.read() as tx:
        director = identity.director(tx).uuid
        names = [deployment] if deployment else deployments.names(tx)
        found = [node for name in names for node in nodes.of_deployment(tx, name)]
        rows = [group for name in names for group in groups.of_deployment(tx, name)]
        configured = clouds.all_clouds(tx)
    used = [
        configured[name] for name in sorted({n.cloud for n in found} | {g.cloud for g in rows}) if name in configured
    ]
    world = _ask(ledger, used, rows, director)
    return {
        "nodes": [_node(node, world) for node in found],
        "groups": [_group(group, found, world) for group in rows],
    }


class _World:
    """What the clouds said."""

    def __init__(self) -> None:
        self.hosts: dict[str, dict[str, Host]] = {}  # cloud → name → host
        self.vms: dict[str, Mapping[str, Any]] = {}
        self.views: dict[str, Mapping[str, Any]] = {}

    def host(self, node: NodeRow) -> Host | None:
        name = self.vms.get(node.cloud, {}).get(node.vm_cid or "", {}).get("host")
        if name is None:
            return None
        return self.hosts.get(node.cloud, {}).get(name) or Host(name, node.az, None)


def _ask(ledger: Ledger, used: Sequence[CloudRow], rows: Sequence[GroupRow], director: str) -> _World:
    world = _World()
    cids = {cloud.name: [g.cid for g in rows if g.cloud == cloud.name and g.cid] for cloud in used}
    checks = ask(ledger, [(cloud, "check", {}) for cloud in used])
    vms = ask(ledger, [(cloud, "vms", {"director": director}) for cloud in used])
    views = ask(ledger, [(cloud, "groups", {"cids": cids[cloud.name]}) for cloud in used])
    for cloud, check, seen, groups_seen in zip(used, checks, vms, views, strict=True):
        world.hosts[cloud.name] = {
            host["name"]: Host(host["name"], host["az"], host.get("rack"))
            for item in check["items"]
            if item["what"] == "hosts" and item.get("facts")
            for host in item["facts"]["hosts"]
        }
        world.vms[cloud.name] = seen
        world.views.update(groups_seen)
    return world


def _node(node: NodeRow, world: _World) -> dict[str, Any]:
    host = world.host(node)
    return {
        "deployment": node.deployment,
        "node": node.name,
        "state": node.state,
        "cloud": node.cloud,
        "az": node.az,
        "rack": host.rack if host else None,
        "host": host.name if host else None,
        "vm_cid": node.vm_cid,
    }


def _group(group: GroupRow, found: Sequence[NodeRow], world: _World) -> dict[str, Any]:
    members = [
        Member(node.name, host.name if (host := world.host(node)) else None)
        for node in found
        if node.server_group == group.intent
    ]
    view = world.views.get(group.cid or "", {})
    state = view.get("state") or group.state
    hosts = world.hosts.get(group.cloud, {})
    zones = sorted({hosts[member.host].az for member in members if member.host in hosts})
    judged = audit(group.policy, members, list(hosts.values()), zones)
    if state == "missing":
        judged["holds"] = False
        judged["why"] = "the group was deleted behind our back; deploy again, which makes it and its nodes anew"
        judged["mend"] = []
    return {
        "deployment": group.deployment,
        "name": group.name,
        "cloud": group.cloud,
        "cid": group.cid,
        "state": state,
        "notes": list(view.get("notes", ())),
        **judged,
    }
