"""find, survey and delete_object: ours are found, others are not, and only what is still the same is deleted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from coterie.cpi.contract import (
    KINDS,
    Changed,
    CloudObject,
    CpiError,
    Expected,
    GroupInUse,
    InvalidCall,
    Mark,
    NotSupported,
)
from coterie.cpi.kit import objects
from coterie.cpi.kit.checks import require_same
from coterie.sandbox import disks, vms
from coterie.sandbox.fit import Demand
from coterie.sandbox.labels import delete_label, list_labels
from coterie.sandbox.tags import set_tags

from .lab import Lab

OTHER = "99999999-2222-3333-4444-555555555555"
DELETED = ("vm", "disk", "snapshot", "image", "server_group")
MARKED = (*DELETED, "network")


def make(lab: Lab, kind: str, mark: Mark) -> str:
    if kind == "vm":
        return lab.vm(mark=mark)
    if kind == "disk":
        return lab.cpi.create_disk(10, {}, mark=mark)
    if kind == "snapshot":
        return lab.cpi.snapshot_disk(lab.cpi.create_disk(10, {}, mark=lab.mark()), {}, mark=mark)
    if kind == "image":
        return lab.cpi.create_stemcell("", {"name": "x"}, mark=mark)
    if kind == "network":
        return lab.cpi.create_network({}, mark=mark).cid
    return lab.cpi.create_server_group(lab.metadata(security_group_names=["web"]), mark=mark)


def seen(lab: Lab, kind: str, mark: Mark) -> CloudObject:
    found = lab.cpi.find(kind, mark)
    assert found is not None
    return found


def surveyed(lab: Lab, kind: str, director: str | None = None) -> list[CloudObject]:
    found: list[CloudObject] = []
    cursor = None
    while True:
        page = lab.cpi.survey(kind, director or lab.director, cursor)
        assert page.complete
        assert page.calls >= 1
        found += page.objects
        cursor = page.next
        if cursor is None:
            return found


@pytest.mark.parametrize("kind", MARKED)
def test_what_we_make_is_found_and_listed(either: Lab, kind: str) -> None:
    mark = either.mark()
    cid = make(either, kind, mark)
    found = seen(either, kind, mark)
    assert (found.kind, found.cid, found.mark) == (kind, cid, mark)
    assert found.created_at is not None
    assert found.etag
    assert [one for one in surveyed(either, kind) if one.mark == mark] == [found]
    assert either.cpi.find(kind, replace(mark, director=OTHER)) is None
    assert surveyed(either, kind, OTHER) == []


@pytest.mark.parametrize("kind", DELETED)
def test_what_we_make_is_deleted_as_it_was_seen(either: Lab, kind: str) -> None:
    mark = either.mark()
    cid = make(either, kind, mark)
    found = seen(either, kind, mark)
    expected = Expected(mark, found.created_at, found.etag)
    either.cpi.delete_object(kind, cid, expected)
    assert either.cpi.find(kind, mark) is None
    either.cpi.delete_object(kind, cid, expected)


def test_networks_are_never_deleted_as_objects(lab: Lab) -> None:
    mark = lab.mark()
    cid = make(lab, "network", mark)
    with pytest.raises(NotSupported):
        lab.cpi.delete_object("network", cid, Expected(mark))
    assert seen(lab, "network", mark).cid == cid


@pytest.mark.parametrize("kind", DELETED)
def test_what_differs_is_not_deleted(either: Lab, kind: str) -> None:
    mark = either.mark()
    cid = make(either, kind, mark)
    found = seen(either, kind, mark)
    for wrong in (
        Expected(either.mark()),
        Expected(None),
        Expected(mark, created_at=1.0),
        Expected(mark, etag="999"),
    ):
        with pytest.raises(Changed):
            either.cpi.delete_object(kind, cid, wrong)
    assert seen(either, kind, mark) == found


def test_what_changes_between_look_and_deletion_is_not_deleted(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    mark = lab.mark()
    cid = make(lab, "disk", mark)

    def expect_then_change(found: CloudObject, expected: Expected) -> None:
        require_same(found, expected)
        set_tags(lab.operator, cid, "disk", {"kept": "please"})

    monkeypatch.setattr(objects, "require_same", expect_then_change)
    with pytest.raises(Changed):
        lab.cpi.delete_object("disk", cid, Expected(mark))
    assert lab.cpi.has_disk(cid)


def test_use_is_told(lab: Lab) -> None:
    group_mark, disk_mark, vm_mark = lab.mark(), lab.mark(), lab.mark()
    group = lab.cpi.create_server_group(lab.metadata(security_group_names=["web"]), mark=group_mark)
    vm = lab.vm(group, vm_mark)
    disk = lab.cpi.create_disk(10, {}, vm, mark=disk_mark)
    lab.cpi.attach_disk(vm, disk)
    assert seen(lab, "server_group", group_mark).in_use_by == (vm,)
    assert seen(lab, "disk", disk_mark).in_use_by == (vm,)
    assert seen(lab, "vm", vm_mark).in_use_by == ()
    assert set(seen(lab, "security_group", group_mark).in_use_by or ()) == {vm, group}
    (image,) = surveyed(lab, "image")
    assert image.in_use_by == (vm,)
    host = seen(lab, "vm", vm_mark)
    assert (host.az, host.state) == ("z1", "running")
    assert host.host
    for kind, cid, mark in (("disk", disk, disk_mark), ("server_group", group, group_mark)):
        with pytest.raises(CpiError):
            lab.cpi.delete_object(kind, cid, Expected(mark))
    with pytest.raises(GroupInUse):
        lab.cpi.delete_object("server_group", group, Expected(group_mark))


def test_a_security_group_whose_server_group_is_gone_is_unused(lab: Lab) -> None:
    """The driver died after deleting the group and before letting its security group go."""
    from coterie.sandbox.server_groups import delete_server_group

    mark = lab.mark()
    cid = lab.cpi.create_server_group(lab.metadata(security_group_names=["web"]), mark=mark)
    delete_server_group(lab.operator, lab.cpi.inspect_server_group(cid).resources[0].cid)
    (left,) = surveyed(lab, "security_group")
    assert left.in_use_by == ()
    lab.cpi.delete_object("security_group", left.cid, Expected(left.mark, left.created_at, left.etag))
    assert surveyed(lab, "security_group") == []


def test_foreign_things_are_not_listed(lab: Lab) -> None:
    disks.create_disk(lab.operator, name="cot-looks-like-ours", size_mb=1)
    disks.create_disk(lab.operator, name="x", size_mb=1, tags={"coterie-director": OTHER, "coterie-intent": "0" * 26})
    forged = disks.create_disk(lab.operator, name="x", size_mb=1, tags={"coterie-director": lab.director})
    (found,) = surveyed(lab, "disk")
    assert (found.cid, found.mark) == (forged.id, None)


def test_lists_come_in_pages(lab: Lab) -> None:
    wanted = {lab.cpi.create_disk(1, {}, mark=lab.mark()) for _ in range(501)}
    page = lab.cpi.survey("disk", lab.director)
    assert len(page.objects) == 500
    assert page.next
    assert {one.cid for one in surveyed(lab, "disk")} == wanted


def test_kinds_that_the_cloud_does_not_have_are_empty_and_unknown_ones_mistakes(lab: Lab) -> None:
    for kind in ("port", "ip", "keypair", "folder"):
        assert kind in KINDS
        page = lab.cpi.survey(kind, lab.director)
        assert (page.objects, page.next, page.complete) == ((), None, True)
        assert lab.cpi.find(kind, lab.mark()) is None
    with pytest.raises(InvalidCall):
        lab.cpi.survey("dragon", lab.director)


def test_late_objects_are_found_later(lab: Lab) -> None:
    mark = lab.mark()
    lab.fault("create_disk", "late-visibility", ms=80, times=1)
    lab.cpi.create_disk(1, {}, mark=mark)
    assert lab.cpi.find("disk", mark) is None
    while lab.cpi.find("disk", mark) is None:
        pass


def test_a_zones_group_whose_reservation_is_gone_is_still_listed(lists: Lab) -> None:
    mark = lists.mark()
    cid = lists.cpi.create_server_group(lists.metadata(), mark=mark)
    vm = lists.vm(cid)
    assert [one.state for one in surveyed(lists, "server_group")] == ["live"]
    delete_label(lists.operator, list_labels(lists.operator).items[0].id)
    (stray,) = surveyed(lists, "server_group")
    assert (stray.cid, stray.mark, stray.in_use_by) == (cid, mark, (vm,))
    assert seen(lists, "server_group", mark).cid == cid
    assert lists.cpi.inspect_server_group(cid).state == "missing"


def test_an_operators_vm_of_the_same_mark_does_not_hide_ours(lab: Lab) -> None:
    mark = lab.mark()
    cid = lab.vm(mark=mark)
    tags = {"coterie-intent": mark.intent, "coterie-director": OTHER}
    vms.create_vm(lab.operator, name="x", size=Demand(1, 1, 1, "z1"), image=lab.stemcell, tags=tags)
    assert seen(lab, "vm", mark).cid == cid
