"""Twenty processes make two hundred VMs of one server group at once: the cloud holds one group, with all of them."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import pytest

from coterie.cpi.contract import Cpi, GroupMetadata, Mark, Runtime
from coterie.cpi.load import open_cloud
from coterie.ids import Ids
from coterie.ledger.store import Ledger
from coterie.task.coordinator import LedgerCoordinator

DIRECTOR = "0f8fad5b-d9cb-469f-a165-70867728950e"
PROCESSES, EACH = 20, 10
LAYOUT = {"zones": [{"name": "z1", "racks": 2, "hosts_per_rack": 2, "cpu": 512, "ram_mb": 1 << 20, "disk_mb": 1 << 24}]}


def driver(ledger: Ledger, name: str, folder: Path, groups: str) -> Cpi:
    properties = {"state": str(folder / "sandbox.db"), "layout": LAYOUT, "groups": groups}
    return open_cloud("sandbox", "lab", properties, Runtime(DIRECTOR, LedgerCoordinator(ledger, name)))


def make_vms(number: int, url: str, folder: Path, groups: str, image: str, cid: str) -> None:
    ledger, ids = Ledger.open(url), Ids()
    cpi = driver(ledger, f"p{number}", folder, groups)
    for i in range(EACH):
        networks = {"n": {"type": "manual", "ip": f"127.30.{number}.{i + 1}", "cloud_properties": {}}}
        size = {"zone": "z1", "cpu": 1, "ram_mb": 64, "disk_mb": 64}
        env = {"bosh": {"server_group_cid": cid}}
        cpi.create_vm(ids.uuid(), image, size, networks, [], env, mark=Mark(DIRECTOR, ids.intent()))
    ledger.close()


@pytest.mark.parametrize("groups", ["direct", "single-writer"])
def test_one_group_in_the_cloud(database_url: str, tmp_path: Path, groups: str) -> None:
    ledger = Ledger.open(database_url)
    cpi = driver(ledger, "parent", tmp_path, groups)
    image = tmp_path / "image"
    image.write_bytes(b"x")
    stemcell = cpi.create_stemcell(str(image), {}, None, mark=Mark(DIRECTOR, Ids().intent()))
    wish = GroupMetadata({"name": "d", "uuid": DIRECTOR}, "dep", "g", ("z1",), policy="soft-anti-affinity")
    cid = cpi.create_server_group(wish, mark=Mark(DIRECTOR, Ids().intent()))
    fork = multiprocessing.get_context("fork")
    work = [
        fork.Process(target=make_vms, args=(n, database_url, tmp_path, groups, stemcell, cid)) for n in range(PROCESSES)
    ]
    for process in work:
        process.start()
    for process in work:
        process.join()
    assert [process.exitcode for process in work] == [0] * PROCESSES
    view = cpi.inspect_server_group(cid)
    assert (view.state, len(view.members)) == ("live", PROCESSES * EACH)
    assert len([resource for resource in view.resources if resource.kind == "server_group"]) == 1
    assert len(cpi.survey("server_group", DIRECTOR).objects) == 1
    ledger.close()
