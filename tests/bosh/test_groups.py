"""Groups without a Director of ours: one per env.bosh.group, however many processes ask at once."""

from __future__ import annotations

import threading
from contextlib import nullcontext

import pytest

from coterie.bosh.config import Groups
from coterie.bosh.core.server_groups import policy_of
from coterie.cpi.contract import Capabilities
from coterie.ledger.rows import bosh_groups
from coterie.ledger.rows.bosh_groups import Key
from coterie.sandbox import faults, images, server_groups
from coterie.sandbox.datacenter import open_datacenter
from coterie.sandbox.vm_shape import get_vm
from tests.bosh.program import DIRECTOR, CpiFailure, Shop, result
from tests.bosh.starting import Start, by_fifty_programs, by_fork, by_the_program

GROUP = "bosh-dep-web"


def test_machines_of_one_group_share_it(shop: Shop) -> None:
    stemcell = shop.stemcell()
    cids = [shop.create_vm(f"agent-{n}", stemcell, group=GROUP) for n in range(3)]
    (group,) = shop.inventory()["server_group"]
    assert {tuple(get_vm(shop.account, cid).groups) for cid in cids} == {(group,)}
    assert len({get_vm(shop.account, cid).host for cid in cids}) == 3


def test_another_group_is_another_one(shop: Shop) -> None:
    stemcell = shop.stemcell()
    shop.create_vm("agent-1", stemcell, group=GROUP)
    shop.create_vm("agent-2", stemcell, group="bosh-dep-db")
    assert len(shop.inventory()["server_group"]) == 2


def test_another_director_has_another_group(shop: Shop) -> None:
    stemcell = shop.stemcell()
    shop.create_vm("agent-1", stemcell, group=GROUP)
    request = shop.vm_arguments("agent-2", stemcell, group=GROUP)
    shop.call("create_vm", *request, director_uuid="00000000-1111-2222-3333-444444444444")
    assert len(shop.inventory()["server_group"]) == 2


@pytest.mark.parametrize("grouped", [False, True])
def test_compilation_machines_get_no_group_unless_configured(shop: Shop, grouped: bool) -> None:
    if grouped:
        shop.configure(groups={"compilation": True})
    job = "compilation-0b5b4a9e-1111-2222-3333-444444444444"
    shop.create_vm("agent-1", shop.stemcell(), group=f"bosh-dep-{job}", job=job)
    assert ("server_group" in shop.inventory()) is grouped


def test_groups_can_be_switched_off(shop: Shop) -> None:
    shop.configure(groups={"enabled": False})
    shop.create_vm("agent-1", shop.stemcell(), group=GROUP)
    assert "server_group" not in shop.inventory()


def test_the_policy_is_the_configured_one(shop: Shop) -> None:
    shop.configure(groups={"policy": "anti-affinity"})
    shop.create_vm("agent-1", shop.stemcell(), group=GROUP)
    (group,) = shop.inventory()["server_group"]
    assert server_groups.get_server_group(shop.account, group).policy == "anti-affinity"


def test_a_policy_that_the_cloud_cannot_do_is_refused(shop: Shop) -> None:
    properties = {"state": str(shop.folder / "sandbox.db"), "account": "lab", "policies": ["affinity"]}
    shop.configure(groups={"policy": "anti-affinity"}, properties=properties)
    with pytest.raises(CpiFailure, match=r"groups\.policy in the configuration is anti-affinity"):
        shop.create_vm("agent-1", shop.stemcell(), group=GROUP)


def test_a_failed_creation_leaves_the_way_free(shop: Shop) -> None:
    stemcell = shop.stemcell()
    faults.add(shop.account.datacenter.store, "create_server_group", "error", times=1)
    with pytest.raises(CpiFailure):
        shop.create_vm("agent-1", stemcell, group=GROUP)
    shop.create_vm("agent-1", stemcell, group=GROUP)
    assert len(shop.inventory()["server_group"]) == 1


