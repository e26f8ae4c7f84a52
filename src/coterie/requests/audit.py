"""Placement as it is now: asks the clouds where the VMs are and compares that with what was promised."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from coterie.cpi.contract import Capabilities, GroupView
from coterie.group.audit import Host, Member, Room, audit, remedy
from coterie.group.rules import with_rule_drift
from coterie.ledger.rows import clouds, deployments, groups, identity, nodes
from coterie.ledger.rows.clouds import CloudRow
from coterie.ledger.rows.groups import GroupRow
from coterie.ledger.rows.nodes import NodeRow
from coterie.ledger.store import Ledger
from coterie.requests.ask_clouds import Question, ask


def placement_audit(ledger: Ledger, deployment: str | None) -> dict[str, Any]:
    """{"nodes": where each one is, "groups": what was promised and whether it holds}; `deployment` None: all.

    A promise is that of the newest accepted manifest: it is judged over all nodes that the manifest puts into one
    server group, also those that are not in the cloud's group yet because the change was not completed."""
    with ledger.read() as tx:
        director = identity.director(tx).uuid
        names = [deployment] if deployment else deployments.names(tx)
        found = [node for name in names for node in nodes.of_deployment(tx, name)]
        rows = [group for name in names for group in groups.of_deployment(tx, name)]
        users = {(name, *key): intent for name in names for key, intent in groups.users_of(tx, name).items()}
        unfinished = deployments.unfinished(tx, names)
        holders = groups.security_group_holders(tx)
        configured = clouds.all_clouds(tx)
    used = [
        configured[name] for name in sorted({n.cloud for n in found} | {g.cloud for g in rows}) if name in configured
    ]
    world = _ask_clouds(ledger, used, rows, director)
    requested = {group.cid or "": groups.own_metadata(group, holders) for group in rows}
    world.views = {
        cid: with_rule_drift(requested[cid], GroupView.of_wire(view)).wire() for cid, view in world.views.items()
    }
    world.members = {
        cid: {member["vm_cid"]: member for member in view.get("members", ())} for cid, view in world.views.items()
    }
    members = _by_group(found, users)
    return {
        "nodes": [_node(node, world) for node in found],
        "groups": [
            {**_group(group, members.get(group.intent, []), world), "unfinished_task": unfinished.get(group.deployment)}
            for group in rows
        ],
    }


def _by_group(found: Sequence[NodeRow], users: Mapping[tuple[str, str, str], str]) -> dict[str, list[NodeRow]]:
    """The nodes that shall be in each server group, by its intent; a node that the manifest has no longer counts where
    it is."""
    members: dict[str, list[NodeRow]] = defaultdict(list)
    for node in found:
        intent = users.get((node.deployment, node.instance_group, node.cloud), node.server_group)
        if intent is not None:
            members[intent].append(node)
    return members


class _World:
    """What the clouds answered."""

    def __init__(self) -> None:
        self.hosts: dict[str, dict[str, Host]] = {}  # cloud → name → host
        self.vms: dict[str, Mapping[str, Any]] = {}
        self.views: dict[str, Mapping[str, Any]] = {}
        self.members: dict[
            str, dict[str, Mapping[str, Any]]
        ] = {}  # CID of a group → CID of a VM → what the cloud shows
        self.capabilities: dict[str, Capabilities] = {}

    def down(self, node: NodeRow) -> str | None:
        """What is wrong with its VM, as far as is known."""
        state = self.vms.get(node.cloud, {}).get(node.vm_cid or "", {}).get("state")
        if state is not None:
            return None if state in ("running", "building", "unknown") else str(state)
        return node.state if node.state in ("dead", "missing") else None

    def domains(self, group: GroupRow, node: NodeRow) -> tuple[str | None, str | None]:
        """The failure domain and the update domain of its VM, as the cloud shows them for members of the group."""
        shown = self.members.get(group.cid or "", {}).get(node.vm_cid or "", {})
        return shown.get("domain"), shown.get("update_domain")

    def host(self, node: NodeRow) -> Host | None:
        name = self.vms.get(node.cloud, {}).get(node.vm_cid or "", {}).get("host")
        if name is None:
            return None
        return self.hosts.get(node.cloud, {}).get(name) or Host(name, node.az, None)


