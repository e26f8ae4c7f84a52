"""Machines of one `env.bosh.group` on Azure: one availability set for all processes, none when all is over."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from peers.azure_bed import AzureBed

from tests.bosh.program import Shop, result
from tests.bosh.starting import by_fork

GROUP = "bosh-dep-web"
LIGHT = "Debian:debian-12:12:latest"
IN_NO_LIST = ("disk", "port", "label")  # parts of a VM, and what records its group


class AzureShop(Shop):
    size = {"instance_type": "Standard_B1s"}  # noqa: RUF012  # never changed

    def __init__(self, folder: Path, bed: AzureBed) -> None:
        self.bed = bed
        super().__init__(folder)

    def cloud(self) -> dict[str, Any]:
        return {"driver": "azure", "properties": {**self.bed.peer.properties(), "settle_s": 0.2}}

    def inventory(self) -> dict[str, list[str]]:
        found = defaultdict(list)
        for kind, cid in sorted(self.bed.inventory()):
            found[kind].append(cid)
        return dict(found)


@pytest.fixture
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AzureShop]:
    bed = AzureBed(tmp_path_factory.mktemp("c"))
    yield AzureShop(tmp_path_factory.mktemp("s"), bed)
    bed.close()


def test_processes_make_one_set_and_cleanup_none(shop: AzureShop) -> None:
    requests = [shop.vm_request(f"agent-{n}", LIGHT, group=GROUP) for n in range(8)]
    made = [result(raw)[0] for raw in by_fork(shop, requests)]
    assert len(set(made)) == 8
    (group,) = shop.inventory()["server_group"]
    members = shop.bed.open().inspect_server_group(group).members
    assert sorted(one.vm_cid for one in members) == sorted(made)
    for cid in made:
        shop.call("delete_vm", cid)
    shop.cleanup({"vm": [], "disk": [], "snapshot": []})
    assert shop.inventory() == {}


def test_a_compilation_machine_gets_no_set(shop: AzureShop) -> None:
    job = "compilation-0b5b4a9e-1111-2222-3333-444444444444"
    cid = shop.create_vm("agent-1", LIGHT, group=f"bosh-dep-{job}", job=job)
    assert {kind: cids for kind, cids in shop.inventory().items() if kind not in IN_NO_LIST} == {"vm": [cid]}


def test_a_disk_lives_and_moves(shop: AzureShop) -> None:
    vm, other = shop.create_vm("agent-1", LIGHT), shop.create_vm("agent-2", LIGHT)
    disk = shop.call("create_disk", 1024, {}, vm)
    assert shop.call("attach_disk", vm, disk)["lun"] == "0"
    shop.call("detach_disk", vm, disk)
    shop.call("delete_vm", vm)
    assert shop.call("attach_disk", other, disk)
    assert shop.call("get_disks", other) == [disk]
