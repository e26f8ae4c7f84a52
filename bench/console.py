"""The pages of the console at 100, 1,000 and 10,000 nodes: CPU of the server and bytes for each. Prints ratios;
asserts nothing.

Rows are written into the ledger directly; a page is read as a browser reads it, through the whole application with a
session. Usage: python -m bench.console [COUNT …]
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.director.asgi import Client
from tests.ledger.blank import sqlite_ledger

from coterie.director.access.caller import Caller
from coterie.director.app import build
from coterie.director.console import sessions
from coterie.director.context import AppContext
from coterie.director.process.state_folder import StateFolder
from coterie.ids import Ids
from coterie.ledger import tables
from coterie.ledger.rows.identity import ensure_director
from coterie.ledger.store import Ledger
from coterie.settings import load

COUNTS = (100, 1_000, 10_000)
PAGES = {
    "now": "/",
    "deployments": "/deployments",
    "deployment": "/deployments/dep-0",
    "placement map": "/placement",
    "one rack": "/placement?rack=lab/z0/r0",
    "task": "/tasks/1",
    "tasks": "/tasks",
    "ring": "/ring",
    "events": "/events",
    "clouds": "/clouds",
    "wizard": "/wizard",
}
_PER_DEPLOYMENT, _PER_GROUP, _PER_HOST, _PER_RACK, _ZONES = 100, 20, 10, 20, 3
_REPEATS = 5
CONFIG = """
clouds: [{name: lab, driver: sandbox}]
azs:
- {name: z0, cloud: lab, cloud_properties: {zone: z0}}
- {name: z1, cloud: lab, cloud_properties: {zone: z1}}
- {name: z2, cloud: lab, cloud_properties: {zone: z2}}
vm_types: [{name: small, cloud_properties: {cpu: 1, ram_mb: 512, disk_mb: 1024}}]
networks: [{name: net, type: dynamic}]
"""


def main() -> None:
    counts = [int(word) for word in sys.argv[1:]] or list(COUNTS)
    results = {count: _apart(count) for count in counts}
    print("CPU of the server in ms (median of several), and KiB of HTML, by number of nodes\n")
    print(f"{'page':<15}" + "".join(f"{count:>12,} ms{'KiB':>8}" for count in counts))
    for name in PAGES:
        cells = [f"{results[count][name]['ms']:>15.1f}{results[count][name]['bytes'] / 1024:>8.1f}" for count in counts]
        print(f"{name:<15}" + "".join(cells))
    first, last = results[counts[0]], results[counts[-1]]
    slowest = max(PAGES, key=lambda name: last[name]["ms"])
    print(
        f"\n{counts[-1] / counts[0]:.0f} times the nodes: the slowest page ({slowest}) takes "
        f"{last[slowest]['ms'] / first[slowest]['ms']:.1f} times the CPU and "
        f"{last[slowest]['bytes'] / first[slowest]['bytes']:.1f} times the bytes"
    )


def _apart(count: int) -> dict[str, Any]:
    """In a process of its own, so that one size does not warm the next."""
    code = f"import bench.console as b, json; print(json.dumps(b.measure({count})))"
    answer = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(answer.stdout.splitlines()[-1])
    return found


def measure(count: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        state_folder = StateFolder(Path(folder) / "state")
        state_folder.prepare()
        ledger = sqlite_ledger(state_folder.ledger)
        settings = load({"state": str(state_folder.path)}, {"HOME": folder})
        context = AppContext(ledger, ensure_director(ledger, "bench", Ids()), settings, state_folder, guarded=True)
        _fill(ledger, count)
        secret, _ = sessions.begin(ledger, Caller("ann", "admin", "socket"), 1.0)
        client = Client(build(context))
        found = {
            name: _read(client, path, f"{sessions.cookie_name(context.identity)}={secret}")
            for name, path in PAGES.items()
        }
        client.close()
        ledger.close()
        return found


def _read(client: Client, path: str, cookie: str) -> dict[str, float]:
    headers = {"accept": "text/html", "cookie": cookie}
    took, size = [], 0
    for _ in range(_REPEATS + 1):
        begin = time.process_time()
        answer = client.send("GET", path, headers=headers)
        took.append((time.process_time() - begin) * 1000)
        assert answer.status == 200, (path, answer.status, answer.text[:500])
        size = len(answer.body)
    return {"ms": statistics.median(took[1:]), "bytes": size}  # the first one loads the templates


def _fill(ledger: Ledger, count: int) -> None:
    def put(table: str, rows: list[dict[str, Any]]) -> None:
        for begin in range(0, len(rows), 500):
            with ledger.write() as tx:
                tx.execute(tables.metadata.tables[table].insert(), rows[begin : begin + 500])

    deployments = [f"dep-{n}" for n in range(max(1, count // _PER_DEPLOYMENT))]
    times = {"created_at": 1000.0, "updated_at": 1000.0}
    put("cloud_configs", [{"body": CONFIG, "hash": "1", "created_at": 1000.0}])
    put("clouds", [{"name": "lab", "driver": "sandbox", "properties": {}, "conductor_group": ""}])
    put("deployments", [{"name": name, "manifest": f"name: {name}\n", "config_id": 1, **times} for name in deployments])
    hosts = [
        {"name": f"h{n}", "az": f"z{n // _PER_RACK % _ZONES}", "rack": f"r{n // _PER_RACK}"}
        for n in range(count // _PER_HOST)
    ]
    check = {
        "items": [{"what": "hosts", "ok": True, "detail": "", "remedy": "", "facts": {"hosts": hosts}}],
        "capabilities": {"driver": "sandbox", "policies": ["anti-affinity"], "host_visibility": True},
    }
    fact = {"cloud": "lab", "what": "check:1", "driver": "sandbox", "wanted_at": 1000.0, "at": 1000.0, "data": check}
    put("facts", [fact])
    groups = [
        {
            "intent": f"sg-{n}",
            "deployment": f"dep-{n * _PER_GROUP // _PER_DEPLOYMENT}",
            "name": f"group-{n}",
            "cloud": "lab",
            "cid": f"cid-{n}",
            "policy": "anti-affinity",
            "state": "live",
            "metadata": {},
            "created_at": 1000.0,
        }
        for n in range(max(1, count // _PER_GROUP))
    ]
    put("server_groups", groups)
    nodes = [
        {
            "uuid": f"uuid-{n}",
            "deployment": f"dep-{n // _PER_DEPLOYMENT}",
            "instance_group": f"group-{n // _PER_GROUP}",
            "index": n % _PER_GROUP,
            "az": hosts[n % len(hosts)]["az"],
            "cloud": "lab",
            "state": "failing" if n % 200 == 7 else "up",
            "vm_cid": f"vm-{n}",
            "host": hosts[n % len(hosts)]["name"],
            "server_group": f"sg-{n // _PER_GROUP}",
            "addresses": {"net": f"10.{n >> 16}.{n >> 8 & 255}.{n & 255}"},
            **times,
        }
        for n in range(count)
    ]
    put("nodes", nodes)
    put(
        "tasks",
        [{"id": 1, "kind": "deploy", "deployment": "dep-0", "state": "done", "created_at": 1000.0, "ended_at": 2000.0}],
    )
    put("stages", [{"task": 1, "n": 0, "name": "nodes", "state": "done", "needs": [], "total": count, "ended": count}])
    steps = [
        {
            "id": n + 1,
            "task": 1,
            "stage": 0,
            "flow": "node.create",
            "label": "done",
            "subject": f"group-{n // _PER_GROUP}/{n % _PER_GROUP}",
            "state": "done",
            "not_before": 0.0,
            "started_at": 1000.0 + n / 10,
            "ended_at": 1005.0 + n / 10,
        }
        for n in range(count)
    ]
    put("steps", steps)
    events = [
        {
            "task": 1,
            "n": n + 1,
            "at": 1000.0 + n / 10,
            "kind": "node.up",
            "subject": steps[n]["subject"],
            "body": f"vm-{n}",
        }
        for n in range(count)
    ]
    put("events", events)


if __name__ == "__main__":
    main()
