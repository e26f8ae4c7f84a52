"""Enrolled machines: admitted or refused, monitored, forgotten, and destroyed only on request."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
import sqlalchemy as sa

from coterie.errors import Conflict, CoterieError, NotFound, UsageError
from coterie.ledger.rows import enrolled as rows
from coterie.ledger.rows import nodes
from coterie.ledger.rows.nodes import NodeRow
from coterie.ledger.tables import events as events_table
from coterie.ledger.work import conductors
from coterie.requests import looks, regroup, start
from coterie.requests.enroll import Enrollment, enroll
from coterie.requests.operations import destroy, forget
from coterie.ring.refusals import GroupUnserved
from coterie.sandbox import faults, vms
from coterie.sandbox.tags import set_tags
from tests.cleanup.yard import Yard
from tests.requests.site import CONFIG, Site, group, manifest
from tests.requests.strangers import account, end, exists, stranger


@pytest.fixture
def cid(here: Site) -> str:
    return prepared(here)


def prepared(site: Site) -> str:
    start.set_cloud_config(site.ledger, CONFIG, "cloud.yml")
    site.cpi().check()
    return stranger(site.folder)


def enrolled(site: Site, cid: str, **more: Any) -> str:
    return enroll(site.ledger, Enrollment("lab", cid, **more), "test")


def row(site: Site, uuid: str) -> NodeRow | None:
    with site.ledger.read() as tx:
        return nodes.get(tx, uuid)


def look(site: Site) -> None:
    task = looks.look(site.ledger)
    assert task is not None
    site.wait(task)


def kinds(site: Site) -> list[str]:
    with site.ledger.read() as tx:
        return list(tx.execute(sa.select(events_table.c.kind).where(events_table.c.task.is_(None))).scalars())


def test_an_enrolled_machine_is_looked_after_and_forgotten(here: Site, cid: str) -> None:
    uuid = enrolled(here, cid, name="db1")
    found = row(here, uuid)
    assert found is not None
    assert (found.name, found.state, found.vm_cid, found.deployment, found.enrolled) == ("db1", "up", cid, "", True)
    look(here)
    assert row(here, uuid) == found, "the list of the cloud does not show it, and it is there all the same"
    end(here.folder, cid)
    look(here)
    missing = row(here, uuid)
    assert missing is not None and missing.state == "missing"
    forget(here.ledger, uuid, "test")
    assert row(here, uuid) is None
    assert kinds(here) == ["node.enrolled", "node.forgotten"]


def test_forgetting_leaves_the_machine_and_destroying_ends_it(here: Site, cid: str) -> None:
    forget(here.ledger, enrolled(here, cid), "test")
    assert exists(here.folder, cid)
    uuid = enrolled(here, cid)
    here.wait(destroy(here.ledger, uuid, "test"))
    assert row(here, uuid) is None
    assert not exists(here.folder, cid)


def test_a_machine_that_is_gone_can_be_destroyed_all_the_same(local: Site) -> None:
    cid = prepared(local)
    uuid = enrolled(local, cid)
    end(local.folder, cid)
    local.wait(destroy(local.ledger, uuid, "test"))
    assert row(local, uuid) is None


def test_an_end_that_fails_is_told_and_can_be_asked_for_again(local: Site) -> None:
    cid = prepared(local)
    uuid = enrolled(local, cid)
    store = account(local.folder).datacenter.store
    faults.add(store, "delete_vm", "error")
    local.wait(destroy(local.ledger, uuid, "test"), "failed")
    left = row(local, uuid)
    assert left is not None and left.state == "failing" and left.problem
    faults.clear(store)
    faults.add(store, "delete_vm", "timeout-after-commit", times=1)
    local.wait(destroy(local.ledger, uuid, "test"))
    assert row(local, uuid) is None and not exists(local.folder, cid)


def test_a_node_that_a_task_works_on_cannot_be_forgotten(local: Site) -> None:
    cid = prepared(local)
    uuid = enrolled(local, cid)
    store = account(local.folder).datacenter.store
    faults.add(store, "delete_vm", "hang", times=1, ms=60_000)
    task = destroy(local.ledger, uuid, "test")
    for again in (forget, destroy):
        with pytest.raises(Conflict, match=f"task {task}"):
            again(local.ledger, uuid, "test")
    faults.clear(store)
    local.wait(task)


@pytest.mark.parametrize(
    ("fields", "error", "words"),
    [
        ({"cloud": "nowhere"}, NotFound, "no cloud 'nowhere'"),
        ({"cid": "vm-999999"}, NotFound, "has no VM"),
        ({"name": "a b"}, UsageError, "cannot name a node"),
        ({"name": "8c3f7e0e-0000-4000-8000-000000000000"}, UsageError, "cannot name a node"),
        ({"name": "x" * 256}, UsageError, "cannot name a node"),
        ({"conductor_group": "a:b"}, UsageError, "characters that a conductor group cannot have"),
        ({"conductor_group": "x" * 256}, UsageError, "256 characters"),
    ],
)
def test_a_refused_enrollment_leaves_no_node(
    local: Site, fields: dict[str, str], error: type[CoterieError], words: str
) -> None:
    cid = prepared(local)
    before = local.rows()
    with pytest.raises(error, match=words) as refused:
        enroll(local.ledger, Enrollment(**{"cloud": "lab", "cid": cid, **fields}), None)
    assert refused.value.remedy
    after = local.rows()
    assert {**after, "facts": 0} == {**before, "facts": 0}


def test_one_machine_is_one_node_and_one_name_is_one_machine(here: Site, cid: str) -> None:
    enrolled(here, cid, name="db1")
    with pytest.raises(Conflict, match="is node db1 already"):
        enrolled(here, cid, name="db2")
    other = stranger(here.folder, "other")
    with pytest.raises(Conflict, match="enrolled node db1 already"):
        enrolled(here, other, name="db1")


def test_what_a_director_made_is_not_enrolled(local: Site) -> None:
    prepared(local)
    local.deploy(manifest(group("a", 1, azs="z1")))
    ours = local.nodes()["a/0"].vm_cid or ""
    with pytest.raises(Conflict, match="is node dep/a/0 already"):
        enrolled(local, ours)
    with local.ledger.write() as tx:  # as after a restore from an old backup: only the mark tells
        tx.execute(sa.text("UPDATE nodes SET vm_cid = NULL"))
        tx.execute(sa.text("UPDATE objects SET cid = NULL"))
    with pytest.raises(Conflict, match="mark of this Director"):
        enrolled(local, ours)


def test_what_another_director_made_is_not_enrolled(local: Site) -> None:
    cid, other = prepared(local), str(uuid4())
    set_tags(account(local.folder), cid, "vm", {"coterie-director": other})
    with pytest.raises(Conflict, match=f"mark of the Director {other}") as refused:
        enrolled(local, cid)
    assert refused.value.remedy


def test_what_was_marked_since_it_was_enrolled_is_forgotten_but_not_destroyed(local: Site) -> None:
    cid, other = prepared(local), str(uuid4())
    uuid = enrolled(local, cid, name="db1")
    set_tags(account(local.folder), cid, "vm", {"coterie-director": other})
    task = destroy(local.ledger, uuid, "test")
    local.wait(task, "failed")
    assert f"mark of the Director {other}" in local.story(task)
    left = row(local, uuid)
    assert left is not None and left.state == "failing" and "nodes delete db1" in left.problem["remedy"]
    assert exists(local.folder, cid)
    forget(local.ledger, uuid, "test")
    assert exists(local.folder, cid)


def test_a_group_without_conductors_is_refused_and_nothing_is_written(here: Site, cid: str) -> None:
    shared = CONFIG.replace("driver: sandbox", "driver: sandbox, other_conductor_groups: [rack9]")
    start.set_cloud_config(here.ledger, shared, "x")
    with here.ledger.write() as tx:  # the conductor stands in for groups without one of their own; so they get theirs
        tx.execute(sa.text("UPDATE conductors SET every_group = :no"), {"no": False})
    before = here.rows()
    with pytest.raises(GroupUnserved):
        enrolled(here, cid, conductor_group="Rack9")
    assert here.rows() == before, "not even a question"
    uuid = enrolled(here, cid, conductor_group="")
    with pytest.raises(GroupUnserved):
        regroup.move_node(here.ledger, uuid, "rack9")
    with here.ledger.write() as tx:
        conductors.register(tx, "brief", "1", group="rack9", drivers=["sandbox"], release="0.1")
    regroup.move_node(here.ledger, uuid, "RACK9")
    with here.ledger.write() as tx:
        conductors.leave(tx, "brief", "1")
    with pytest.raises(GroupUnserved):
        destroy(here.ledger, uuid, None)
    left = row(here, uuid)
    assert left is not None and (left.state, left.conductor_group) == ("up", "rack9")
    regroup.move_node(here.ledger, uuid, None)  # out of the empty group
    here.wait(destroy(here.ledger, uuid, None))


def test_nodes_of_deployments_are_not_forgotten(local: Site) -> None:
    local.deploy(manifest(group("a", 1)))
    for verb in (forget, destroy):
        with pytest.raises(Conflict, match="belongs to deployment dep"):
            verb(local.ledger, local.nodes()["a/0"].uuid, None)


def test_a_cloud_with_enrolled_machines_stays_configured(local: Site) -> None:
    cid = prepared(local)
    enrolled(local, cid)
    with pytest.raises(Conflict, match="leaves out lab"):
        start.set_cloud_config(local.ledger, CONFIG.replace("lab", "other"), "cloud.yml")


def test_cleanup_and_deployments_leave_it_alone_whatever_it_carries(local: Site) -> None:
    """Even a mark of ours that came onto it later, as copies do, does not make it an orphan."""
    cid = prepared(local)
    yard = Yard(local)
    uuid = enrolled(local, cid, name="db1")
    yard.leave(manifest(group("a", 1)))
    (ours,) = yard.held()["vm"]
    tags = {key: value for key, value in yard.everything()["vm", ours][1].items() if key.startswith("coterie")}
    plan = yard.survey()
    assert ours in {item.cid for item in plan.items}
    assert cid not in {item.cid for item in plan.items}
    vms.delete_vm(account(local.folder), ours)
    with local.ledger.write() as tx:  # the record of the orphan would fit: its CID was never written down
        tx.execute(sa.text("UPDATE objects SET cid = NULL WHERE kind = 'vm'"))
    set_tags(account(local.folder), cid, "vm", tags)
    found = yard.clean()
    assert cid not in {item.cid for item in found.items}
    assert exists(local.folder, cid)
    kept = row(local, uuid)
    assert kept is not None and kept.state == "up"


def test_unused_stemcells_can_go_although_machines_are_enrolled(local: Site) -> None:
    """An enrolled machine was made of no stemcell of ours; it must not count as one that is being made."""
    cid = prepared(local)
    enrolled(local, cid)
    yard = Yard(local)
    yard.leave(manifest(group("a", 1)))
    yard.clean()
    assert "image" not in yard.held()


RACK = "other_conductor_groups: [racka]"


def test_moves_are_told_in_events(local: Site) -> None:
    cid = prepared(local)
    uuid = enrolled(local, cid)
    start.set_cloud_config(local.ledger, CONFIG.replace("driver: sandbox", f"driver: sandbox, {RACK}"), "x")
    regroup.move_node(local.ledger, uuid, "RackA")
    start.set_cloud_config(
        local.ledger, CONFIG.replace("driver: sandbox", f"driver: sandbox, conductor_group: R2, {RACK}"), "x"
    )
    assert kinds(local) == ["node.enrolled", "node.moved", "cloud.moved"]


def test_two_who_choose_one_name_at_the_same_moment(here: Site, cid: str) -> None:
    """The look at names comes before the other has committed; the key of the table decides then."""
    enrolled(here, cid, name="db1")
    other = {"cloud": "elsewhere", "cid": "vm-2", "group": None}
    with pytest.raises(Conflict, match="enrolled node db1 already"), here.ledger.write() as tx:
        rows.add(tx, "another-uuid", "db1", **other)
