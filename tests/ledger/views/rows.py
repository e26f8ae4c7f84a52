"""Rows for tests of read models, with all that the schema wants filled in."""

from __future__ import annotations

from typing import Any

from coterie.ledger import tables
from coterie.ledger.store import Ledger


def put(ledger: Ledger, table: str, **values: Any) -> None:
    with ledger.write() as tx:
        tx.execute(tables.metadata.tables[table].insert().values(**values))


def node(ledger: Ledger, group: str, index: int, **more: Any) -> str:
    uuid = f"uuid-{more.get('deployment', 'kafka')}-{group}-{index}"
    values = {
        "uuid": uuid,
        "deployment": "kafka",
        "instance_group": group,
        "index": index,
        "az": "z1",
        "cloud": "lab",
        "state": "up",
        "created_at": 1000.0,
        "updated_at": 1000.0,
    }
    put(ledger, "nodes", **{**values, **more})
    return uuid


def task(ledger: Ledger, number: int, **more: Any) -> int:
    values = {"id": number, "kind": "deploy", "deployment": "kafka", "state": "running", "created_at": 1000.0}
    put(ledger, "tasks", **{**values, **more})
    return number


def stage(ledger: Ledger, task: int, n: int, **more: Any) -> None:
    put(ledger, "stages", **{"task": task, "n": n, "name": f"stage {n}", "state": "open", "needs": [], **more})


def step(ledger: Ledger, number: int, task: int, **more: Any) -> None:
    values = {
        "id": number,
        "task": task,
        "flow": "node.create",
        "label": "begin",
        "subject": f"broker/{number}",
        "state": "ready",
        "not_before": 0.0,
        "driver": "sandbox",
        "cloud": "lab",
    }
    put(ledger, "steps", **{**values, **more})


def event(ledger: Ledger, task: int | None, n: int, **more: Any) -> None:
    values = {"task": task, "n": n, "at": 1000.0 + n, "kind": "node.up", "subject": f"broker/{n}", "body": "up"}
    put(ledger, "events", **{**values, **more})


def cloud_object(ledger: Ledger, intent: str, **more: Any) -> None:
    values = {"intent": intent, "kind": "disk", "cloud": "lab", "state": "live", "created_at": 1000.0}
    put(ledger, "objects", **{**values, **more})


def deployment(ledger: Ledger, name: str, **more: Any) -> None:
    values = {"name": name, "manifest": "name: x\n", "config_id": 1, "created_at": 1000.0, "updated_at": 1000.0}
    put(ledger, "deployments", **{**values, **more})


def group(ledger: Ledger, intent: str, **more: Any) -> None:
    values = {
        "intent": intent,
        "deployment": "kafka",
        "name": "data",
        "cloud": "lab",
        "cid": f"cg-{intent}",
        "policy": "anti-affinity",
        "metadata": {
            "director": {"name": "lab", "uuid": "u"},
            "deployment": "kafka",
            "instance_group": "broker",
            "policy": "anti-affinity",
        },
        "state": "live",
        "created_at": 1000.0,
    }
    put(ledger, "server_groups", **{**values, **more})


def conductor(ledger: Ledger, name: str, **more: Any) -> None:
    values = {
        "name": name,
        "incarnation": "i",
        "conductor_group": "",
        "drivers": ["sandbox"],
        "release": "0.1.0",
        "started_at": 1000.0,
        "heartbeat": 1000.0,
        "ttl_s": 1e12,  # alive, whatever the clock says
    }
    put(ledger, "conductors", **{**values, **more})
