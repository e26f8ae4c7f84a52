"""Killed after any of its calls, a method leaves nothing that a sweep by marks does not find.

The points are discovered: a method is run again and again, and dies one call later each time, until it lives.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from peers.cloudstack_bed import CloudstackBed

from coterie.cpi.conformance.expect import wait_for
from coterie.cpi.conformance.lab import Lab
from coterie.cpi.contract import Cpi, Expected, Mark, SecurityGroup
from coterie.cpi.drivers.cloudstack.client import Client

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIA"
SWEPT = ("vm", "disk", "snapshot", "image", "server_group", "security_group", "ip", "keypair")


class Killed(BaseException):
    """Nothing in the driver may catch it, as nothing catches SIGKILL."""


def dying_after(cpi: Cpi, calls: int, patch: pytest.MonkeyPatch) -> None:
    """The process dies when this many calls were answered."""
    request, left = Client.request, itertools.count(calls, -1)

    def counted(self: Client, *arguments: Any, **keywords: Any) -> Any:
        answer = request(self, *arguments, **keywords)
        if self is cpi.client and next(left) == 1:  # type: ignore[attr-defined] # it is ours
            raise Killed
        return answer

    patch.setattr(Client, "request", counted)


def sweep(bed: CloudstackBed, keep: set[str]) -> None:
    """What cleanup does: everything with a mark of ours goes, in the order of dependence."""
    client = bed.client()
    assert wait_for(lambda: not client.listAsyncJobs() or None, 20)
    cpi = bed.open()
    for kind in SWEPT:
        for one in cpi.survey(kind, bed.director_uuid).objects:
            if one.mark and one.cid not in keep:
                cpi.delete_object(kind, one.cid, Expected(one.mark, one.created_at, one.etag))


def every_point(bed: CloudstackBed, act: Callable[[Cpi, Mark], Any], keep: set[str], mark: Callable[[], Mark]) -> int:
    """How many points there were; after each, a sweep leaves what was there before."""
    before = bed.inventory()
    for calls in itertools.count(1):
        cpi = bed.open()
        with pytest.MonkeyPatch.context() as patch:
            dying_after(cpi, calls, patch)
            try:
                act(cpi, mark())
                return calls
            except Killed:
                pass
        sweep(bed, keep)
        left = sorted(bed.inventory() - before)
        assert not left, f"killed after call {calls}, there is still {left}"
    raise AssertionError("unreachable")


def test_create_vm(bed: CloudstackBed, lab: Lab) -> None:
    group, image = lab.group(security_groups=[SecurityGroup("web")]), lab.image()
    security_groups = {one.cid for one in lab.cpi.inspect_server_group(group).resources}
    properties = {**bed.vm_properties("z1"), "ephemeral_disk_offering": "custom", "disk": 1024, "public_key": KEY}
    networks = {**bed.networks("z1", "127.40.7.7"), "public": {"type": "vip", "ip": "127.200.0.20"}}

    def act(cpi: Cpi, mark: Mark) -> None:
        arguments = lab.vm_arguments("z1", group, cloud_properties=properties, networks=networks, mark=mark)
        lab.undo(lab.cpi.delete_vm, cpi.create_vm(**arguments).cid)

    assert every_point(bed, act, {group, image, *security_groups}, lab.mark) > 15


def test_delete_vm(bed: CloudstackBed, lab: Lab) -> None:
    image, disk = lab.image(), lab.disk()
    networks = {**bed.networks("z1", "127.40.7.7"), "public": {"type": "vip", "ip": "127.200.0.20"}}
    properties = {**bed.vm_properties("z1"), "ephemeral_disk_offering": "custom", "disk": 1024}

    def act(cpi: Cpi, mark: Mark) -> None:
        vm = lab.bed.open().create_vm(**lab.vm_arguments(cloud_properties=properties, networks=networks, mark=mark))
        lab.bed.open().attach_disk(vm.cid, disk)
        cpi.delete_vm(vm.cid)

    assert every_point(bed, act, {image, disk}, lab.mark) > 5


def test_create_disk_and_snapshot(bed: CloudstackBed, lab: Lab) -> None:
    disk = lab.make_written_disk()
    keep = {disk, *(cid for _, cid in bed.inventory())}

    def act(cpi: Cpi, mark: Mark) -> None:
        made = cpi.create_disk(1024, {}, mark=mark)
        lab.undo(lab.cpi.delete_disk, made)
        lab.undo(lab.cpi.delete_snapshot, cpi.snapshot_disk(disk, {"index": 0}, mark=lab.mark()))

    assert every_point(bed, act, keep, lab.mark) > 5


@pytest.mark.parametrize("copied", [False, True])
def test_create_stemcell(bed: CloudstackBed, lab: Lab, copied: bool) -> None:
    path, properties = ("", {"template": "operators-image", "copy": True}) if copied else bed.image()

    def act(cpi: Cpi, mark: Mark) -> None:
        lab.undo(lab.cpi.delete_stemcell, cpi.create_stemcell(path, properties, mark=mark))

    assert every_point(bed, act, set(), lab.mark) > 5


def test_attaching_a_local_disk_that_must_move(bed: CloudstackBed, lab: Lab) -> None:
    """It makes nothing: what may not happen is that the disk is lost, or cannot be attached any more."""
    first, second = lab.vm(), lab.vm()
    disk = lab.cpi.create_disk(1024, {"disk_offering": "local"}, mark=lab.mark())
    lab.undo(lab.cpi.delete_disk, disk)
    keep = {cid for _, cid in bed.inventory()}

    def act(cpi: Cpi, mark: Mark) -> None:
        lab.bed.open().attach_disk(first, disk)
        lab.bed.open().detach_disk(first, disk)
        try:
            cpi.attach_disk(second, disk)
        finally:
            assert wait_for(lambda: not bed.client().listAsyncJobs() or None, 20)
            lab.bed.open().detach_disk(second, disk)

    assert every_point(bed, act, keep, lab.mark) > 5


def test_server_groups(bed: CloudstackBed, lab: Lab) -> None:
    def act(cpi: Cpi, mark: Mark) -> None:
        security_groups = [SecurityGroup("web", ({"ports": "80"},)), SecurityGroup("ssh")]
        cid = cpi.create_server_group(lab.metadata("anti-affinity", security_groups=security_groups), mark=mark)
        lab.undo(lab.cpi.delete_server_group, cid)
        cpi.delete_server_group(cid)

    assert every_point(bed, act, set(), lab.mark) > 10


def test_server_groups_without_a_policy(bed: CloudstackBed, lab: Lab) -> None:
    def act(cpi: Cpi, mark: Mark) -> None:
        wanted = replace(lab.metadata(security_groups=[SecurityGroup("web")]), policy=None)
        lab.undo(lab.cpi.delete_server_group, cpi.create_server_group(wanted, mark=mark))

    assert every_point(bed, act, set(), lab.mark) > 3


def test_a_repeat_completes_the_rules_of_a_half_made_security_group(bed: CloudstackBed, lab: Lab) -> None:
    rules = ({"ports": "80"}, {"protocol": "icmp", "cidr": "127.0.0.0/8"}, {"ports": "53", "direction": "egress"})
    half = 0
    for calls in itertools.count(1):
        cpi, mark, name = bed.open(), lab.mark(), f"web{calls}"
        metadata = lab.metadata(security_groups=[SecurityGroup(name, rules)])
        with pytest.MonkeyPatch.context() as patch:
            dying_after(cpi, calls, patch)
            try:
                cpi.create_server_group(metadata, mark=mark)
                break
            except Killed:
                half += 0 < len(rules_of(bed, name)) < len(rules)
        lab.cpi.create_server_group(metadata, mark=mark)
        assert rules_of(bed, name) == [("icmp", None), ("tcp", 53), ("tcp", 80)], f"killed after call {calls}"
        lab.cpi.delete_server_group(mark.group_cid)
    lab.cpi.delete_server_group(mark.group_cid)
    assert half > 0


def rules_of(bed: CloudstackBed, name: str) -> list[tuple[str, int | None]]:
    found = bed.client().listSecurityGroups(securitygroupname=name).get("securitygroup", [])
    rows = [row for group in found for side in ("ingressrule", "egressrule") for row in group[side]]
    return sorted((row["protocol"], row.get("startport")) for row in rows)
