"""Surveys of every kind: complete, ours only, and as many calls as pages."""

from __future__ import annotations

from typing import Any

from peers.openstack_bed import OpenstackBed
from tests.cpi.drivers.openstack.killing import surveyed
from tests.cpi.drivers.openstack.test_openstack_leaks import KEY

from coterie.cpi.conformance.expect import expect_error
from coterie.cpi.conformance.lab import Lab
from coterie.cpi.contract import SecurityGroup, Unavailable


def test_every_kind_that_a_deployment_makes_is_listed_with_its_mark(bed: OpenstackBed, lab: Lab) -> None:
    before = bed.inventory()
    group = lab.group("anti-affinity", security_groups=[SecurityGroup("web")])
    properties = {**bed.vm_properties("z1"), "boot_from_volume": True, "root_disk": {"size": 2}, "public_key": KEY}
    lab.vm(group=group, cloud_properties=properties)
    disk = lab.disk()
    lab.undo(lab.cpi.delete_snapshot, lab.cpi.snapshot_disk(disk, {"index": 0}, mark=lab.mark()))
    made = {(kind, cid) for kind, cid in bed.inventory() - before if kind != "memo"}  # which goes with its group
    assert {kind for kind, _ in made} == {
        *("vm", "port", "disk", "snapshot", "image", "server_group", "security_group", "keypair"),
    }
    for kind in {kind for kind, _ in made}:
        ours = [one for one in surveyed(lab.cpi, kind, bed.director_uuid) if one.mark]
        passing = 1 if kind == "disk" else 0  # the root volume is Nova's own, and goes with its server
        assert len(ours) == len([cid for had, cid in made if had == kind]) - passing, kind


def test_a_vm_that_nova_leaves_out_of_its_list_is_not_taken_for_gone(bed: OpenstackBed, lab: Lab) -> None:
    """As it does, without a word, with servers of a cell that is down."""
    mark = lab.mark()
    vm = lab.vm(mark=mark)
    bed.front.bend("nova", "GET", "/v2.1/servers/detail", "omit")
    expect_error(Unavailable, lambda: lab.cpi.find("vm", mark))
    found = lab.cpi.find("vm", mark)
    assert found is not None
    assert found.cid == vm
    assert lab.cpi.find("vm", lab.mark()) is None


def test_strangers_cost_no_calls_where_the_cloud_can_filter(bed: OpenstackBed, lab: Lab) -> None:
    """Three pages of other owners' volumes, ports and images; one of ours of each."""
    lab.vm()
    lab.disk()
    for number in range(2 * bed.page_size + 1):
        volume = {"volume": {"name": f"cot-{number}", "size": 1}}
        theirs = bed.tenant.call("POST", "cinder", "/volumes", volume)["volume"]["id"]
        lab.undo(bed.operator.delete, "disk", theirs)
        port = {"port": {"network_id": bed.tenant.network, "name": f"cot-{number}"}}
        lab.undo(bed.operator.delete, "port", bed.tenant.call("POST", "neutron", "/ports", port)["port"]["id"])
    for kind in ("disk", "port", "vm", "image"):
        bed.front.forget()
        page = lab.cpi.survey(kind, bed.director_uuid)
        calls = [call for call in bed.front.calls if call.service != "keystone"]
        assert [page.complete, page.next] == [True, None]
        assert len([one for one in page.objects if one.mark]) == 1, kind
        # one of ours costs more questions: which servers and which volumes use an image
        assert len(calls) <= (3 if kind == "image" else 2), [call.path for call in calls]
        assert page.calls == len(calls)


def test_many_of_ours_cost_as_many_calls_as_pages(bed: OpenstackBed, lab: Lab) -> None:
    pages = 3
    wanted = {lab.group() for _ in range(2 * bed.page_size + 2)}
    bed.front.forget()
    found: list[Any] = surveyed(lab.cpi, "server_group", bed.director_uuid)
    calls = [call for call in bed.front.calls if call.service != "keystone"]
    assert len({one.cid for one in found}) == len(wanted)
    assert len(calls) <= 2 * pages, [call.path for call in calls]


def test_an_image_that_a_server_boots_from_by_way_of_a_volume_is_in_use(bed: OpenstackBed, lab: Lab) -> None:
    mark = lab.mark()
    path, properties = bed.image()
    image = lab.cpi.create_stemcell(path, properties, mark=mark)
    lab.undo(lab.cpi.delete_stemcell, image)
    volume = {**bed.vm_properties("z1"), "boot_from_volume": True, "root_disk": {"size": 2}}
    vm = lab.vm(stemcell_cid=image, cloud_properties=volume)
    found = lab.cpi.find("image", mark)
    assert found
    assert found.in_use_by == (vm,)
