"""`coterie-cpi` on the real Incus cluster, as a BOSH Director starts it: one choice of members for all processes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from peers.incus_bed import CLUSTER, IncusBed, stemcell

from tests.bosh.program import Shop, result
from tests.bosh.starting import by_fork
from tests.cpi.drivers.incus.guest import facts

pytestmark = pytest.mark.incus


class IncusShop(Shop):
    size = {"cpu": 1, "memory": 64, "cluster_group": "z1"}  # noqa: RUF012  # never changed

    def __init__(self, folder: Path, bed: IncusBed) -> None:
        self.bed = bed
        super().__init__(folder)
        self.image = Path(stemcell())

    def cloud(self) -> dict[str, Any]:
        return {"driver": "incus", "properties": {**self.bed.properties(), "settle_s": 1, "request_timeout": 10}}


@pytest.fixture
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[IncusShop]:
    bed = IncusBed(tmp_path_factory.mktemp("c"))
    made = IncusShop(tmp_path_factory.mktemp("s"), bed)
    before = bed.inventory()
    yield made
    left = bed.inventory() - before
    bed.close()
    assert left == set()


def test_a_cluster_with_its_group_is_made_and_goes(shop: IncusShop) -> None:
    image = shop.stemcell()
    ip, vms = "", []
    for number in range(2):
        ip = str(shop.bed.address("z1"))
        shop.networks = shop.bed.networks("z1", ip)
        vms.append(shop.create_vm(f"agent-{number}", image, group="bosh-dep-web"))
    assert sorted(shop.bed.operator.locations(*vms)) == ["inc1", "inc2"]
    assert facts(ip)["agent_id"] == "agent-1"
    disk = shop.call("create_disk", 64, {}, vms[1])
    assert shop.call("attach_disk", vms[1], disk)["path"] == "/var/vcap/store"
    facts(ip, store={"path": "/var/vcap/store", "mounted": True, "files": []})
    assert shop.call("get_disks", vms[1]) == [disk]
    shop.call("detach_disk", vms[1], disk)
    shop.call("delete_disk", disk)
    for vm in vms:
        shop.call("delete_vm", vm)
    shop.call("delete_stemcell", image)
    shop.cleanup({"vm": [], "disk": [], "image": []})


def test_processes_place_one_group_together(shop: IncusShop) -> None:
    image = shop.stemcell()
    shop.size = {"cpu": 1, "memory": 64}
    requests = [shop.vm_request(f"agent-{n}", image, group="bosh-dep-web") for n in range(6)]
    made = [result(raw)[0] for raw in by_fork(shop, requests)]
    assert sorted(shop.bed.operator.locations(*made)) == sorted(["inc1", "inc2", "inc3"] * 2)
    for cid in made:
        shop.call("delete_vm", cid)
    shop.call("delete_stemcell", image)
    shop.cleanup({"vm": [], "disk": [], "image": []})


def test_the_program_itself_answers_and_says_what_is_wrong(shop: IncusShop) -> None:
    assert json.loads(shop.run(shop.request("has_vm", "cot-nobody")).stdout)["result"] is False
    properties = {**shop.size, "target": CLUSTER.url}  # a word of the community's CPI for LXD and Incus
    request = shop.request("create_vm", "agent", "0a" * 32, properties, shop.networks, [], {})
    error = json.loads(shop.run(request).stdout)["error"]
    assert "target" in error["message"]
