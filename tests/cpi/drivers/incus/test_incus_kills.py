"""Killed after any of its changes, a method leaves nothing that a sweep by marks does not find; and repeated under the
same mark it makes what it would have made at once, and nothing twice."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest
from peers.incus_bed import IS_LXD, IncusBed
from peers.incus_operator import VOLUMES
from tests.peers.incus.cluster import until

from coterie.cpi.conformance.lab import Lab
from coterie.cpi.contract import Cpi, CpiError, Expected, Kind, Mark, NoPlacement, SecurityGroup
from coterie.cpi.drivers.incus.client import Client
from coterie.cpi.drivers.incus.create_vm import _Creation
from coterie.cpi.drivers.incus.placement import Reservation
from coterie.ledger.work import domains

SWEPT: tuple[Kind, ...] = ("vm", "snapshot", "disk", "image", "server_group", "security_group")
_begin = _Creation._begin
Act = Callable[[Cpi, Mark], Any]
RULES = ({"protocol": "tcp", "ports": "80", "cidr": "10.0.0.0/8"},)


class Killed(BaseException):
    """Nothing in the driver may catch it, as nothing catches SIGKILL."""


def killed_after(bed: IncusBed, act: Act, changes: int, mark: Mark) -> bool:
    """Whether it died after so many changes; what it had submitted to the one writer stays there."""
    cpi, call, counted = bed.open(), Client._call, itertools.count(1)

    def counting(self: Client, what: str, method: str, *words: Any, changes: bool, **more: Any) -> Any:
        answer = call(self, what, method, *words, changes=changes, **more)
        if changes and self is cpi.client and next(counted) == limit:  # type: ignore[attr-defined]
            raise Killed
        return answer

    limit = changes
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Client, "_call", counting)
        patch.setattr(domains, "withdraw", lambda tx, change: None)
        try:
            act(cpi, mark)
        except Killed:
            return True
    return False


def await_instances(bed: IncusBed) -> None:
    """A sweep comes when nothing is on its way any more."""

    def is_idle() -> bool:
        running = (bed.operator.call("GET", "/1.0/operations?recursion=1") or {}).get("running") or ()
        return not any((one.get("resources") or {}).get("instances") for one in running)

    until(is_idle, 30.0, "an operation on an instance does not end")


def sweep(bed: IncusBed, keep: frozenset[str]) -> None:
    cpi = bed.open()
    for kind in SWEPT:
        for one in cpi.survey(kind, bed.director_uuid).objects:
            if one.mark and one.cid not in keep:
                cpi.delete_object(kind, one.cid, Expected(one.mark, one.created_at, one.etag))


def every_change(bed: IncusBed, lab: Lab, act: Act, undo: Callable[[Any], Any], keep: frozenset[str]) -> int:
    before = bed.inventory()
    answer = act(bed.open(), lab.mark())
    whole = shape(bed, before)
    undo(answer)
    assert bed.inventory() == before
    for changes in itertools.count(1):
        died = killed_after(bed, act, changes, lab.mark())
        await_instances(bed)
        sweep(bed, keep)
        assert bed.inventory() == before, f"killed after change {changes}, swept"
        mark = lab.mark()
        killed_after(bed, act, changes, mark)
        answer = act(bed.open(), mark)
        assert shape(bed, before) == whole, f"killed after change {changes}, repeated"
        undo(answer)
        assert bed.inventory() == before, f"killed after change {changes}, repeated and undone"
        if not died:
            return changes - 1
    raise AssertionError("unreachable")


def security_groups(lab: Lab, name: str) -> list[SecurityGroup]:
    return [SecurityGroup(name, RULES)] if lab.has_security_groups else []


def shape(bed: IncusBed, before: Any) -> Any:
    running = [row["status"] for row in bed.operator.rows("/1.0/instances")]
    return Counter(kind for kind, _ in bed.inventory() - before), Counter(running)


def test_create_vm_in_a_strict_group(bed: IncusBed, lab: Lab) -> None:
    group, image = lab.group("anti-affinity", security_groups=security_groups(lab, "kill-web")), lab.image()
    networks = bed.networks("z1", bed.address("z1"))

    def act(cpi: Cpi, mark: Mark) -> str:
        return str(cpi.create_vm(**lab.vm_arguments("z1", group, networks=networks, mark=mark)).cid)

    keep = frozenset({group, image, "kill-web"})
    assert every_change(bed, lab, act, lab.cpi.delete_vm, keep) >= 1


@pytest.mark.parametrize("is_sent", [False, True], ids=["before its request", "its request on the way"])
def test_the_place_of_a_vm_whose_creator_was_killed_is_kept(bed: IncusBed, lab: Lab, is_sent: bool) -> None:
    """The request arrives half a second later, or never: others that follow at once leave the member to it."""
    group, image = lab.group("anti-affinity", azs=()), lab.image()

    def arguments() -> dict[str, Any]:
        return {**lab.vm_arguments(group=group, stemcell_cid=image), "cloud_properties": {"cpu": 1, "memory": 64}}

    def create(one: dict[str, Any]) -> str:
        try:
            return str(bed.open().create_vm(**one).cid)
        except NoPlacement:
            return ""

    first = arguments()
    if is_sent:
        bed.front.bend("POST", "/1.0/instances", "late")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_Creation, "_begin", killed_begin(is_sent))
        with pytest.raises(Killed):
            bed.open().create_vm(**first)
    with ThreadPoolExecutor(4) as pool:
        made = [cid for cid in pool.map(create, [arguments() for _ in range(4)]) if cid]
    for cid in made:
        lab.undo(lab.cpi.delete_vm, cid)
    last = str(bed.open().create_vm(**first).cid)
    lab.undo(lab.cpi.delete_vm, last)
    assert len(made) == 2, "the third place is the first VM's"
    assert sorted(bed.operator.locations(*made, last)) == ["inc1", "inc2", "inc3"]


def killed_begin(is_sent: bool) -> Callable[..., str]:
    def begin(self: _Creation, reservation: Reservation, body: Any) -> str:
        if is_sent:
            with suppress(CpiError):
                _begin(self, reservation, body)
        raise Killed

    return begin


def test_create_disk(bed: IncusBed, lab: Lab) -> None:
    def act(cpi: Cpi, mark: Mark) -> str:
        return cpi.create_disk(64, {}, mark=mark)

    assert every_change(bed, lab, act, lab.cpi.delete_disk, frozenset()) >= 1


def test_create_server_group_with_rules(bed: IncusBed, lab: Lab) -> None:
    metadata = lab.metadata("affinity", security_groups=security_groups(lab, "kill-ssh"))

    def act(cpi: Cpi, mark: Mark) -> str:
        return cpi.create_server_group(metadata, mark=mark)

    assert every_change(bed, lab, act, lab.cpi.delete_server_group, frozenset()) >= (2 if IS_LXD else 3)


def test_create_stemcell(bed: IncusBed, lab: Lab) -> None:
    path, properties = bed.image()

    def act(cpi: Cpi, mark: Mark) -> str:
        return cpi.create_stemcell(path, properties, mark=mark)

    assert every_change(bed, lab, act, lab.cpi.delete_stemcell, frozenset()) >= 1


def test_a_disk_that_comes_to_its_vm(bed: IncusBed, lab: Lab) -> None:
    """Killed anywhere, it is there once in the end, with its data, and a repeat attaches it."""
    vm, other = lab.vm("z1"), lab.vm("z2")
    home = bed.operator.locations(vm)
    for changes in itertools.count(1):
        disk = lab.cpi.create_disk(64, {}, other, mark=lab.mark())
        lab.cpi.attach_disk(other, disk)
        write(bed, other, f"round-{changes}")
        lab.cpi.detach_disk(other, disk)
        died = killed_after(bed, lambda cpi, _, disk=disk: cpi.attach_disk(vm, disk), changes, lab.mark())
        assert lab.cpi.has_disk(disk)
        assert lab.cpi.attach_disk(vm, disk)
        volumes = [row["location"] for row in bed.operator.rows(VOLUMES)]
        assert volumes == home
        assert lab.cpi.get_disks(vm) == [disk]
        assert read(bed, vm) == f"round-{changes}"
        lab.cpi.detach_disk(vm, disk)
        lab.cpi.delete_disk(disk)
        if not died:
            assert changes > 3
            return


def write(bed: IncusBed, vm: str, text: str) -> None:
    """A file on its disk, by Incus itself."""
    headers = {"X-Incus-type": "file", "Content-Type": "application/octet-stream"}
    bed.operator.cluster.call("POST", f"/1.0/instances/{vm}/files?path=/var/vcap/store/word", text.encode(), **headers)


def read(bed: IncusBed, vm: str) -> str:
    return bed.operator.cluster.read_file(vm, "/var/vcap/store/word")


def test_delete_vm_with_a_disk(bed: IncusBed, lab: Lab) -> None:
    disk = lab.disk()
    for changes in (1, 2):
        vm = lab.vm(disk_cids=[disk])
        lab.cpi.attach_disk(vm, disk)
        killed_after(bed, lambda cpi, _, vm=vm: cpi.delete_vm(vm), changes, lab.mark())
        lab.cpi.delete_vm(vm)
        assert not lab.cpi.has_vm(vm)
        assert lab.cpi.has_disk(disk)
        vm = lab.vm(disk_cids=[disk])
        assert bed.operator.locations(vm) == [str(lab.cpi.disks.require(disk)["location"])]  # type: ignore[attr-defined]
