"""The core process in front of CloudStack: what it learnt it does not ask again; one ledger with and without it."""

from __future__ import annotations

from tests.bosh.cloud_program import CloudShop
from tests.bosh.program import result

GROUP = "bosh-dep-web"
LEARNT = {"listZones", "listServiceOfferings", "listDiskOfferings", "listCapabilities"}


def test_the_core_remembers_what_it_learnt(cloud_shop: CloudShop) -> None:
    template = cloud_shop.template
    with cloud_shop.core():
        with cloud_shop.listening() as first:
            one = result(cloud_shop.run(cloud_shop.vm_request("agent-1", template, group=GROUP)).stdout)[0]
        with cloud_shop.listening() as second:
            two = result(cloud_shop.run(cloud_shop.vm_request("agent-2", template, group=GROUP)).stdout)[0]
    assert LEARNT & first.keys()
    assert not LEARNT & second.keys()
    assert cloud_shop.inventory()["vm"] == sorted([one, two])


def test_alone_and_with_the_core_it_is_one_ledger(cloud_shop: CloudShop) -> None:
    template = cloud_shop.template
    alone = result(cloud_shop.run(cloud_shop.vm_request("agent-1", template, group=GROUP)).stdout)
    with cloud_shop.core():
        again = result(cloud_shop.run(cloud_shop.vm_request("agent-1", template, group=GROUP)).stdout)
        result(cloud_shop.run(cloud_shop.vm_request("agent-2", template, group=GROUP)).stdout)
    assert again == alone
    assert (len(cloud_shop.inventory()["vm"]), len(cloud_shop.inventory()["server_group"])) == (2, 1)
