"""`coterie-cpi` on the sandbox's Compute Engine, as a BOSH Director starts it: one policy for all processes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from peers.gcp_bed import PUBLIC_IMAGE, GcpBed

from tests.bosh.program import Shop, result
from tests.bosh.starting import by_fork


class GcpShop(Shop):
    size = {"machine_type": "f1-micro", "zone": "z1"}  # noqa: RUF012  # never changed

    def __init__(self, folder: Path, bed: GcpBed) -> None:
        self.bed = bed
        super().__init__(folder)

    def cloud(self) -> dict[str, Any]:
        return {"driver": "gcp", "properties": {**self.bed.properties(), "settle_s": 0.2}}


@pytest.fixture
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GcpShop]:
    bed = GcpBed(tmp_path_factory.mktemp("c"))
    yield GcpShop(tmp_path_factory.mktemp("s"), bed)
    bed.close()


def test_a_cluster_with_its_group_is_made_and_goes(shop: GcpShop) -> None:
    before = shop.bed.inventory()
    stemcell = shop.stemcell()
    vms = [shop.create_vm(f"agent-{number}", stemcell, group="bosh-dep-web") for number in range(2)]
    made = [kind for kind, cid in shop.bed.inventory() - before if not cid.endswith("-os")]
    assert sorted(made) == ["image", "server_group", "vm", "vm"]
    disk = shop.call("create_disk", 2048, {"type": "pd-ssd"}, vms[0])
    hint = shop.call("attach_disk", vms[0], disk)
    assert hint["path"] == f"/dev/disk/by-id/google-{disk.split('/')[1]}"
    assert shop.call("get_disks", vms[0]) == [disk]
    shop.call("detach_disk", vms[0], disk)
    shop.call("delete_disk", disk)
    for vm in vms:
        shop.call("delete_vm", vm)
    shop.call("delete_stemcell", stemcell)
    shop.cleanup({"vm": [], "disk": [], "image": []})
    assert shop.bed.inventory() == before


def test_processes_make_one_policy_and_cleanup_none(shop: GcpShop) -> None:
    requests = [shop.vm_request(f"agent-{n}", PUBLIC_IMAGE, group="bosh-dep-web") for n in range(6)]
    made = [result(raw)[0] for raw in by_fork(shop, requests)]
    assert len(set(made)) == 6
    (group,) = [cid for kind, cid in shop.bed.inventory() if kind == "server_group"]
    members = shop.bed.open().inspect_server_group(group).members
    assert sorted(one.vm_cid for one in members) == sorted(made)
    for cid in made:
        shop.call("delete_vm", cid)
    shop.cleanup({"vm": [], "disk": [], "snapshot": []})
    assert shop.bed.inventory() == frozenset()


def test_the_program_itself_answers_and_says_what_is_wrong(shop: GcpShop) -> None:
    """A process of its own, alone: a question, and a word of BOSH's own CPI that is refused with the remedy."""
    assert json.loads(shop.run(shop.request("has_vm", "z1/vm-0123")).stdout)["result"] is False
    properties = {"machine_type": "f1-micro", "target_pool": "web"}
    request = shop.request("create_vm", "agent", "image", properties, shop.networks, [], {})
    error = json.loads(shop.run(request).stdout)["error"]
    assert "target_pool is not supported" in error["message"] and "network tag" in error["message"]
