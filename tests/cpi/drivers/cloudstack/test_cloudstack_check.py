"""`check`: every item that can be wrong is made wrong once, and says so with what to do; nothing is changed by it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from peers.cloudstack_bed import CloudstackBed, CloudstackUserBed
from tests.cpi.drivers.cloudstack.keys import ED25519

from coterie.cpi.conformance.lab import Lab
from coterie.cpi.contract import CheckItem, Needs
from coterie.sandbox import reshape
from coterie.sandbox.fronts.cloudstack import shelf
from coterie.sandbox.twist import Tx

ITEMS = ("credentials", "azs", "offerings", "quotas", "expunge", "templates")


def found(bed: CloudstackBed, what: str, needs: Needs | None = None, **more: Any) -> CheckItem:
    bed.more = more
    (item,) = [one for one in bed.open().check(needs) if one.what == what]
    return item


def wrong(item: CheckItem, detail: str, remedy: str) -> None:
    assert not item.ok
    assert detail in item.detail
    assert remedy in item.remedy


@pytest.fixture(params=["admin", "user"])
def either(request: pytest.FixtureRequest) -> CloudstackBed:
    name = "bed" if request.param == "admin" else "user_bed"
    bed: CloudstackBed = request.getfixturevalue(name)
    return bed


def test_a_good_cloud_is_good_and_left_as_it_was(either: CloudstackBed) -> None:
    before = either.inventory()
    items = {one.what: one for one in either.open().check(Needs(kinds=("vm",), azs=("z1",)))}
    assert all(one.ok for one in items.values())
    assert set(ITEMS) <= set(items)
    assert either.inventory() == before
    assert not [name for name in either.witness.seen if not name.startswith("list")]


def test_keys_that_the_cloud_does_not_know(bed: CloudstackBed) -> None:
    wrong(found(bed, "credentials", api_key="nobody"), "401", "api_key")


def test_a_server_that_is_not_there(bed: CloudstackBed) -> None:
    wrong(found(bed, "credentials", endpoint="http://127.0.0.1:1/client/api"), "cannot be reached", "endpoint")


def test_zones_that_do_not_exist(bed: CloudstackBed) -> None:
    wrong(found(bed, "azs", default_zone="z9"), "no zone z9", "z1, z2, z3")
    wrong(found(bed, "azs", Needs(azs=("z8",))), "no zone z8", "z1, z2, z3")


def test_offerings_that_do_not_exist_or_could_be_many(bed: CloudstackBed) -> None:
    wrong(found(bed, "offerings", default_disk_offering="none"), "'none'", "custom")
    with bed.datacenter.store.writing() as db:
        tx = Tx(db, "admin", 0.0, bed.datacenter.ids)
        shelf.put(tx, "diskoffering", "custom-2", {"gib": None, "storage": "shared"})
    wrong(found(bed, "offerings"), "2 disk offerings", "default_disk_offering")


def test_limits_that_are_reached(bed: CloudstackBed, lab: Lab) -> None:
    bed.client().updateResourceLimit(resourcetype=0, max=2)
    lab.vm()
    item = found(bed, "quotas", Needs(counts={"vm": 2}))
    wrong(item, "instances: 2 more needed, 1 of 2 used", "raise the limit")
    assert item.facts and item.facts["quotas"]["instances"] == {"limit": 2, "used": 1}


def test_an_account_that_may_not_expunge(user_bed: CloudstackUserBed) -> None:
    item = found(user_bed, "expunge")
    assert item.ok  # everything works, only later
    assert "expunge.delay" in item.detail
    assert "allow.user.expunge.recover.vm" in item.remedy
    wrong(found(user_bed, "expunge", expunge="always"), "may not", "expunge: auto")


def test_storage_vms_that_are_away(bed: CloudstackBed) -> None:
    bed.set("coterie.storage.vms", "false")
    wrong(found(bed, "templates"), "z1, z2, z3", "administrator")


def test_words_for_templates_that_the_cloud_does_not_know(bed: CloudstackBed) -> None:
    wrong(found(bed, "templates", hypervisor="VMware"), "'VMware'", "KVM")
    wrong(found(bed, "templates", stemcell_os_type="BeOS"), "'BeOS'", "Other Linux (64-bit)")


@pytest.mark.parametrize(
    ("url", "detail", "remedy"),
    [
        (None, "no publish_url", "publish_mode: upload"),
        ("http://127.0.0.1:1", "refused", "publish_url"),
        ("here", "fetches nothing from 127.0.0.1", "storage VMs can reach"),
    ],
)
def test_a_publishing_server_that_the_cloud_cannot_use(
    bed: CloudstackBed, url: str | None, detail: str, remedy: str
) -> None:
    where = bed.server.origin if url == "here" else url  # any server that answers
    wrong(found(bed, "templates", publish_mode="server", publish_url=where), detail, remedy)


def test_a_private_key_that_cannot_be_read_is_not_repeated(bed: CloudstackBed) -> None:
    item = found(bed, "private_key", private_key="s3cret-word")
    wrong(item, "cannot be read", "ssh_public_keys")
    assert "s3cret-word" not in f"{item}"
    assert found(bed, "private_key", private_key=ED25519).ok


def test_policies_and_kinds_that_are_impossible(bed: CloudstackBed) -> None:
    wrong(found(bed, "policy host-affinity", Needs(policies=("host-affinity",))), "impossible", "anti-affinity")
    assert found(bed, "policy anti-affinity", Needs(policies=("anti-affinity",))).ok
    soft = Needs(policies=("soft-affinity",))
    wrong(found(bed, "policy soft-affinity", soft, policies=["anti-affinity"]), "impossible", "use anti-affinity")
    wrong(found(bed, "kind folder", Needs(kinds=("folder",))), "makes none", "do without")


def down(bed: CloudstackBed, zone: str) -> Iterator[str]:
    for host in bed.client().listHosts()["host"]:
        if host["zonename"] == zone:
            reshape.set_host(bed.datacenter, host["name"], up=False)
            yield host["name"]


def test_hosts_that_are_down(bed: CloudstackBed) -> None:
    assert found(bed, "hosts", Needs(azs=("z2",))).ok
    hosts = len(list(down(bed, "z2")))
    wrong(found(bed, "hosts", Needs(azs=("z2",))), "no host is up in z2", "administrator")
    strict = Needs(counts={"anti-affinity:z1": hosts + 1})
    wrong(found(bed, "anti-affinity:z1", strict), f"{hosts + 1} members need", "soft-anti-affinity")
