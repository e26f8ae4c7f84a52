"""What plans, deploys, lists, audits, looks and what-if cost per node in deployments of different sizes, and what a
manifest with many instance groups costs per group. CPU of a whole Director on SQLite and the sandbox; each size has a
process of its own. What each work costs for a deployment of one node is printed apart, as its fixed cost, and is not in
the figures per node. Prints figures and ratios; asserts nothing."""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.deploy import CONFIG, manifest, prepare

from coterie.conductor.process import Conductor
from coterie.errors import CoterieError
from coterie.ledger.store import Ledger
from coterie.ledger.tables import tasks
from coterie.ledger.views import nodes
from coterie.ledger.views.page import Slice
from coterie.ledger.views.ring import placed
from coterie.ledger.work import conductors
from coterie.requests import looks, start
from coterie.requests.audit import placement_audit
from coterie.ring.hash import PROBED
from coterie.ring.members import Member
from coterie.ring.owner import Fleet
from coterie.ring.what_if import moves

WORKS = ("plan", "deploy", "plan again", "list", "audit", "look", "what-if")
ROUNDS = 5  # of what can be repeated; the cheapest counts, since other load only adds
PAGE = 1000
_LEASE_S = 120.0  # a machine with other work on it shall not end a run of many minutes


def measure(count: int, folder: Path) -> dict[str, Any]:
    """CPU seconds of each work, the fixed part of it, and by how many MB the process grew at most."""
    ledger = prepare(folder)
    conductor = Conductor(ledger, "bench", state_folder=folder, ttl_s=_LEASE_S)
    conductor.start()
    _measure_works(ledger, "first", 1)  # what is loaded and worked out once
    fixed = _measure_works(ledger, "second", 1)
    before = _peak_mb()
    found = _measure_works(ledger, "big", count)
    conductor.drain()
    return {"cpu_s": found, "fixed_s": fixed, "mb": _peak_mb() - before}


def _measure_works(ledger: Ledger, name: str, count: int) -> dict[str, float]:
    request = _request(name, count)
    works: dict[str, Callable[[], object]] = {
        "plan": lambda: start.plan(ledger, request),
        "deploy": lambda: _finish(ledger, start.deploy(ledger, request, None, None)),
        "plan again": lambda: start.plan(ledger, request),
        "list": lambda: _list(ledger, name),
        "audit": lambda: placement_audit(ledger, name),
        "look": lambda: _finish(ledger, looks.look(ledger) or 0),
        "what-if": lambda: _what_if(ledger),
    }
    return {name: min(_cpu(work) for _ in range(1 if name == "deploy" else ROUNDS)) for name, work in works.items()}


def measure_groups(count: int) -> dict[str, Any]:
    """A plan of a manifest with so many instance groups of one node each, or why it is refused."""
    one = json.loads(manifest("many", 1))
    template = one["instance_groups"][0]
    one["instance_groups"] = [{**template, "name": f"n{number}"} for number in range(count)]
    text = json.dumps(one)
    with tempfile.TemporaryDirectory() as folder:
        ledger = prepare(Path(folder))
        conductor = Conductor(ledger, "bench", state_folder=Path(folder))
        conductor.start()
        refusal = ""

        def work() -> None:
            nonlocal refusal
            try:
                start.plan(ledger, start.PlanRequest(manifest=text, cloud_config=json.dumps(CONFIG)))
            except CoterieError as error:
                refusal = str(error)

        cpu = _cpu(work)
        conductor.drain()
    return {"cpu_s": cpu, "bytes": len(text), "refusal": refusal}


def _request(name: str, count: int) -> start.PlanRequest:
    return start.PlanRequest(manifest=manifest(name, count), cloud_config=json.dumps(CONFIG))


def _cpu(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def _finish(ledger: Ledger, task: int) -> None:
    while True:
        with ledger.read() as tx:
            state = tx.execute(tasks.select().where(tasks.c.id == task)).one().state
        if state not in ("running", "cancelling"):
            break
        time.sleep(0.2)
    if state != "done":
        raise SystemExit(f"task {task} ended as {state}")


def _list(ledger: Ledger, deployment: str) -> None:
    part = Slice(PAGE)
    while True:
        with ledger.read() as tx:
            page = nodes.page(tx, part, deployment=deployment)
        if page.next is None:
            return
        part = Slice(PAGE, page.next)


def _what_if(ledger: Ledger) -> None:
    """One more conductor of four."""
    fleet = [Member(f"c{n}", "", frozenset(["sandbox"]), "0.1.0", True, 1.0, PROBED, None) for n in range(5)]
    with ledger.read() as tx:
        conductors.living(tx)
        moves(Fleet(fleet[:4]), Fleet(fleet), placed(tx))


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _child(kind: str, size: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "bench.scale", f"--one-{kind}", str(size)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def table(sizes: list[int], groups: list[int]) -> None:
    print("CPU ms per node", *(f"{name:>11}" for name in WORKS), f"{'KB of memory':>13}")
    rows: list[list[float]] = []
    for size in sizes:
        found = _child("size", size)
        fixed = [found["fixed_s"][name] * 1000 for name in WORKS]
        cpu = [found["cpu_s"][name] * 1000 - spent for name, spent in zip(WORKS, fixed, strict=True)]
        rows.append([value / size for value in [*cpu, found["mb"] * 1024]])
        print(f"{size:>15}", *(f"{value:>11.3f}" for value in rows[-1][:-1]), f"{rows[-1][-1]:>13.1f}", flush=True)
        print(f"{'and fixed, ms':>15}", *(f"{value:>11.1f}" for value in fixed), flush=True)
    for size, row in list(zip(sizes, rows, strict=True))[1:]:
        ratios = (value / first if first else 0.0 for value, first in zip(row, rows[0], strict=True))
        print(f"{f'× {size}/{sizes[0]}':>15}", *(f"{ratio:>11.2f}" for ratio in ratios))
    print("instance groups  CPU ms per group  MiB of manifest")
    for size in groups:
        found = _child("groups", size)
        print(f"{size:>15} {found['cpu_s'] / size * 1000:>17.2f} {found['bytes'] / 2**20:>16.1f}  {found['refusal']}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="*", default=[1000, 10_000, 50_000])
    parser.add_argument("--groups", type=int, nargs="*", default=[1000, 10_000, 30_000])
    parser.add_argument("--one-size", type=int)
    parser.add_argument("--one-groups", type=int)
    chosen = parser.parse_args()
    if chosen.one_size:
        with tempfile.TemporaryDirectory() as folder:
            print(json.dumps(measure(chosen.one_size, Path(folder))))
    elif chosen.one_groups:
        print(json.dumps(measure_groups(chosen.one_groups)))
    else:
        table(chosen.sizes, chosen.groups)


if __name__ == "__main__":
    main()
