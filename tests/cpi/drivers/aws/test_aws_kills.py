"""Killed after any of its calls, or with any answer lost on its way through botocore, a method leaves nothing that the
product's own cleanup does not find, and a repeat under the same mark ends with one object.

The points are discovered: a method is run again and again, and dies, or loses an answer, one call later each time.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from peers.aws_bed import AwsBed
from peers.product_cleanup import clean

from coterie.cleanup.options import DELETION_ORDER
from coterie.cpi.conformance.lab import Lab
from coterie.cpi.contract import Cpi, CpiError, Mark, OutcomeUnknown, SecurityGroup
from coterie.cpi.drivers.aws.client import Client
from coterie.sandbox.fronts.aws.front import Front
from coterie.sandbox.fronts.aws.server import _Handler
from coterie.sandbox.fronts.http_server import Reply

Act = Callable[[Cpi, Mark], Any]
PUBLIC = "198.51.100.7"


class Killed(BaseException):
    """Nothing in the driver may catch it, as nothing catches SIGKILL."""


@contextmanager
def dying_after(cpi: Cpi, calls: int) -> Iterator[None]:
    """The process dies when this many calls were answered."""
    call, left = Client._call, itertools.count(calls, -1)

    def counted(self: Client, *arguments: Any, **keywords: Any) -> Any:
        answer = call(self, *arguments, **keywords)
        if self is cpi.client and next(left) == 1:  # type: ignore[attr-defined] # it is ours
            raise Killed
        return answer

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Client, "_call", counted)
        yield


@contextmanager
def losing(change: int) -> Iterator[list[str]]:
    """The cloud does the work of this change, and its answer is lost: the connection closes. Which one it was."""
    send, run, start = _Handler.send, Front.run, Front.start_snapshot
    here, left, lost = threading.local(), itertools.count(change, -1), list[str]()

    def note(front: Front, action: str, given: Any) -> Any:
        here.action = action
        return run(front, action, given)

    def note_start(front: Front, given: Any) -> Any:
        here.action = "StartSnapshot"
        return start(front, given)

    def drop(handler: _Handler, reply: Reply) -> None:
        action, here.action = getattr(here, "action", ""), ""
        if action and not action.startswith("Describe") and reply.status < 300 and next(left) == 1:
            lost.append(action)
            handler.break_off()
        else:
            send(handler, reply)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Front, "run", note)
        patch.setattr(Front, "start_snapshot", note_start)
        patch.setattr(_Handler, "send", drop)
        yield lost


def sweep(bed: AwsBed, keep: set[str]) -> None:
    clean(bed.open(), bed.director_uuid, keep)


def kill_everywhere(bed: AwsBed, act: Act, lab: Lab, *, repeat: bool = False) -> int:
    """How many points there were. After each, a repeat under its mark finishes, and a sweep leaves what was there
    before."""
    before, keep = bed.inventory(), _kept(bed)
    for calls in itertools.count(1):
        cpi, mark = bed.open(), lab.mark()
        try:
            with dying_after(cpi, calls):
                act(cpi, mark)
        except Killed:
            pass
        else:
            sweep(bed, keep)
            return calls - 1
        if repeat:
            act(bed.open(), mark)
        sweep(bed, keep)
        left = sorted(bed.inventory() - before)
        assert not left, f"killed after call {calls}, there is still {left}"
    raise AssertionError("unreachable")


def lose_everywhere(bed: AwsBed, act: Act, lab: Lab) -> set[str]:
    """The actions whose answers were lost; after each, a repeat under the same mark makes nothing a second time."""
    before, keep = bed.inventory(), _kept(bed)
    act(bed.open(), lab.mark())
    once = _count(bed.inventory() - before)
    sweep(bed, keep)
    seen = set()
    for change in itertools.count(1):
        mark = lab.mark()
        with losing(change) as lost:
            try:
                act(bed.open(), mark)
            except CpiError as error:
                assert isinstance(error, OutcomeUnknown), f"a lost answer to {lost} is called {error!r}"
                act(bed.open(), mark)
        assert _count(bed.inventory() - before) == once, f"the answer to {lost} was lost"
        sweep(bed, keep)
        assert bed.inventory() == before
        if not lost:
            return seen
        seen |= set(lost)
    raise AssertionError("unreachable")


def _kept(bed: AwsBed) -> set[str]:
    cpi = bed.open()
    return {one.cid for kind in DELETION_ORDER for one in cpi.survey(kind, bed.director_uuid).objects}


def _count(found: frozenset[tuple[str, str]]) -> list[str]:
    return sorted(kind for kind, _ in found)


def _vm(bed: AwsBed, lab: Lab) -> Act:
    bed.front.addresses[PUBLIC] = None
    image, group = lab.image(), lab.group(security_groups=[SecurityGroup("web")])
    properties = {**bed.vm_properties("z1"), "ephemeral_disk": {"size": 2048}, "tags": {"team": "a"}}
    networks = {**bed.networks("z1", "127.40.7.7"), "out": {"type": "vip", "ip": PUBLIC}}

    def act(cpi: Cpi, mark: Mark) -> None:
        bed.front.addresses[PUBLIC] = None
        arguments = lab.vm_arguments("z1", group, stemcell_cid=image, mark=mark, member=1)
        cpi.create_vm(**{**arguments, "agent_id": mark.intent, "cloud_properties": properties, "networks": networks})

    return act


def _disk_and_snapshot(bed: AwsBed, lab: Lab) -> Act:
    disk = lab.disk()

    def act(cpi: Cpi, mark: Mark) -> None:
        other = Mark(mark.director, mark.intent[:-1] + "0")
        cpi.create_disk(1024, {}, mark=mark)
        cpi.snapshot_disk(disk, {"index": 0}, mark=other)

    return act


def _changes_of_a_disk(bed: AwsBed, lab: Lab) -> Act:
    vm, disk, sizes = lab.vm(), lab.disk(), itertools.count(2)

    def act(cpi: Cpi, mark: Mark) -> None:
        cpi.attach_disk(vm, disk)
        cpi.set_disk_metadata(disk, {"index": "1"})
        cpi.detach_disk(vm, disk)
        cpi.resize_disk(disk, next(sizes) * 1024)
        cpi.set_vm_metadata(vm, {"index": "1"})
        cpi.reboot_vm(vm)

    return act


def _stemcell(bed: AwsBed, lab: Lab) -> Act:
    path, properties = bed.image()
    return lambda cpi, mark: cpi.create_stemcell(path, properties, mark=mark)


def _copied_stemcell(bed: AwsBed, lab: Lab) -> Act:
    return lambda cpi, mark: cpi.create_stemcell("", {"ami": {"us-east-1": "ami-0a"}}, mark=mark)


def _group(bed: AwsBed, lab: Lab) -> Act:
    wanted = [SecurityGroup("web", ({"ports": "80"},)), SecurityGroup("ssh")]

    def act(cpi: Cpi, mark: Mark) -> None:
        cid = cpi.create_server_group(lab.metadata("anti-affinity", security_groups=wanted), mark=mark)
        cpi.update_server_group(cid, lab.metadata("anti-affinity", security_groups=wanted[:1]))

    return act


def _deletions(bed: AwsBed, lab: Lab) -> Act:
    image = lab.image()

    def act(cpi: Cpi, mark: Mark) -> None:
        made, marks = bed.open(), [Mark(mark.director, f"{mark.intent[:-1]}{n}") for n in range(3)]
        group = made.create_server_group(lab.metadata("anti-affinity"), mark=marks[0])
        arguments = lab.vm_arguments(group=group, stemcell_cid=image, mark=marks[1])
        vm = made.create_vm(**{**arguments, "agent_id": mark.intent, "networks": bed.networks("z1", "127.40.7.8")}).cid
        disk = made.create_disk(1024, {}, mark=marks[2])
        for delete, cid in ((cpi.delete_vm, vm), (cpi.delete_disk, disk), (cpi.delete_server_group, group)):
            delete(cid)

    return act


SUBJECTS: dict[str, tuple[Callable[[AwsBed, Lab], Act], int]] = {
    "vm": (_vm, 8),
    "disk-and-snapshot": (_disk_and_snapshot, 4),
    "changes-of-a-disk": (_changes_of_a_disk, 8),
    "stemcell": (_stemcell, 6),
    "copied-stemcell": (_copied_stemcell, 2),
    "group": (_group, 10),
}
LOST = {
    "vm": {"RunInstances", "AssociateAddress"},
    "disk-and-snapshot": {"CreateVolume", "CreateSnapshot"},
    "stemcell": {"StartSnapshot", "RegisterImage"},
    "copied-stemcell": {"CopyImage"},
    "changes-of-a-disk": {"AttachVolume", "DetachVolume", "ModifyVolume", "CreateTags", "RebootInstances"},
    "group": {"CreatePlacementGroup", "CreateSecurityGroup", "AuthorizeSecurityGroupIngress", "DeleteSecurityGroup"},
}
SHORT = ("vm", "stemcell")  # the others are for the long run


def _marked(names: Any) -> list[Any]:
    return [pytest.param(name, marks=() if name in SHORT else pytest.mark.full) for name in names]


@pytest.mark.parametrize("repeat", [False, True])
@pytest.mark.parametrize("subject", _marked([*SUBJECTS]))
def test_killed_after_any_call(bed: AwsBed, lab: Lab, subject: str, repeat: bool) -> None:
    prepare, least = SUBJECTS[subject]
    assert kill_everywhere(bed, prepare(bed, lab), lab, repeat=repeat) >= least


@pytest.mark.full
def test_killed_in_deletions(bed: AwsBed, lab: Lab) -> None:
    assert kill_everywhere(bed, _deletions(bed, lab), lab) > 6


@pytest.mark.parametrize("subject", _marked(LOST))
def test_any_answer_lost(bed: AwsBed, lab: Lab, subject: str) -> None:
    prepare, _ = SUBJECTS[subject]
    assert lose_everywhere(bed, prepare(bed, lab), lab) >= LOST[subject]
