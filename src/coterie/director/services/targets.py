"""Nodes as targets of Prometheus' service discovery over HTTP."""

from __future__ import annotations

from typing import Any

from coterie.ledger.store import Tx
from coterie.ledger.views import nodes
from coterie.ledger.views.page import Slice

_PAGE = 1000
_LABELS = ("deployment", "instance_group", "index", "az", "cloud", "host", "state", "uuid", "server_group")


def list_targets(tx: Tx, port: int, deployment: str | None, network: str | None) -> list[dict[str, Any]]:
    """One entry for each node that has an address; Prometheus wants all of them in one reply."""
    found: list[dict[str, Any]] = []
    cursor: str | None = None
    while True:
        page = nodes.page(tx, Slice(_PAGE, cursor), deployment=deployment, enrolled=False)
        found += [one for node in page.items for one in _entry(node, port, network)]
        cursor = page.next
        if cursor is None:
            return found


def _entry(node: dict[str, Any], port: int, network: str | None) -> list[dict[str, Any]]:
    addresses = node["addresses"]
    address = addresses.get(network) if network else next(iter(addresses.values()), None)
    if not address:
        return []
    labels = {f"__meta_coterie_{name}": str(node[name]) for name in _LABELS if node[name] is not None}
    host = f"[{address}]" if ":" in str(address) else address
    return [{"targets": [f"{host}:{port}"], "labels": {**labels, "__meta_coterie_node": node["name"]}}]
