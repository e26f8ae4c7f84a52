"""Killed after any of its calls, or cut off from any of its answers, a method leaves nothing that a repeat under its
mark does not finish, and the product's own cleanup does not find.

The points are discovered: a method is run again and again, and dies, or loses an answer, one call later each time.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
from peers.gcp_bed import GcpBed
from peers.product_cleanup import clean

from coterie.cpi.conformance.lab import Lab
from coterie.cpi.contract import Cpi, CpiError, Mark, OutcomeUnknown, SecurityGroup
from coterie.cpi.kit.http_calls import HttpCalls

WEB = SecurityGroup("web", ({"protocol": "tcp", "ports": "80", "cidr": "10.0.0.0/8"}, {"ports": "22", "group": "web"}))
OUT = SecurityGroup("web", ({"protocol": "tcp", "ports": "443", "cidr": "10.0.0.0/8", "direction": "egress"},))
Act = Callable[[Cpi, Mark], Any]


class Killed(BaseException):
    """Nothing in the driver may catch it, as nothing catches SIGKILL."""


def dying_after(cpi: Cpi, calls: int, patch: pytest.MonkeyPatch) -> None:
    """The process dies when this many calls were answered."""
    send, left = HttpCalls._send_once, itertools.count(calls, -1)

    def counted(self: HttpCalls, *arguments: Any, **keywords: Any) -> Any:
        answer = send(self, *arguments, **keywords)
        if self is cpi.client.calls and next(left) == 1:  # type: ignore[attr-defined] # it is ours
            raise Killed
        return answer

    patch.setattr(HttpCalls, "_send_once", counted)


def sweep(bed: GcpBed, keep: set[str]) -> None:
    clean(bed.open(), bed.director_uuid, keep)


def kill_everywhere(bed: GcpBed, act: Act, lab: Lab, *, repeat: bool) -> int:
    """How many points there were. After each, a repeat finishes, and a sweep leaves what was there before."""
    before = bed.inventory()
    keep = {cid for _, cid in before}
    for calls in itertools.count(1):
        cpi, mark = bed.open(), lab.mark()
        with pytest.MonkeyPatch.context() as patch:
            dying_after(cpi, calls, patch)
            try:
                act(cpi, mark)
                sweep(bed, keep)
                return calls
            except Killed:
                pass
        if repeat:
            act(bed.open(), mark)
        sweep(bed, keep)
        left = sorted(bed.inventory() - before)
        assert not left, f"killed after call {calls}, there is still {left}"
    raise AssertionError("unreachable")


def lose_everywhere(bed: GcpBed, act: Act, lab: Lab) -> set[str]:
    """Each change is done once without an answer: no error but OutcomeUnknown, and a repeat finishes."""
    before, front, seen = bed.inventory(), bed.front, set[str]()
    keep = {cid for _, cid in before}
    for number in itertools.count(1):
        left, mark, lost = itertools.count(number, -1), lab.mark(), list[str]()

        def lose(method: str, left: Any = left, lost: list[str] = lost) -> bool:
            is_this = next(left) == 1
            lost += [method] if is_this else []
            return is_this

        front.lose = lose
        try:
            act(bed.open(), mark)
        except CpiError as error:
            assert isinstance(error, OutcomeUnknown), f"a lost answer to {lost} is called {error!r}"
            front.lose = lambda method: False
            act(bed.open(), mark)
        finally:
            front.lose = lambda method: False
        sweep(bed, keep)
        remaining = sorted(bed.inventory() - before)
        assert not remaining, f"without an answer to {lost}, there is still {remaining}"
        if not lost:
            return seen
        seen |= set(lost)
    raise AssertionError("unreachable")


def _vm(bed: GcpBed, lab: Lab) -> Act:
    public = bed.operator.create_public_address("public")
    image, group = lab.image(), lab.group("anti-affinity", security_groups=[WEB])
    properties = {**bed.vm_properties("z1"), "ephemeral_disk_size_gb": 4, "labels": {"team": "a"}}
    networks = {**bed.networks("z1", "127.40.7.7"), "out": {"type": "vip", "ip": public}}

    def act(cpi: Cpi, mark: Mark) -> None:
        arguments = lab.vm_arguments("z1", group, stemcell_cid=image, mark=mark, member=1)
        given = {**arguments, "agent_id": mark.intent, "cloud_properties": properties, "networks": networks}
        cpi.create_vm(**given)
        cpi.delete_vm(f"z1/{mark.name()}")

    return act


def _disk(bed: GcpBed, lab: Lab) -> Act:
    vm = lab.vm()

    def act(cpi: Cpi, mark: Mark) -> None:
        disk, other = cpi.create_disk(1024, {}, mark=mark), Mark(mark.director, mark.intent[:-1] + "0")
        cpi.attach_disk(vm, disk)
        cpi.set_disk_metadata(disk, {"index": "1"})
        cpi.detach_disk(vm, disk)
        cpi.resize_disk(disk, 2048)
        cpi.delete_snapshot(cpi.snapshot_disk(disk, {"index": 0}, mark=other))
        cpi.delete_disk(disk)

    return act


def _stemcell(bed: GcpBed, lab: Lab) -> Act:
    path, properties = bed.image()
    return lambda cpi, mark: cpi.delete_stemcell(cpi.create_stemcell(path, properties, mark=mark))


def _group(bed: GcpBed, lab: Lab) -> Act:
    def act(cpi: Cpi, mark: Mark) -> None:
        cid = cpi.create_server_group(lab.metadata(security_groups=[WEB]), mark=mark)
        cpi.update_server_group(cid, lab.metadata(security_groups=[OUT]))
        cpi.update_server_group(cid, lab.metadata())
        cpi.delete_server_group(cid)

    return act


SUBJECTS: dict[str, tuple[Callable[[GcpBed, Lab], Act], int, set[str]]] = {
    "vm": (_vm, 10, {"instances.insert", "instances.delete"}),
    "disk": (
        _disk,
        20,
        {"disks.insert", "instances.attachDisk", "instances.detachDisk", "disks.resize", "snapshots.insert"},
    ),
    "stemcell": (_stemcell, 8, {"images.insert", "images.delete", "objects.delete"}),
    "group": (_group, 20, {"resourcePolicies.insert", "firewalls.insert", "firewalls.patch", "firewalls.delete"}),
}
SHORT = ("vm", "stemcell")  # the others are for the long run


def _marked(names: Any) -> list[Any]:
    return [pytest.param(name, marks=() if name in SHORT else pytest.mark.full) for name in names]


@pytest.mark.parametrize("subject", _marked([one for one in SUBJECTS if one != "disk"]))
def test_killed_after_any_call_and_swept(bed: GcpBed, lab: Lab, subject: str) -> None:
    """Not disks: one that is attached to a VM that stays is in use, and stays."""
    prepare, least, _ = SUBJECTS[subject]
    assert kill_everywhere(bed, prepare(bed, lab), lab, repeat=False) >= least


@pytest.mark.parametrize("subject", _marked(SUBJECTS))
def test_killed_after_any_call_and_repeated(bed: GcpBed, lab: Lab, subject: str) -> None:
    prepare, least, _ = SUBJECTS[subject]
    assert kill_everywhere(bed, prepare(bed, lab), lab, repeat=True) >= least


@pytest.mark.parametrize("subject", SUBJECTS)
def test_any_answer_lost(bed: GcpBed, lab: Lab, subject: str) -> None:
    prepare, _, changes = SUBJECTS[subject]
    assert lose_everywhere(bed, prepare(bed, lab), lab) >= changes
