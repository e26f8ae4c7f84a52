"""Rows that are written again from what a cloud holds, after the ledger was lost or restored from an old backup."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from coterie.cpi.contract import Kind
from coterie.ledger.rows.nodes import NodeRow
from coterie.ledger.store import Tx, insert_or_update, now
from coterie.ledger.tables import addresses, nodes, objects, server_groups


@dataclass(frozen=True, slots=True)
class RecoveredObject:
    """`state`: live, or kept for a disk without a node."""

    intent: str
    kind: Kind
    cloud: str
    cid: str
    state: str
    az: str | None
    deployment: str | None
    node: str | None
    ref: str
    size_mb: int = 0
    properties: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class RecoveredGroup:
    intent: str
    name: str
    cloud: str
    cid: str
    adopted: bool
    metadata: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RecoveredPart:
    """`intent`: of the VM or server group that it came with."""

    cloud: str
    intent: str
    kind: Kind
    name: str
    cid: str


def put_node(tx: Tx, node: NodeRow) -> None:
    """New, or with the VM that the cloud has for it now."""
    values = {name: value for name, value in asdict(node).items() if name != "uuid"}
    insert_or_update(tx, nodes, {"uuid": node.uuid}, {**values, "created_at": now(), "updated_at": now()})
    for network, ip in (node.addresses or {}).items():
        held = {"node": node.uuid, "deployment": node.deployment}
        insert_or_update(tx, addresses, {"network": network, "ip": ip}, held)


def put_object(tx: Tx, found: RecoveredObject) -> None:
    values = {name: value for name, value in asdict(found).items() if name != "intent"}
    ended = {"tombstone": False, "doubt_since": None, "ended_at": None, "late_at": None}
    insert_or_update(tx, objects, {"intent": found.intent}, {**values, **ended, "created_at": now()})


def put_group(tx: Tx, group: RecoveredGroup) -> None:
    values = {
        "deployment": group.metadata["deployment"],
        "name": group.name,
        "cloud": group.cloud,
        "cid": group.cid,
        "policy": group.metadata["policy"],
        "metadata": dict(group.metadata),
        "state": "live",
        "adopted": group.adopted,
        "drift": None,
        "ended_at": None,
    }
    insert_or_update(tx, server_groups, {"intent": group.intent}, {**values, "created_at": now()})
