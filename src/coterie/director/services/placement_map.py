"""The map of all nodes: hosts and racks as the clouds showed them last, and the promises judged by that. Reads only."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from coterie.director.context import AppContext
from coterie.group.audit import Host, Member, audit
from coterie.ledger.views import deployments
from coterie.ledger.views.placement_map import earlier_hosts, every_group, known_hosts, placed_nodes

Json = dict[str, Any]
_DOWN = ("dead", "missing")
_UNHEALTHY = ("failing", *_DOWN)
_NO_RACK, _UNKNOWN = "no rack", "unknown"


def placement_map(context: AppContext, deployment: str | None, rack: str | None, most: int | None) -> Json:
    """Without a question to a cloud: as of the last look and check. The audit asks.

    `rack`: the key of the only one that is wanted. `most`: where there are more hosts, these and the nodes are left
    out."""
    with context.ledger.read() as tx:
        if deployment is not None:
            deployments.one(tx, deployment)  # refuses one that the caller cannot see
        nodes, groups, known = placed_nodes(tx, deployment), every_group(tx, deployment), _by_name(known_hosts(tx))
        gone = any(node["host"] and node["host"] not in known.get(node["cloud"], {}) for node in nodes)
        earlier = _by_name(earlier_hosts(tx)) if gone else {}
    racks, members = _Racks(), defaultdict[str, list[Json]](list)
    hosts = [_host(cloud, host) for cloud, listed in sorted(known.items()) for host in listed.values()]
    for host in hosts:
        racks.of(host)["hosts"] += 1
    for node in nodes:
        places = (of.get(node["cloud"], {}).get(node["host"] or "") for of in (known, earlier))
        found = next((place for place in places if place), None)
        node["rack"] = (found.rack or _NO_RACK) if found else _UNKNOWN
        node["az"] = found.az if found else node["az"]
        racks.add(node)
        if node["group"]:
            members[node["group"]].append(node)
    judged = [_group(one, members[one["intent"]], known.get(one["cloud"], {})) for one in groups]
    wanted = [one for one in racks.rows.values() if rack is None or one["key"] == rack]
    if most is not None and sum(one["hosts"] for one in wanted) > most:
        return {"racks": wanted, "hosts": [], "nodes": [], "groups": judged}
    keys = {one["key"] for one in wanted}
    return {
        "racks": wanted,
        "hosts": [one for one in hosts if _key(one) in keys],
        "nodes": [one for one in nodes if _key(one) in keys],
        "groups": judged,
    }


def _by_name(shown: dict[str, list[Json]]) -> dict[str, dict[str, Host]]:
    return {
        cloud: {one["name"]: Host(one["name"], one["az"], one.get("rack")) for one in listed}
        for cloud, listed in shown.items()
    }


class _Racks:
    """By key, in the order of clouds, azs and racks."""

    def __init__(self) -> None:
        self._rows: dict[str, Json] = {}

    @property
    def rows(self) -> dict[str, Json]:
        return dict(sorted(self._rows.items()))

    def of(self, thing: Json) -> Json:
        key = _key(thing)
        if key not in self._rows:
            place = {name: thing[name] for name in ("cloud", "az", "rack")}
            self._rows[key] = {"key": key, **place, "hosts": 0, "nodes": 0, "unhealthy": 0, "down": 0, "groups": {}}
        return self._rows[key]

    def add(self, node: Json) -> None:
        row = self.of(node)
        row["nodes"] += 1
        row["unhealthy"] += node["state"] in _UNHEALTHY
        row["down"] += node["state"] in _DOWN
        row["groups"][node["group"] or ""] = row["groups"].get(node["group"] or "", 0) + 1


def _key(thing: Json) -> str:
    return f"{thing['cloud']}/{thing['az'] or _UNKNOWN}/{thing['rack']}"


def _host(cloud: str, host: Host) -> Json:
    return {"cloud": cloud, "az": host.az, "rack": host.rack or _NO_RACK, "name": host.name}


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
        "down": judged["down"],
        "worst_host": judged["worst_host"],
        "worst_rack": judged["worst_rack"],
    }
