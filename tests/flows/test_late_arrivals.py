"""Objects that came after their creation was given up: seen by the periodic look, deleted with their node or group."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa

from coterie.cpi.contract import Mark
from coterie.director.services.periodic_look import PeriodicLook
from coterie.ids import Ids
from coterie.ledger import writes
from coterie.ledger.rows import objects
from coterie.ledger.store import Ledger
from coterie.ledger.tables import events, tasks
from coterie.ledger.views import objects as views
from coterie.ledger.views.page import Slice
from coterie.sandbox.accounts import open_account
from coterie.sandbox.datacenter import Account, open_datacenter
from coterie.sandbox.fit import Demand
from coterie.sandbox.vm_shape import get_vm
from coterie.sandbox.vms import create_vm, delete_vm
from tests.requests.site import Site, group, manifest, site

GROUPED = "placement: {policy: soft-anti-affinity}"


def test_the_look_notes_a_late_vm_once_and_the_delete_of_its_node_deletes_it(ledger: Ledger, tmp_path: Path) -> None:
    with site(ledger, tmp_path) as here:
        here.deploy(manifest(group("web", 2)))
        cid = _create_late(here, "web/1", "vm")
        disk = _create_late(here, "web/1", "disk")
        for _ in range(2):
            PeriodicLook(ledger, 0, keep_days=0).look_once()
            _await_looks(here)
        assert _late(here) == [cid]
        assert _said(here, "object.late") == 1
        here.deploy(manifest(group("web", 1)))
        assert cid not in [one.cid for one in here.held("vm")]
        assert disk not in [one.cid for one in here.held("disk")]
        assert _said(here, "object.late_deleted") == 2
        assert _late(here) == []


def test_a_late_member_of_a_group_goes_with_the_group_of_a_node_that_stays(ledger: Ledger, tmp_path: Path) -> None:
    with site(ledger, tmp_path) as here:
        here.deploy(manifest(group("web", 1, GROUPED)))
        (old,) = here.held("server_group")
        cid = _create_late(here, "web/0", "vm", old.cid)
        here.deploy(manifest(group("web", 1)))
        assert [one.cid for one in here.held("server_group")] == []
        assert cid not in [one.cid for one in here.held("vm")]


def test_a_clone_of_a_late_vm_is_not_taken_for_it(ledger: Ledger, tmp_path: Path) -> None:
    with site(ledger, tmp_path) as here:
        here.deploy(manifest(group("web", 2)))
        cid = _create_late(here, "web/1", "vm")
        clone = _clone(here, cid)
        PeriodicLook(ledger, 0, keep_days=0).look_once()
        _await_looks(here)
        assert _late(here) == [cid]
        delete_vm(_account(here), cid)
        here.deploy(manifest(group("web", 1)))
        assert clone in [one.cid for one in here.held("vm")]


def _account(here: Site) -> Account:
    return open_account(open_datacenter(here.folder / "sandbox.db", create=False), "lab", operator=True)


def _clone(here: Site, cid: str) -> str:
    vm = get_vm(_account(here), cid)
    return create_vm(_account(here), name="clone", size=Demand(1, 1, 0, "z1"), image=vm.image, tags=vm.tags).id


def _create_late(here: Site, name: str, kind: str, group_cid: str | None = None) -> str:
    node, intent = here.nodes()[name], Ids().intent()
    with here.ledger.write() as tx:
        writes.execute(tx, objects.intend(intent, kind, "lab", deployment="dep", node=node.uuid, ref=name))  # type: ignore[arg-type]
        writes.execute(tx, objects.give_up(intent))
    cpi, mark = here.cpi(), Mark(here.director.uuid, intent)
    if kind == "disk":
        return cpi.create_disk(64, {}, None, mark=mark)
    image = here.held("image")[0].cid
    size = {"cpu": 1, "ram_mb": 64, "disk_mb": 64, "zone": "z1"}
    env = {"bosh": {"server_group_cid": group_cid}} if group_cid else {}
    networks = {"a": {"type": "dynamic", "cloud_properties": {}}}
    return cpi.create_vm("agent", image, size, networks, [], env, mark=mark).cid


def _await_looks(here: Site) -> None:
    with here.ledger.read() as tx:
        looks = list(tx.execute(sa.select(tasks.c.id).where(tasks.c.kind == "look")).scalars())
    for task in looks:
        here.wait(task)


def _late(here: Site) -> list[str]:
    with here.ledger.read() as tx:
        return [str(row["cid"]) for row in views.page(tx, Slice(100, None), state="late").items]


def _said(here: Site, kind: str) -> int:
    with here.ledger.read() as tx:
        return tx.execute(sa.select(sa.func.count()).where(events.c.kind == kind)).scalar_one()