@pytest.mark.parametrize("mode", ["timeout-after-commit", "timeout-before-commit"])
def test_a_lost_answer_makes_no_second_group(shop: Shop, mode: str) -> None:
    stemcell = shop.stemcell()
    faults.add(shop.account.datacenter.store, "create_server_group", mode, times=1)
    shop.create_vm("agent-1", stemcell, group=GROUP)
    assert len(shop.inventory()["server_group"]) == 1


@pytest.mark.parametrize("state", ["intended", "deleting"])
def test_the_group_of_a_process_that_died_is_taken_over(shop: Shop, state: str) -> None:
    stemcell = shop.stemcell()
    key = Key("lab", DIRECTOR, GROUP)
    with shop.ledger() as ledger, ledger.write() as tx:
        row = bosh_groups.claim(tx, key, "0123456789abcdefghjkmnpqrs", "dead", 0.2)
        if state == "deleting":
            bosh_groups.record_live(tx, key, "dead", "cg-6f0d5a529a-0123456789abcdefghjkmnpqrs")
            bosh_groups.begin_delete(tx, key, "dead", 0.2)
    assert row.holder == "dead"
    shop.create_vm("agent-1", stemcell, group=GROUP)
    assert len(shop.inventory()["server_group"]) == 1


def test_a_group_goes_when_its_last_machine_is_gone_and_not_before(shop: Shop) -> None:
    stemcell = shop.stemcell()
    cids = [shop.create_vm(f"agent-{n}", stemcell, group=GROUP) for n in range(2)]
    for cid in cids:
        shop.cleanup()
        assert len(shop.inventory()["server_group"]) == 1
        shop.call("delete_vm", cid)
    assert len(shop.inventory()["server_group"]) == 1
    shop.cleanup(dry_run=True)
    assert len(shop.inventory()["server_group"]) == 1
    shop.cleanup()
    assert shop.inventory() == {"image": [stemcell]}
    shop.create_vm("agent-9", stemcell, group=GROUP)
    assert len(shop.inventory()["server_group"]) == 1


def test_a_group_that_others_deleted_is_reported_and_cleanup_forgets_it(shop: Shop) -> None:
    stemcell = shop.stemcell()
    cid = shop.create_vm("agent-1", stemcell, group=GROUP)
    (group,) = shop.inventory()["server_group"]
    shop.call("delete_vm", cid)
    server_groups.delete_server_group(shop.account, group)
    with pytest.raises(CpiFailure):
        shop.create_vm("agent-2", stemcell, group=GROUP)
    shop.cleanup()
    shop.create_vm("agent-3", stemcell, group=GROUP)
    assert len(shop.inventory()["server_group"]) == 1


def test_creating_and_cleaning_at_once_never_strands_a_machine(shop: Shop) -> None:
    """Every machine that was made is in a group that lives, although a cleanup ran all the time."""
    stemcell = shop.stemcell()
    done = threading.Event()

    def sweep() -> None:
        while not done.is_set():
            shop.cleanup(kinds=["server_group"])

    sweeper = threading.Thread(target=sweep)
    sweeper.start()
    try:
        for n in range(12):
            cid = shop.create_vm(f"agent-{n}", stemcell, group=GROUP)
            assert get_vm(shop.account, cid).groups
            shop.call("delete_vm", cid)
    finally:
        done.set()
        sweeper.join()


def test_a_caller_may_manage_its_groups_itself(shop: Shop) -> None:
    """The methods that no BOSH Director calls, on the same wire; what they make is in the ledger like everything."""
    stemcell = shop.stemcell()
    metadata = {
        "director": {"name": "mine", "uuid": DIRECTOR},
        "deployment": "dep",
        "instance_group": "web",
        "azs": ["z1"],
        "security_groups": [],
        "policy": "anti-affinity",
        "options": {},
    }
    group = shop.call("create_server_group", metadata)
    arguments = shop.vm_arguments("agent-1", stemcell)
    arguments[5] = {"bosh": {"group": GROUP, "server_group_cid": group}}
    cid = shop.call("create_vm", *arguments)[0]
    shop.call("update_server_group", group, {**metadata, "azs": ["z1", "z2"]})
    view = shop.call("inspect_server_group", group)
    assert (view["state"], [one["vm_cid"] for one in view["members"]]) == ("live", [cid])
    shop.call("delete_vm", cid)
    shop.cleanup()
    assert len(shop.inventory()["server_group"]) == 1
    shop.call("delete_server_group", group)
    assert shop.inventory() == {"image": [stemcell]}