def _ask_clouds(ledger: Ledger, used: Sequence[CloudRow], rows: Sequence[GroupRow], director: str) -> _World:
    world = _World()
    cids = {cloud.name: [g.cid for g in rows if g.cloud == cloud.name and g.cid] for cloud in used}
    questions: list[Question] = [(cloud, "check", {}) for cloud in used]
    questions += [(cloud, "vms", {"director": director}) for cloud in used]
    questions += [(cloud, "groups", {"cids": cids[cloud.name]}) for cloud in used]
    answers, count = ask(ledger, questions), len(used)
    parts = (answers[:count], answers[count : 2 * count], answers[2 * count :])
    for cloud, check, seen, groups_seen in zip(used, *parts, strict=True):
        world.capabilities[cloud.name] = Capabilities.of_published(check)
        world.hosts[cloud.name] = {
            host["name"]: Host(host["name"], host["az"], host.get("rack"), _room(host, "free_cpu", "free_ram_mb"))
            for item in check["items"]
            if item["what"] == "hosts" and item.get("facts")
            for host in item["facts"]["hosts"]
        }
        world.vms[cloud.name] = seen
        world.views.update(groups_seen)
    return world


def _room(said: Mapping[str, Any], cpu: str, *ram_mb: str) -> Room | None:
    """Only where both are plain numbers; a flavor or an offering says nothing here."""
    found = [said.get(cpu), next((said[word] for word in ram_mb if word in said), None)]
    numbers = [float(one) for one in found if isinstance(one, int | float)]
    return Room(*numbers) if len(numbers) == len(found) else None


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


def _group(group: GroupRow, nodes_of_group: Sequence[NodeRow], world: _World) -> dict[str, Any]:
    members = [_member(node, world, world.domains(group, node)) for node in nodes_of_group]
    can = world.capabilities.get(group.cloud)
    word = can.domains.get(group.policy or "") if can else None
    view = world.views.get(group.cid or "", {})
    state = view.get("state") or group.state
    hosts = world.hosts.get(group.cloud, {})
    zones = sorted({hosts[member.host].az for member in members if member.host in hosts})
    judged = audit(group.policy, members, list(hosts.values()), zones, view.get("hosts"), word)
    return {
        "deployment": group.deployment,
        "name": group.name,
        "cloud": group.cloud,
        "cid": group.cid,
        "state": state,
        "notes": list(view.get("notes", ())),
        "outside": [node.name for node in nodes_of_group if node.server_group != group.intent],
        **judged,
        "remedy": "",
        **_unverifiable(group, judged, can),
        **_broken(group, view, can),
    }


def _member(node: NodeRow, world: _World, domains: tuple[str | None, str | None]) -> Member:
    host, size = world.host(node), (node.spec or {}).get("vm") or {}
    room = _room(size, "cpu", "ram_mb", "ram")
    return Member(node.name, host.name if host else None, room, world.down(node), *domains)


def _unverifiable(group: GroupRow, judged: Mapping[str, Any], can: Capabilities | None) -> dict[str, Any]:
    """Why nothing is known, where the cloud hides its hosts from our credentials."""
    if can is None or can.host_visibility or judged["holds"] is not None or judged["domain_word"]:
        return {}
    return {
        "why": f"cloud {group.cloud} does not show the hosts of VMs, so the placement cannot be verified",
        "remedy": f"see on the page of the driver {can.driver} which credentials and properties show hosts",
    }


def _broken(group: GroupRow, view: Mapping[str, Any], can: Capabilities | None) -> dict[str, Any]:
    """A group that is gone or has another policy keeps no promise, wherever the nodes are now."""
    moves_members = can is not None and can.moves_members
    state, other = view.get("state"), bool(view) and view["policy"] != group.policy
    word = "drifted" if other and state != "missing" else str(state)
    advice = remedy(word, moves_members=moves_members, adopted=group.adopted, other_policy=other)
    advice = advice.replace("NAME", group.name)
    if state == "missing":
        return {"holds": False, "why": "the group was deleted behind our back", "mend": [], "remedy": advice}
    if other:
        why = f"the cloud's policy is {view['policy'] or 'none'}, promised was {group.policy or 'none'}"
        return {"holds": False, "why": why, "mend": [], "remedy": advice}
    return {"remedy": advice} if advice else {}
