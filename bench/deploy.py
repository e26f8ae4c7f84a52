"""Deploys 100, 1,000 and 10,000 nodes on a zero-latency sandbox, beside a floor measured in the same run.

The floor makes the same driver calls and writes the same ledger rows in a bare loop, in batched statements: what no
orchestrator could save. Both have done it for one node before the clock starts, as in a Director that has been up for a
while; what that first node cost is printed too. Small sizes are run several times in turn, and the medians are shown: a
fifth of a second says little. Prints figures and ratios; asserts nothing.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from coterie.conductor.process import Conductor
from coterie.conductor.startup import collect_garbage_seldom
from coterie.cpi.contract import Cpi, GroupMetadata, Mark, Runtime
from coterie.cpi.load import open_cloud
from coterie.engine.coordinator import LedgerCoordinator
from coterie.ids import Ids
from coterie.ledger.rows import identity, stemcells
from coterie.ledger.store import Ledger
from coterie.ledger.tables import metadata, tasks
from coterie.requests import start

LAYOUT = {
    "zones": [{"name": "z1", "racks": 10, "hosts_per_rack": 20, "cpu": 512, "ram_mb": 1 << 20, "disk_mb": 1 << 26}]
}
CONFIG = {
    "clouds": [{"name": "lab", "driver": "sandbox", "properties": {"layout": LAYOUT}}],
    "azs": [{"name": "z1", "cloud": "lab", "cloud_properties": {"zone": "z1"}}],
    "vm_types": [{"name": "tiny", "cloud_properties": {"cpu": 1, "ram_mb": 256, "disk_mb": 1024}}],
    "networks": [{"name": "net", "subnets": [{"range": "10.0.0.0/14", "gateway": "10.0.0.1"}]}],
}
ROWS = ("nodes", "addresses", "objects", "steps", "events")


def manifest(name: str, count: int) -> str:
    group = {
        "name": "n",
        "instances": count,
        "azs": ["z1"],
        "vm_type": "tiny",
        "stemcell": "s",
        "networks": [{"name": "net"}],
        "placement": {"policy": "soft-anti-affinity"},
        "update": {"canaries": 1, "max_in_flight": count},
    }
    return json.dumps(
        {"name": name, "stemcells": [{"alias": "s", "name": "s", "version": "1"}], "instance_groups": [group]}
    )


class Meter:
    """Wall and CPU seconds of this process, and its peak memory."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def read(self) -> dict[str, Any]:
        return {
            "wall_s": time.perf_counter() - self._wall,
            "cpu_s": time.process_time() - self._cpu,
            "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        }


def prepare(folder: Path) -> Ledger:
    collect_garbage_seldom()  # as every service does
    ledger = Ledger.open(f"sqlite:///{folder / 'ledger.db'}")
    identity.ensure_director(ledger, "bench", Ids())
    (folder / "stemcells").mkdir()
    (folder / "stemcells" / "image").write_bytes(b"image")
    with ledger.write() as tx:
        stemcells.add(tx, "s", "1", "image", "0", {}, [])
    return ledger


def coterie(count: int, folder: Path) -> dict[str, Any]:
    ledger = prepare(folder)
    counts: Counter[str] = Counter()
    conductor = Conductor(
        ledger, "bench", state_folder=folder, observe=lambda method, seconds, error: counts.update([method])
    )
    gc.freeze()  # as a Director and a conductor do
    conductor.start()
    first = _deploy(ledger, "first", 1)
    counts.clear()
    before = _rows(ledger)
    result = _deploy(ledger, "big", count)
    conductor.drain()
    rows = {name: total - before[name] for name, total in _rows(ledger).items()}
    with ledger.read() as tx:
        examples = {name: _example(tx, name) for name in ROWS}
    return {**result, "first_s": first["cpu_s"], "calls": dict(counts), "rows": rows, "examples": examples}


def _deploy(ledger: Ledger, name: str, count: int) -> dict[str, Any]:
    meter = Meter()
    request = start.PlanRequest(manifest=manifest(name, count), cloud_config=json.dumps(CONFIG))
    task = start.deploy(ledger, request, None, None)
    while (state := _state(ledger, task)) == "running":
        time.sleep(0.1)
    if state != "done":
        raise SystemExit(f"the deployment ended as {state}")
    return meter.read()


def floor(count: int, folder: Path, rows: dict[str, int], examples: dict[str, Any]) -> dict[str, Any]:
    """The same calls to the same driver, the same number of rows of the same size in batches of a thousand."""
    ledger = prepare(folder)
    runtime = Runtime("0" * 36, LedgerCoordinator(ledger, "floor"))
    properties = {"layout": LAYOUT, "state": str(folder / "sandbox.db")}
    cpi = open_cloud("sandbox", "lab", properties, runtime)
    ids = Ids()
    image = cpi.create_stemcell(str(folder / "stemcells" / "image"), {}, None, mark=Mark("0" * 36, ids.intent()))
    group = _group(cpi, ids)

    def nodes(numbers: range, totals: dict[str, int], seen: int) -> dict[str, Any]:
        meter = Meter()
        for index in numbers:
            _one(cpi, ids, index, image, group)
        for name, total in totals.items():
            _insert(ledger, name, range(seen, seen + total), examples[name], ids)
        return meter.read()

    gc.freeze()
    first = nodes(range(1), dict.fromkeys(rows, 1), 0)
    return {**nodes(range(1, count + 1), rows, 1), "first_s": first["cpu_s"]}


def _one(cpi: Cpi, ids: Ids, index: int, image: str, group: str) -> None:
    mark = Mark("0" * 36, ids.intent())
    address = f"10.{index >> 16}.{(index >> 8) & 255}.{index & 255}"
    networks = {"net": {"type": "manual", "ip": address, "netmask": "255.252.0.0", "cloud_properties": {}}}
    env = {"bosh": {"server_group_cid": group}}
    size = {"zone": "z1", "cpu": 1, "ram_mb": 256, "disk_mb": 1024}
    cid = cpi.create_vm(ids.uuid(), image, size, networks, [], env, mark=mark).cid
    cpi.set_vm_metadata(cid, {"director": "bench", "deployment": "big", "id": cid, "job": "n", "index": str(index)})
    cpi.find("vm", mark)


def _group(cpi: Cpi, ids: Ids) -> str:
    metadata = GroupMetadata({"name": "bench", "uuid": "0" * 36}, "big", "n", ("z1",))
    return cpi.create_server_group(metadata, mark=Mark("0" * 36, ids.intent()))


def _rows(ledger: Ledger) -> dict[str, int]:
    with ledger.read() as tx:
        return {
            name: tx.execute(sa.select(sa.func.count()).select_from(metadata.tables[name])).scalar_one()
            for name in ROWS
        }


def _example(tx: sa.Connection, name: str) -> dict[str, Any]:
    table = metadata.tables[name]
    row = tx.execute(sa.select(table).limit(1)).one()
    return dict(row._mapping)


def _insert(ledger: Ledger, name: str, numbers: range, example: dict[str, Any], ids: Ids) -> None:
    table = metadata.tables[name]
    keys = [column.name for column in table.primary_key] + (["index"] if name == "nodes" else [])
    for first in range(numbers.start, numbers.stop, 1000):
        rows = []
        for number in numbers[first - numbers.start :][:1000]:
            fresh = {key: number + 1 if isinstance(example[key], int) else ids.uuid() for key in keys}
            rows.append({**example, **fresh})
        with ledger.write() as tx:
            tx.execute(table.insert(), rows)


def _state(ledger: Ledger, task: int) -> str:
    with ledger.read() as tx:
        found: str = tx.execute(sa.select(tasks.c.state).where(tasks.c.id == task)).scalar_one()
        return found


def _child(arguments: list[str]) -> dict[str, Any]:
    """Each measurement in a process of its own, so that memory and caches are its own too."""
    done = subprocess.run(
        [sys.executable, __file__, *arguments], check=True, stdout=subprocess.PIPE, text=True, env={**os.environ}
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sizes", nargs="*", type=int, default=[100, 1000, 10000])
    parser.add_argument("--one", choices=["coterie", "floor"])
    parser.add_argument("--facts", default="{}")
    chosen = parser.parse_args()
    if chosen.one:
        with tempfile.TemporaryDirectory() as folder:
            if chosen.one == "coterie":
                print(json.dumps(coterie(chosen.sizes[0], Path(folder))))
            else:
                facts = json.loads(Path(chosen.facts).read_text())
                print(json.dumps(floor(chosen.sizes[0], Path(folder), facts["rows"], facts["examples"])))
        return
    table(chosen.sizes)


def _round(size: int) -> tuple[dict[str, Any], dict[str, Any]]:
    with tempfile.NamedTemporaryFile("w", suffix=".json") as facts:
        mine = _child(["--one", "coterie", str(size)])
        json.dump(mine, facts)
        facts.flush()
        return mine, _child(["--one", "floor", str(size), "--facts", facts.name])


def table(sizes: list[int]) -> None:
    heads = (f"{'nodes':>6}", f"{'nodes/s':>8}", f"{'CPU ms/node':>12}", f"{'floor':>7}", f"{'ratio':>6}")
    print(*heads, f"{'peak MB':>8}", f"{'floor MB':>9}", " calls/node")
    per_node: dict[int, float] = {}
    firsts: list[str] = []
    for size in sizes:
        rounds = [_round(size) for _ in range(max(1, min(5, 3000 // size)))]
        mine, least = (sorted(one, key=lambda run: run["cpu_s"])[len(rounds) // 2] for one in zip(*rounds, strict=True))
        cost, bare = mine["cpu_s"] / size * 1000, least["cpu_s"] / size * 1000
        per_node[size] = cost
        firsts.append(f"{mine['first_s'] * 1000:.0f} ({least['first_s'] * 1000:.0f})")
        calls = sum(mine["calls"].values()) / size
        print(
            f"{size:>6} {size / mine['wall_s']:>8.0f} {cost:>12.2f} {bare:>7.2f} {cost / bare:>6.2f} "
            f"{mine['peak_mb']:>8.0f} {least['peak_mb']:>9.0f}  {calls:.2f}"
        )
    print(f"CPU ms of the first node in a fresh process (floor): {', '.join(firsts)}")
    if len(sizes) > 1:
        large, small = max(sizes), sorted(sizes)[-2]
        print(f"cost per node at {large} is {per_node[large] / per_node[small]:.2f} × that at {small}")


if __name__ == "__main__":
    main()