def test_a_single_writer_cloud_behaves_the_same(shop: Shop) -> None:
    properties = {"state": str(shop.folder / "sandbox.db"), "account": "lab", "groups": "single-writer"}
    shop.configure(properties=properties)
    stemcell = shop.stemcell()
    cids = [shop.create_vm(f"agent-{n}", stemcell, group=GROUP) for n in range(2)]
    assert all(get_vm(shop.account, cid).groups for cid in cids)
    for cid in cids:
        shop.call("delete_vm", cid)
    shop.cleanup()
    assert shop.inventory() == {"image": [stemcell]}


def fifty(shop: Shop, start: Start, count: int = 50) -> None:
    """So many processes at once, one group; then none of them, and none."""
    # The stemcell is from elsewhere, so that even the ledger is begun by all of them at once.
    stemcell = images.create_image(shop.account, name="i", size_bytes=1, digest="", properties={}, tags={}).id
    requests = [shop.vm_request(f"agent-{n}", stemcell, group=GROUP) for n in range(count)]
    made = [result(raw) for raw in start(shop, requests)]
    assert len({cid for cid, _ in made}) == count
    (group,) = shop.inventory()["server_group"]
    assert all(get_vm(shop.account, cid).groups == (group,) for cid, _ in made)
    for cid, _ in made:
        shop.call("delete_vm", cid)
    shop.cleanup({"vm": [], "disk": []})
    assert shop.inventory() == {"image": [stemcell]}


def test_fifty_processes_with_the_core_make_one_group(new_shop: Shop) -> None:
    with new_shop.core():
        fifty(new_shop, by_the_program)


def test_fifty_processes_without_the_core_make_one_group(new_shop: Shop) -> None:
    fifty(new_shop, by_fork)


def test_processes_on_postgresql_make_one_group(new_shop: Shop, postgres_url: str) -> None:
    new_shop.configure(ledger=postgres_url)
    fifty(new_shop, by_fork, 15)


@pytest.mark.full
@pytest.mark.parametrize("core", [False, True])
def test_fifty_processes_on_postgresql_make_one_group(new_shop: Shop, postgres_url: str, core: bool) -> None:
    new_shop.configure(ledger=postgres_url)
    if not core:
        fifty(new_shop, by_fork)
        return
    with new_shop.core():
        fifty(new_shop, by_the_program)


@pytest.mark.full
@pytest.mark.timeout(900)
@pytest.mark.parametrize("core", [False, True])
def test_fifty_processes_at_a_time_make_two_hundred_machines_in_one_group(new_shop: Shop, core: bool) -> None:
    zone = {"name": "z1", "racks": 2, "hosts_per_rack": 3, "cpu": 1000, "ram_mb": 1_000_000, "disk_mb": 10_000_000}
    open_datacenter(new_shop.folder / "sandbox.db", {"zones": [zone]})
    with new_shop.core() if core else nullcontext():
        fifty(new_shop, by_fifty_programs if core else by_fork, 200)


@pytest.mark.full
def test_fifty_whole_programs_without_the_core_make_one_group(new_shop: Shop) -> None:
    fifty(new_shop, by_the_program)


@pytest.mark.parametrize(
    ("groups", "privilege", "expected"),
    [
        (Groups(), None, "soft-anti-affinity"),
        (Groups(), "EditCluster", None),
        (Groups(enabled=True), "EditCluster", "soft-anti-affinity"),
        (Groups(policy="anti-affinity"), "EditCluster", "anti-affinity"),
        (Groups(enabled=False, policy="anti-affinity"), "EditCluster", None),
    ],
)
def test_where_groups_want_a_privilege_there_are_none_unless_configured(
    groups: Groups, privilege: str | None, expected: str | None
) -> None:
    able = Capabilities("any", frozenset({"anti-affinity", "soft-anti-affinity"}), group_privilege=privilege)
    assert policy_of(groups, able) == expected
