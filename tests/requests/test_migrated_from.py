"""Instance groups get other names and leave azs, and their nodes stay the nodes that they are."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from coterie.cpi.contract import Mark
from coterie.errors import Refused
from coterie.ledger.tables import instance_groups, objects
from coterie.requests import start
from tests.requests.site import Site, group, manifest

DISK = "persistent_disk: 1024"


def identities(site: Site) -> dict[str, tuple[str, str | None, dict[str, str] | None]]:
    return {name: (node.uuid, node.vm_cid, node.addresses) for name, node in site.nodes().items()}


def tags(site: Site, name: str) -> dict[str, Any]:
    found = site.cpi().find("vm", Mark(site.director.uuid, site.nodes()[name].vm_intent or ""))
    assert found is not None
    return dict(found.tags or {})


def refs(site: Site) -> list[str]:
    query = sa.select(objects.c.ref).where(objects.c.kind == "disk").order_by(objects.c.ref)
    with site.ledger.read() as tx:
        return list(tx.execute(query).scalars())


def test_a_group_is_renamed_in_place_with_vms_disks_and_addresses(here: Site) -> None:
    here.deploy(manifest(group("old", 2, DISK)))
    before = identities(here)
    renamed = manifest(group("new", 2, f"{DISK}, migrated_from: [{{name: old}}]"))
    plan = here.plan(renamed)
    assert [(change.action, change.subject, change.reason) for change in plan.changes] == [
        ("update", "new/0", "renamed from old/0"),
        ("update", "new/1", "renamed from old/1"),
    ]
    assert not plan.destructive
    here.deploy(renamed)
    assert identities(here) == {name.replace("old", "new"): one for name, one in before.items()}
    assert (tags(here, "new/1")["name"], tags(here, "new/1")["job"]) == ("new/1", "new")
    assert refs(here) == ["new/0", "new/1"]
    with here.ledger.read() as tx:
        assert tx.execute(sa.select(instance_groups.c.name)).scalars().all() == ["new"]
    assert here.plan(renamed).changes == ()
    assert here.plan(manifest(group("new", 2, DISK))).changes == ()


def test_groups_are_merged_and_what_is_too_many_goes(local: Site) -> None:
    """As BOSH users do that had a group for each az before."""
    local.deploy(manifest(group("db_z1", 2, DISK, azs="z1"), group("db_z2", 2, DISK, azs="z2")))
    before = identities(local)
    merged = manifest(group("db", 3, f"{DISK}, migrated_from: [{{name: db_z1}}, {{name: db_z2}}]"))
    removed = [(c.subject, c.reason) for c in local.plan(merged).changes if c.action == "delete"]
    assert removed == [
        ("db_z2/1", "instance group db_z2 is no longer in the manifest; its disk of 1024 MiB is kept"),
    ]
    local.deploy(merged)
    assert identities(local) == {
        "db/0": before["db_z1/0"],
        "db/1": before["db_z1/1"],
        "db/2": before["db_z2/0"],
    }


def test_nodes_of_a_renamed_group_stay_in_their_server_group(here: Site) -> None:
    """The group is named after the instance group, and gets the new name in the ledger."""
    placed = f"{DISK}, placement: {{policy: anti-affinity}}"
    here.deploy(manifest(group("old", 2, placed, azs="z1")))
    before, cids = identities(here), {one.cid for one in here.held("server_group")}
    renamed = manifest(group("new", 2, f"{placed}, migrated_from: [{{name: old}}]", azs="z1"))
    assert [change.reason for change in here.plan(renamed).changes] == ["renamed from old/0", "renamed from old/1"]
    here.deploy(renamed)
    assert identities(here) == {name.replace("old", "new"): one for name, one in before.items()}
    assert {one.cid for one in here.held("server_group")} == cids
    assert here.plan(manifest(group("new", 2, placed, azs="z1"))).changes == ()
    here.delete()
    assert here.held("server_group") == []


def test_groups_with_server_groups_are_merged_into_one_of_them(local: Site) -> None:
    placed = f"{DISK}, placement: {{policy: soft-anti-affinity}}"
    local.deploy(manifest(group("db_z1", 2, placed, azs="z1"), group("db_z2", 1, placed, azs="z2")))
    merged = manifest(group("db", 3, f"{placed}, migrated_from: [{{name: db_z1}}, {{name: db_z2}}]"))
    reasons = {change.subject: (change.action, change.reason) for change in local.plan(merged).changes}
    assert reasons["db/0"] == ("update", "renamed from db_z1/0")
    assert reasons["db/2"] == ("recreate", "renamed from db_z2/0; joins server group db")
    local.deploy(merged)
    assert len(local.held("server_group")) == 1
    assert local.objects("disk") == {"live": 3}
    assert local.plan(merged).changes == ()


def test_two_groups_exchange_their_names(here: Site) -> None:
    here.deploy(manifest(group("a", 1), group("b", 1)))
    before = identities(here)
    here.deploy(manifest(group("c", 1, "migrated_from: [{name: a}]"), group("b", 1)))
    exchanged = manifest(group("b", 1, "migrated_from: [{name: c}]"), group("d", 1, "migrated_from: [{name: b}]"))
    with pytest.raises(Exception, match="still an instance group"):
        here.plan(exchanged)
    here.deploy(manifest(group("c", 1), group("d", 1, "migrated_from: [{name: b}]")))
    here.deploy(manifest(group("b", 1, "migrated_from: [{name: c}]"), group("d", 1)))
    assert identities(here) == {"b/0": before["a/0"], "d/0": before["b/0"]}


def test_a_rename_that_was_cancelled_is_finished_by_the_next_deploy(
    local: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    local.deploy(manifest(group("old", 1, DISK)))
    renamed = manifest(group("new", 1, f"{DISK}, migrated_from: [{{name: old}}]"))
    plan = local.plan(renamed)
    with monkeypatch.context() as patch:
        patch.setattr(local.conductor, "_claim", lambda: 0.1)  # it takes no step
        task = start.deploy(local.ledger, local.request(renamed), plan.id, "test")
        start.cancel(local.ledger, task)
    local.wait(task, "cancelled")
    (change,) = local.plan(renamed).changes
    assert change.reason == "not finished last time: its VM is still named old/0 in the cloud"
    local.deploy(renamed)
    assert tags(local, "new/0")["name"] == "new/0"


def test_nodes_leave_an_az_without_their_disks_only_if_the_manifest_says_so(here: Site) -> None:
    here.deploy(manifest(group("a", 2, DISK)))
    before = here.nodes()
    with pytest.raises(Refused, match="cannot follow it to z1") as refused:
        here.plan(manifest(group("a", 2, DISK, azs="z1")))
    assert "migrated_from: [{name: a, az: z2}]" in refused.value.why
    leaving = manifest(group("a", 2, f"{DISK}, migrated_from: [{{name: a, az: z2}}]", azs="z1"))
    (change,) = here.plan(leaving).changes
    assert change.destructive
    assert change.reason.endswith("its disk of 1024 MiB stays in z2 and is kept; it begins with an empty one"), (
        change.reason
    )
    here.deploy(leaving)
    after = here.nodes()
    assert {name: node.az for name, node in after.items()} == {"a/0": "z1", "a/1": "z1"}
    assert {name: node.uuid for name, node in after.items()} == {name: node.uuid for name, node in before.items()}
    assert here.objects("disk") == {"live": 2, "kept": 1}
    assert here.plan(leaving).changes == ()
    here.delete(delete_disks=True)
    assert here.held("disk") == []


def test_part_of_a_migration_is_refused(local: Site) -> None:
    local.deploy(manifest(group("old", 2)))
    with pytest.raises(Refused, match="other names by migrated_from"):
        local.plan(manifest(group("new", 2, "migrated_from: [{name: old}]")), nodes=("new/0",))
