"""Where nodes are as the ledger knows it, in few columns: for the map of all nodes. No cloud is called."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from coterie.ledger.store import Tx
from coterie.ledger.tables import facts, nodes
from coterie.ledger.views import clouds, groups
from coterie.ledger.views.page import Row, Slice
from coterie.ledger.visibility import visible

_EVERY = 2**31


def placed_nodes(tx: Tx, deployment: str | None) -> list[Row]:
    """In the order of deployments and their nodes."""
    names = ("deployment", "instance_group", "index", "enrolled", "state", "cloud", "az", "host", "server_group")
    query = sa.select(*[nodes.c[name] for name in names]).where(visible(nodes.c.deployment))
    if deployment is not None:
        query = query.where(nodes.c.deployment == deployment)
    order = (nodes.c.deployment, nodes.c.instance_group, nodes.c["index"])
    return [
        {
            "deployment": row[0] or None,
            "node": row[1] if row[3] else f"{row[1]}/{row[2]}",
            "state": row[4],
            "cloud": row[5],
            "az": row[6],
            "host": row[7],
            "group": row[8],
        }
        for row in tx.execute(query.order_by(*order))
    ]


def every_group(tx: Tx, deployment: str | None) -> list[Row]:
    return groups.page(tx, Slice(_EVERY), deployment=deployment).items


def known_hosts(tx: Tx) -> dict[str, list[dict[str, Any]]]:
    """By cloud, as its last check showed them."""
    found: dict[str, list[dict[str, Any]]] = {}
    for cloud in clouds.page(tx, Slice(_EVERY)).items:
        check = clouds.known(tx, cloud["name"]).get("check") or {}
        found[cloud["name"]] = _hosts_in(check.get("data"))
    return found


def earlier_hosts(tx: Tx) -> dict[str, list[dict[str, Any]]]:
    """By cloud, those of every check that the ledger still has, the newest last: hosts that went down, too."""
    found: dict[str, list[dict[str, Any]]] = {}
    checks = sa.or_(facts.c.what == "check", facts.c.what.startswith("check:"))
    query = sa.select(facts.c.cloud, facts.c.data).where(checks, facts.c.at.is_not(None)).order_by(facts.c.at)
    for cloud, data in tx.execute(query):
        found.setdefault(cloud, []).extend(_hosts_in(data))
    return found


def _hosts_in(check: dict[str, Any] | None) -> list[dict[str, Any]]:
    items = (check or {}).get("items", ())
    listed = [one["facts"]["hosts"] for one in items if one["what"] == "hosts" and one.get("facts")]
    return [host for hosts in listed for host in hosts]
