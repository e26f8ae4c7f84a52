"""Killed after any of its calls, a method leaves nothing that a sweep by marks, or the product's own cleanup, does not
find; and repeated under the same mark it makes what it would have made at once, and nothing twice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from peers.openstack_bed import OpenstackBed
from peers.openstack_operator import until
from tests.cleanup.yard import Yard
from tests.cpi.drivers.openstack.killing import Deed, every_call, every_kind, killed_at, points_of, settled, sweep
from tests.cpi.drivers.openstack.place import Place, placed
from tests.cpi.drivers.openstack.test_openstack_leaks import KEY
from tests.requests.site import group, manifest

from coterie.cpi.conformance.lab import Lab
from coterie.cpi.contract import Cpi, Mark, SecurityGroup
from coterie.ids import Ids
from coterie.ledger.rows import objects
from coterie.ledger.writes import execute

pytestmark = pytest.mark.timeout(900)
Matrix = Callable[[OpenstackBed, Deed], int]
MATRICES = [every_kind, pytest.param(every_call, marks=[pytest.mark.full, pytest.mark.timeout(3600)])]
each = pytest.mark.parametrize("matrix", MATRICES)


@pytest.mark.short
def test_create_vm_killed_after_its_boot_is_swept_and_the_address_is_free(bed: OpenstackBed, lab: Lab) -> None:
    image = lab.image()
    networks = bed.networks("z1", str(bed.address("z1")))

    def act(cpi: Cpi, mark: Mark) -> None:
        cpi.create_vm(**lab.vm_arguments(networks=networks, mark=mark))

    before = bed.inventory()
    assert killed_at(bed.open, act, lambda kinds: kinds[-1].startswith("POST compute /servers "), lab.mark())
    assert any(kind == "vm" for kind, _ in bed.inventory())
    sweep(bed, {image})
    assert bed.inventory() == before
    lab.vm(networks=networks)


@each
def test_create_vm(bed: OpenstackBed, lab: Lab, matrix: Matrix) -> None:
    """In a soft group: through the single writer, which makes the last calls."""
    group, image = lab.group(security_groups=[SecurityGroup("web")]), lab.image()
    security_groups = {one.cid for one in lab.cpi.inspect_server_group(group).resources}
    networks = bed.networks("z1", "10.20.7.7")

    def act(cpi: Cpi, mark: Mark) -> str:
        return str(cpi.create_vm(**lab.vm_arguments("z1", group, networks=networks, mark=mark)).cid)

    keep = frozenset({group, image, *security_groups})
    assert matrix(bed, Deed(act, lab.cpi.delete_vm, lab.mark, keep)) > 2


@each
def test_create_vm_with_everything(bed: OpenstackBed, lab: Lab, matrix: Matrix) -> None:
    """Root disk as a volume, a public key, a second NIC without an address, a floating IP. Swept by the product's own
    cleanup, below."""
    image = lab.image()
    properties = {
        **bed.vm_properties("z1"),
        "boot_from_volume": True,
        "root_disk": {"size": 2},
        "public_key": KEY,
    }
    networks = _networks(bed)
    lab.undo(_drop_addresses, bed)
    keep = frozenset({image, *(cid for _, cid in bed.inventory())})

    def act(cpi: Cpi, mark: Mark) -> str:
        arguments = lab.vm_arguments("z1", cloud_properties=properties, networks=networks, mark=mark)
        return str(cpi.create_vm(**arguments).cid)

    assert matrix(bed, Deed(act, lab.cpi.delete_vm, lab.mark, keep, swept=False)) > 6


@each
def test_delete_vm(bed: OpenstackBed, lab: Lab, matrix: Matrix) -> None:
    image, disk = lab.image(), lab.disk()
    networks = bed.networks("z1", "10.20.7.7")
    made: dict[Mark, str] = {}

    def act(cpi: Cpi, mark: Mark) -> None:
        if mark not in made:
            made[mark] = bed.open().create_vm(**lab.vm_arguments(networks=networks, mark=mark)).cid
            bed.open().attach_disk(made[mark], disk)
        cpi.delete_vm(made[mark])

    assert matrix(bed, Deed(act, lambda _: None, lab.mark, frozenset({image, disk}))) > 2


@each
def test_create_disk(bed: OpenstackBed, lab: Lab, matrix: Matrix) -> None:
    def act(cpi: Cpi, mark: Mark) -> str:
        return cpi.create_disk(1024, {}, mark=mark)

    assert matrix(bed, Deed(act, lab.cpi.delete_disk, lab.mark)) > 1


@each
def test_snapshot_disk(bed: OpenstackBed, lab: Lab, matrix: Matrix) -> None:
    disk = lab.disk()

    def act(cpi: Cpi, mark: Mark) -> str:
        return cpi.snapshot_disk(disk, {"index": 0}, mark=mark)

    assert matrix(bed, Deed(act, lab.cpi.delete_snapshot, lab.mark, frozenset({disk}))) > 1


@each
def test_create_stemcell(bed: OpenstackBed, lab: Lab, matrix: Matrix) -> None:
    path, properties = bed.image()

    def act(cpi: Cpi, mark: Mark) -> str:
        return cpi.create_stemcell(path, properties, mark=mark)

    assert matrix(bed, Deed(act, lab.cpi.delete_stemcell, lab.mark)) > 2


@each
@pytest.mark.parametrize("policy", ["anti-affinity", None])
def test_create_server_group(bed: OpenstackBed, lab: Lab, matrix: Matrix, policy: str | None) -> None:
    wanted = _with_security_groups(lab, policy)

    def act(cpi: Cpi, mark: Mark) -> str:
        return cpi.create_server_group(wanted, mark=mark)

    assert matrix(bed, Deed(act, lab.cpi.delete_server_group, lab.mark)) > 2


@each
@pytest.mark.parametrize("policy", ["anti-affinity", None])
def test_delete_server_group(bed: OpenstackBed, lab: Lab, matrix: Matrix, policy: str | None) -> None:
    wanted, made = _with_security_groups(lab, policy), dict[Mark, str]()

    def act(cpi: Cpi, mark: Mark) -> None:
        if mark not in made:
            made[mark] = bed.open().create_server_group(wanted, mark=mark)
        cpi.delete_server_group(made[mark])

    assert matrix(bed, Deed(act, lambda _: None, lab.mark)) > 2


@each
def test_update_server_group(bed: OpenstackBed, lab: Lab, matrix: Matrix) -> None:
    """The security groups of a group with a VM are exchanged: its port must have the new one in the end."""
    image, made = lab.image(), dict[Mark, str]()
    networks = bed.networks("z1", "10.20.7.7")

    def act(cpi: Cpi, mark: Mark) -> Mark:
        if mark not in made:
            made[mark] = bed.open().create_server_group(lab.metadata(security_groups=[OLD]), mark=mark)
            bed.open().create_vm(**lab.vm_arguments("z1", made[mark], networks=networks))
        cpi.update_server_group(made[mark], lab.metadata(security_groups=[NEW]))
        (port,) = bed.operator.listed("port")
        (found,) = bed.operator.listed("security_group")
        assert (found["name"], port["security_groups"]) == (NEW.name, [found["id"]])
        return mark

    assert matrix(bed, Deed(act, lambda _: sweep(bed, {image}), lab.mark, frozenset({image}))) > 3


OLD, NEW = SecurityGroup("old", ({"ports": "80"},)), SecurityGroup("new", ({"ports": "81"},))


def test_the_products_own_cleanup_leaves_nothing_of_a_killed_create(bed: OpenstackBed, tmp_path: Path) -> None:
    """Judged by the ledger: the VM, and what its creation leaves beside it, under an intent that nothing needs."""
    bed.more["settle_s"] = 1
    networks = _networks(bed)
    with placed(tmp_path, bed) as place:
        place.deploy(manifest(group("a", 1, azs="z1")))
        (image,) = place.held("image")
        arguments = {
            "agent_id": "agent",
            "stemcell_cid": image.cid,
            "cloud_properties": {**bed.vm_properties("z1"), "public_key": KEY},
            "networks": networks,
            "disk_cids": [],
            "env": {},
        }
        before = bed.inventory()

        def act(cpi: Cpi, mark: Mark) -> None:
            cpi.create_vm(**arguments, mark=mark)

        points = list(points_of(place.cpi, act, _intend(place)))
        _clean(bed, place, before, "the end")
        for where, dies in points:
            assert killed_at(place.cpi, act, dies, _intend(place)), where
            _clean(bed, place, before, where)
        assert len(points) > 5
    _drop_addresses(bed)


def _intend(place: Place) -> Mark:
    """Written down before the cloud is called, as for a node that is not wanted any more."""
    intent = Ids().intent()
    with place.ledger.write() as tx:
        execute(tx, objects.intend(intent, "vm", "lab", deployment="dep", ref="a/9"))
    return Mark(place.director.uuid, intent)


def _clean(bed: OpenstackBed, place: Place, before: Any, where: str) -> None:
    until(lambda: settled(bed))
    plan = Yard(place).clean()
    assert bed.inventory() == before, (where, sorted(bed.inventory() ^ before), Yard(place).outcomes(plan))


def _networks(bed: OpenstackBed) -> dict[str, Any]:
    public = {"type": "vip", "ip": bed.floating_ip(), "cloud_properties": {}}
    second = {"type": "dynamic", "cloud_properties": {"net_id": bed.tenant.network}}
    first = bed.networks("z1", "10.20.7.7")
    return {"default": {**first["default"], "default": ["gateway"]}, "second": second, "public": public}


def _drop_addresses(bed: OpenstackBed) -> None:
    for one in bed.operator.listed("ip"):
        bed.operator.delete("ip", one["id"])


def _with_security_groups(lab: Lab, policy: str | None) -> Any:
    security_groups = [SecurityGroup("web", ({"ports": "80"},)), SecurityGroup("ssh")]
    return replace(lab.metadata(security_groups=security_groups), policy=policy)
