"""Objects that came after their creation was given up: seen by the periodic look, deleted with their node or group."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from coterie.cpi.contract import CloudObject, CpiError, Expected, Kind, Mark, OutcomeUnknown
from coterie.cpi.drivers.sandbox.driver import SandboxCpi
from coterie.director.services.periodic_look import PeriodicLook
from coterie.ids import Ids
from coterie.ledger import writes
from coterie.ledger.rows import objects, parts
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


class Neutron:
    """Ports of a driver whose first create_vm ends between the port and the VM: the sandbox has none of its own."""

    def __init__(self, ledger: Ledger, patch: pytest.MonkeyPatch, in_use: bool = False) -> None:
        self.ports: dict[str, Mark] = {}
        self._ledger, self._in_use, self._has_died = ledger, in_use, False
        self._create_vm, self._find = SandboxCpi.create_vm, SandboxCpi.find
        patch.setattr(SandboxCpi, "create_vm", lambda *args, **more: self.create_vm(*args, **more))
        patch.setattr(SandboxCpi, "find", lambda *args: self.find(*args))
        patch.setattr(SandboxCpi, "delete_object", lambda *args: self.delete_object(*args))

    def create_vm(self, cpi: SandboxCpi, *args: Any, mark: Mark) -> Any:
        if self._has_died:
            return self._create_vm(cpi, *args, mark=mark)
        self._has_died = True
        for port in ("port-1", "port-2"):
            self.ports[port] = mark
            with self._ledger.write() as tx:
                parts.record(tx, "lab", mark.intent, "port", "nic", port)
        raise OutcomeUnknown("the process died here")

    def find(self, cpi: SandboxCpi, kind: Kind, mark: Mark) -> CloudObject | None:
        if kind != "port":
            return self._find(cpi, kind, mark)
        return next((CloudObject("port", cid, cid) for cid, held in self.ports.items() if held == mark), None)

    def delete_object(self, cpi: SandboxCpi, kind: Kind, cid: str, expected: Expected) -> None:
        assert (kind, expected.mark) == ("port", self.ports[cid])
        if self._in_use:
            raise CpiError(f"port {cid} is used by a person's VM", remedy="delete that first")
        del self.ports[cid]


def test_ports_for_which_no_vm_was_created_go_when_it_is_given_up(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with site(ledger, tmp_path) as here:
        cloud = Neutron(ledger, monkeypatch)
        here.deploy(manifest(group("web", 1)))
        assert cloud.ports == {}
        assert (_said(here, "object.given_up"), _said(here, "object.part_deleted")) == (1, 2)


def test_a_port_that_cannot_be_deleted_is_left_to_cleanup(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with site(ledger, tmp_path) as here:
        cloud = Neutron(ledger, monkeypatch, in_use=True)
        here.deploy(manifest(group("web", 1)))
        assert (here.nodes()["web/0"].state, _said(here, "object.part_left")) == ("up", 1)
        here.delete()
        assert list(cloud.ports) == ["port-1", "port-2"]


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
