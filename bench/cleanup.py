"""Cleanup over 1,000, 10,000 and 100,000 objects with 1 % orphans: calls, time, memory. Prints ratios; asserts nothing.

Objects are written into the sandbox and the ledger directly; what is measured is a survey with its plan, and the
sweep of the orphans, through a conductor. Usage: bench/cleanup.py [COUNT …]
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from coterie.cleanup import start
from coterie.cleanup.options import Options
from coterie.conductor.process import Conductor
from coterie.ids import Ids
from coterie.ledger.rows import cleanups, identity
from coterie.ledger.store import Ledger
from coterie.ledger.tables import deployments, nodes, objects, tasks
from coterie.requests.start import set_cloud_config
from coterie.sandbox.accounts import open_account
from coterie.sandbox.datacenter import open_datacenter

COUNTS = (1_000, 10_000, 100_000)
ORPHANS = 100  # one in so many
_FIRST = 1_000  # the datacenter has a few objects of its own
CONFIG = """
clouds: [{name: lab, driver: sandbox}]
azs: [{name: z1, cloud: lab, cloud_properties: {zone: z1}}]
vm_types: [{name: small, cloud_properties: {cpu: 1, ram_mb: 512, disk_mb: 1024}}]
networks: [{name: net, type: dynamic}]
"""
ALL = {"grace_s": 0, "undo_s": 0, "cap": 10**6, "cap_percent": 100, "rate": 10_000, "kinds": ["disk"]}


def main() -> None:
    counts = [int(word) for word in sys.argv[1:]] or list(COUNTS)
    results = [_apart(count) for count in counts]
    print(f"{'objects':>9} {'orphans':>8} {'calls':>6} {'pages':>6} {'survey s':>9} {'sweep s':>8} {'MiB more':>9}")
    for found in results:
        print(
            f"{found['objects']:>9} {found['orphans']:>8} {found['calls']:>6} {found['pages']:>6} "
            f"{found['survey_s']:>9.2f} {found['sweep_s']:>8.2f} {found['mib']:>9.1f}"
        )
    first, last = results[0], results[-1]
    more = last["objects"] / first["objects"]
    print(
        f"\n{more:.0f} times the objects: {last['survey_s'] / first['survey_s']:.1f} times the time of the survey, "
        f"{last['calls'] / first['calls']:.1f} times the calls, {last['mib'] - first['mib']:+.1f} MiB"
    )


def _apart(count: int) -> dict[str, Any]:
    """In a process of its own, so that its memory is its own."""
    told = subprocess.run([sys.executable, __file__, "--one", str(count)], stdout=subprocess.PIPE, check=True)
    found: dict[str, Any] = json.loads(told.stdout)
    return found


def _one(count: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ledger = Ledger.open(f"sqlite:///{folder / 'ledger.db'}")
        director = identity.ensure_director(ledger, "bench", Ids()).uuid
        set_cloud_config(ledger, CONFIG, "bench")
        _fill(ledger, folder, director, count)
        conductor = Conductor(ledger, "bench", state_folder=folder)
        conductor.start()
        print(json.dumps({"objects": count, **_measure(ledger)}))
        conductor.drain()
        ledger.close()


def _measure(ledger: Ledger) -> dict[str, Any]:
    before, began = _memory(), time.monotonic()
    number, task = start.survey(ledger, Options.of_wire(ALL), "bench")
    _wait(ledger, task)
    plan = start.read_plan(ledger, number)
    surveyed, peak = time.monotonic(), _memory()
    _wait(ledger, start.apply(ledger, number, plan.id, "bench"))
    swept = time.monotonic()
    with ledger.read() as tx:
        (row,) = cleanups.all_surveys(tx, number)
    return {
        "orphans": len(plan.items),
        "calls": row.calls,
        "pages": row.pages,
        "survey_s": surveyed - began,
        "sweep_s": swept - surveyed,
        "mib": (peak - before) / 1024,
    }


def _fill(ledger: Ledger, folder: Path, director: str, count: int) -> None:
    """Disks of one node each; every hundredth has lost its node."""
    ids = Ids()
    intents = [ids.intent() for _ in range(count)]
    _fill_cloud(folder, director, intents)
    at = time.time() - 3600
    with ledger.write() as tx:
        tx.execute(deployments.insert().values(name="big", manifest="", config_id=1, created_at=at, updated_at=at))
        for begin in range(0, count, 5000):
            part = list(enumerate(intents))[begin : begin + 5000]
            tx.execute(objects.insert(), [_row(n, intent, at) for n, intent in part])
            used = [_node(n, at) for n, _ in part if n % ORPHANS]
            tx.execute(nodes.insert(), used)


def _row(n: int, intent: str, at: float) -> dict[str, Any]:
    return {
        "intent": intent,
        "kind": "disk",
        "cloud": "lab",
        "state": "live",
        "cid": f"disk-{n}",
        "deployment": "big",
        "node": f"node-{n}",
        "ref": f"big/{n}",
        "created_at": at,
    }


def _node(n: int, at: float) -> dict[str, Any]:
    where = {"deployment": "big", "instance_group": "big", "index": n, "az": "z1", "cloud": "lab"}
    return {"uuid": f"node-{n}", **where, "state": "planned", "created_at": at, "updated_at": at}


def _fill_cloud(folder: Path, director: str, intents: list[str]) -> None:
    center = open_datacenter(folder / "sandbox.db")
    open_account(center, "lab", groups="direct", operator=True)
    tags = (("coterie-director", lambda n: director), ("coterie-intent", lambda n: intents[n]))
    with center.store.writing() as db:
        db.executemany(
            "INSERT INTO objects (seq, id, account, kind, name, created_at, visible_at) "
            "VALUES (?,?,'lab','disk',?,1,0)",
            ((_FIRST + n, f"disk-{n}", f"disk-{n}") for n in range(len(intents))),
        )
        db.executemany(
            "INSERT INTO disks (object, size_mb, type, zone) VALUES (?,1,'standard','z1')",
            ((_FIRST + n,) for n in range(len(intents))),
        )
        for key, value in tags:
            db.executemany(
                "INSERT INTO tags (object, key, value, scope) VALUES (?,?,?,'lab/disk')",
                ((_FIRST + n, key, value(n)) for n in range(len(intents))),
            )


def _wait(ledger: Ledger, task: int) -> None:
    while True:
        seen = ledger.written.version
        with ledger.read() as tx:
            state = tx.execute(sa.select(tasks.c.state).where(tasks.c.id == task)).scalar_one()
        if state not in ("running", "cancelling"):
            assert state == "done", state
            return
        ledger.written.wait(seen, 0.5)


def _memory() -> int:
    """KiB: the peak of this process, as the kernel has it."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        _one(int(sys.argv[2]))
    else:
        os.environ.setdefault("PYTHONUNBUFFERED", "1")
        main()
