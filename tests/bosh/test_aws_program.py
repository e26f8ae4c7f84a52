"""`coterie-cpi` on the sandbox's EC2, as a BOSH Director starts it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from peers.aws_bed import AwsBed

from tests.bosh.program import Shop

DISK_MB = 2048


class AwsShop(Shop):
    size = {"instance_type": "t3.nano", "availability_zone": "z1"}  # noqa: RUF012  # never changed
    networks = {"default": {"type": "dynamic", "cloud_properties": {"subnet": "subnet-z1"}}}  # noqa: RUF012  # as above

    def __init__(self, folder: Path, bed: AwsBed, **settings: Any) -> None:
        self.bed = bed
        super().__init__(folder, **settings)

    def cloud(self) -> dict[str, Any]:
        return {"driver": "aws", "properties": {**self.bed.properties(), "settle_s": 0.2}}


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[AwsShop]:
    bed = AwsBed(tmp_path)
    yield AwsShop(tmp_path, bed)
    bed.close()


def test_a_cluster_with_its_group_is_made_and_goes(shop: AwsShop) -> None:
    before = shop.bed.inventory()
    stemcell = shop.stemcell()
    vms = [shop.create_vm(f"agent-{number}", stemcell, group="bosh-dep-web") for number in range(2)]
    made = [kind for kind, _ in shop.bed.inventory() - before]
    assert sorted(made) == ["image", "server_group", "vm", "vm"]
    disk = shop.call("create_disk", DISK_MB, {"type": "gp3"}, vms[0])
    hint = shop.call("attach_disk", vms[0], disk)
    assert hint["path"] == f"/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_{disk.replace('-', '')}"
    assert shop.call("get_disks", vms[0]) == [disk]
    shop.call("detach_disk", vms[0], disk)
    shop.call("delete_disk", disk)
    for vm in vms:
        shop.call("delete_vm", vm)
    shop.call("delete_stemcell", stemcell)
    shop.cleanup({"vm": [], "disk": [], "image": []})
    assert shop.bed.inventory() == before


def test_the_program_itself_answers_and_says_what_is_wrong(shop: AwsShop) -> None:
    """A process of its own, alone: a question, and a word of BOSH's own CPI that is refused with the remedy."""
    assert json.loads(shop.run(shop.request("has_vm", "i-0123456789abcdef0")).stdout)["result"] is False
    properties = {"instance_type": "t3.nano", "spot_bid_price": 0.1}
    request = shop.request("create_vm", "agent", "ami-1", properties, shop.networks, [], {})
    error = json.loads(shop.run(request).stdout)["error"]
    assert "spot_bid_price is not supported" in error["message"] and "leave it out" in error["message"]
