"""Twenty processes with ten threads each make VMs in one server group: one group is in the cloud, with all in it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from coterie.cpi.drivers.sandbox.account import of_director
from coterie.ids import Ids
from coterie.ledger.store import Ledger
from coterie.sandbox import images, labels, server_groups, vm_shape
from coterie.sandbox.accounts import open_account
from coterie.sandbox.datacenter import Account, open_datacenter
from tests.faults.creator import DIRECTOR
from tests.kill.nursery import Nursery
from tests.kill.order import Order
from tests.kill.scenario import CLOUD, Phase, manifest, zone
from tests.kill.world import World, new_world

PROCESSES, THREADS = 20, 10


@pytest.mark.parametrize(
    ("database", "model"),
    [("sqlite", "direct"), ("sqlite", "single-writer"), ("postgresql", "single-writer")],
    indirect=["database"],
)
def test_one_group_and_every_vm_in_it(nursery: Nursery, database: str | None, tmp_path: Path, model: str) -> None:
    world = new_world(tmp_path / "world", database)
    layout = {"zones": [{**zone(), "cpu": 1000, "ram_mb": 1_000_000}]}
    state = world.folder / "sandbox.db"
    account = open_account(open_datacenter(state, layout), CLOUD, groups=model, operator=True)
    properties = {"state": str(state), "groups": model, "layout": layout}
    image = images.create_image(account, name="image").id
    account.datacenter.store.close()
    made, cids = _create_all(nursery, world, {"properties": properties, "image": image})
    _assert_one_group(account, model, made, cids)
    world.destroy()


def _create_all(nursery: Nursery, world: World, options: dict[str, object]) -> tuple[set[str], set[str]]:
    Ledger.open(world.url).close()
    common = {**options, "intent": Ids().intent(), "vms": THREADS}
    orders = [
        Order(
            "creator", world.url, str(world.folder), Phase("none", manifest()), run=n, options={**common, "number": n}
        )
        for n in range(PROCESSES)
    ]
    born = [nursery.start(order) for order in orders]
    (world.folder / "go").touch()
    for pid, order in zip(born, orders, strict=True):
        assert nursery.wait(pid) == 0, order.log.read_text()[-2000:]
    results = [json.loads(order.result.read_text()) for order in orders]
    return {vm for result in results for vm in result["vms"]}, {result["cid"] for result in results}


def _assert_one_group(account: Account, model: str, made: set[str], cids: set[str]) -> None:
    ours = of_director(DIRECTOR)
    (cid,) = cids
    (group,) = server_groups.list_server_groups(account, ours).items
    vms = vm_shape.list_vms(account, ours).items
    assert group.name == cid
    assert len(made) == PROCESSES * THREADS
    assert {vm.id for vm in vms if vm.state == "running"} == made
    assert set(server_groups.read_members(account, group.id)) == made
    assert len(labels.list_labels(account, ours).items) == (1 if model == "single-writer" else 0)
