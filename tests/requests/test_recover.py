"""A lost or old ledger is written again from the marks in the cloud: afterwards there is nothing to change."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import sqlalchemy as sa

from coterie.cpi.contract import Mark
from coterie.errors import NotFound, StalePlan
from coterie.ids import Ids
from coterie.ledger.rows import identity, stemcells
from coterie.ledger.tables import metadata
from coterie.requests import recover
from coterie.sandbox import security_groups
from coterie.sandbox.accounts import open_account
from coterie.sandbox.datacenter import open_datacenter
from coterie.sandbox.tags import set_tags
from tests.ledger.blank import sqlite_ledger
from tests.requests.lost_ledger import lose_ledger, recovery
from tests.requests.site import Site, group, manifest

MORE = "persistent_disk: 64, placement: {policy: soft-anti-affinity}, security_groups: [guard]"
WEB = manifest(group("web", 3, MORE), group("plain", 1))


def rows(site: Site, table: str, *columns: str) -> list[tuple[object, ...]]:
    wanted = [metadata.tables[table].c[name] for name in columns]
    with site.ledger.read() as tx:
        return sorted(tuple(row) for row in tx.execute(sa.select(*wanted).where(sa.true())))


def picture(site: Site) -> dict[str, list[tuple[object, ...]]]:
    """What the ledger says about the deployment, without times."""
    return {
        "nodes": rows(site, "nodes", "uuid", "instance_group", "index", "az", "state", "vm_intent", "vm_cid"),
        "members": [(u, str(g)) for u, g in rows(site, "nodes", "uuid", "server_group")],
        "addresses": rows(site, "addresses", "network", "ip", "node", "deployment"),
        "objects": rows(site, "objects", "intent", "kind", "cloud", "state", "cid", "ref", "size_mb"),
        "groups": rows(site, "server_groups", "intent", "name", "cid", "policy", "state", "adopted"),
        "parts": rows(site, "parts", "cloud", "intent", "kind", "name", "cid"),
    }


def test_after_a_lost_ledger_there_is_nothing_to_change(here: Site) -> None:
    here.deploy(WEB)
    before = picture(here)
    assert before["parts"]
    lose_ledger(here)
    done = recovery(here, WEB)
    assert [item for item in done.items if not item.taken] == []
    assert picture(here) == before
    assert here.plan(WEB).changes == ()
    here.delete(delete_disks=True)
    assert here.held("vm") == here.held("disk") == here.held("server_group") == []


@contextmanager
def another_ledger(site: Site, folder: Path) -> Iterator[None]:
    """The site goes on with an empty ledger, whose Director has the former uuid."""
    site.conductor.drain(5.0)
    old, site.ledger = site.ledger, sqlite_ledger(folder / "new.db")
    identity.ensure_director(site.ledger, "test", Ids(), site.director.uuid)
    with site.ledger.write() as tx:
        stemcells.add(tx, "os", "1", "image", "1", {}, [])
    site.conductor = site.new_conductor("new")
    site.conductor.start()
    try:
        yield
    finally:
        site.conductor.drain(5.0)
        site.ledger.close()
        site.ledger = old


def test_a_new_director_takes_the_place_of_the_lost_one(local: Site, tmp_path: Path) -> None:
    local.deploy(WEB)
    with another_ledger(local, tmp_path):
        recovery(local, WEB)
        assert local.plan(WEB).changes == ()


def test_an_old_backup_is_brought_up_to_date(here: Site) -> None:
    here.deploy(manifest(group("web", 2, MORE), group("plain", 1)))
    gone = here.nodes()["plain/0"]
    old = {name: here_rows(here, name) for name in ("nodes", "objects", "addresses", "server_groups")}
    here.deploy(WEB)
    here.deploy(WEB, recreate=True, nodes=("plain/0",))
    before = picture(here)["nodes"]
    with here.ledger.write() as tx:  # the backup: one node fewer, and another VM for plain/0
        for name, kept in old.items():
            tx.execute(metadata.tables[name].delete())
            tx.execute(metadata.tables[name].insert(), kept)
    assert here.nodes()["plain/0"].vm_cid == gone.vm_cid
    done = recovery(here, WEB)
    assert {item.name for item in done.items if item.taken} >= {"web/2", "plain/0"}
    assert picture(here)["nodes"] == before
    assert here.plan(WEB).changes == ()


def here_rows(site: Site, table: str) -> list[dict[str, object]]:
    with site.ledger.read() as tx:
        return [dict(row._mapping) for row in tx.execute(sa.select(metadata.tables[table]))]


def test_a_second_recovery_finds_all_known(local: Site) -> None:
    local.deploy(WEB)
    assert recovery(local, WEB).items == []


def test_a_copy_of_a_part_is_left_and_survives_the_deployment(local: Site) -> None:
    local.deploy(WEB)
    account = open_account(open_datacenter(local.folder / "sandbox.db", create=False), "lab", operator=True)
    (ours,) = security_groups.list_security_groups(account).items
    copy = security_groups.create_security_group(account, name=ours.name, tags=ours.tags)
    lose_ledger(local)
    plan = recover.plan_recovery(local.ledger, local.request(WEB))
    assert [(item.cid, item.taken) for item in plan.items if item.kind == "security_group"] == [
        (ours.id, True),
        (copy.id, False),
    ]
    recover.apply_recovery(local.ledger, local.request(WEB), plan.id, None)
    local.delete()
    assert [group.id for group in security_groups.list_security_groups(account).items] == [copy.id]


def tag_vm(site: Site, cid: str, **tags: str) -> None:
    account = open_account(open_datacenter(site.folder / "sandbox.db", create=False), "lab", operator=True)
    set_tags(account, cid, "vm", tags)


def test_what_is_not_provably_ours_is_not_taken(local: Site) -> None:
    local.deploy(WEB)
    first, second = local.nodes()["web/0"], local.nodes()["web/1"]
    lose_ledger(local)
    cpi = local.cpi()
    stray = cpi.create_disk(64, {}, mark=Mark(local.director.uuid, Ids().intent()))
    foreign = local.cpi(director="ffffffff-0000-4000-8000-000000000000")
    foreign.create_disk(64, {}, mark=Mark("ffffffff-0000-4000-8000-000000000000", Ids().intent()))
    tag_vm(local, second.vm_cid or "", id=first.uuid)  # a copied description
    plan = recover.plan_recovery(local.ledger, local.request(WEB))
    left = {item.cid: item.why for item in plan.items if not item.taken}
    assert left[first.vm_cid or ""] == left[second.vm_cid or ""] == "several VMs claim to be this node"
    assert stray not in {item.cid for item in plan.items}
    assert {node.name for node in plan.nodes} == {"web/2", "plain/0"}


def test_a_vm_of_another_spec_is_not_taken_for_the_manifests(local: Site) -> None:
    local.deploy(WEB)
    lose_ledger(local)
    local.config = local.config.replace("ram_mb: 512", "ram_mb: 1024")
    recovery(local, WEB)
    assert {change.action for change in local.plan(WEB).changes} == {"recreate"}


def test_a_plan_that_is_out_of_date_is_refused(local: Site) -> None:
    local.deploy(WEB)
    lose_ledger(local)
    plan = recover.plan_recovery(local.ledger, local.request(WEB))
    local.cpi().delete_vm(plan.nodes[0].vm_cid or "")
    with pytest.raises(StalePlan):
        recover.apply_recovery(local.ledger, local.request(WEB), plan.id, None)


def test_the_wrong_uuid_finds_nothing_and_says_so(local: Site) -> None:
    local.deploy(WEB)
    with local.ledger.write() as tx:
        tx.execute(sa.text("UPDATE directors SET uuid = '00000000-0000-4000-8000-000000000000'"))
    lose_ledger(local)
    with pytest.raises(NotFound, match="no cloud holds anything of deployment dep") as refusal:
        recover.plan_recovery(local.ledger, local.request(WEB))
    assert "COTERIE_UUID" in refusal.value.remedy


def test_vms_of_the_last_release_are_taken_where_the_cloud_tells_enough(local: Site) -> None:
    """They have no marks for az, addresses and image; static addresses follow from the manifest."""
    static = manifest(group("web", 2, "azs: [z1]").replace("azs: [z1, z2], ", "")).replace(
        "networks: [{name: net}]", "networks: [{name: net, static_ips: [127.20.0.10, 127.20.0.11]}]"
    )
    local.config = local.config.replace("azs: [z1]}", "azs: [z1], static: [127.20.0.10, 127.20.0.11]}")
    local.deploy(static)
    for node in local.nodes().values():
        tag_vm(local, node.vm_cid or "", coterie_node="", coterie_image="")
    lose_ledger(local)
    done = recovery(local, static)
    assert {item.why for item in done.items if item.kind == "vm"} == {"assumed to be as the manifest says"}
    assert [change.kind for change in local.plan(static).changes] == []
