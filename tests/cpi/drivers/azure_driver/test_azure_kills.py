"""Killed after any of its calls, or cut off from any of its answers, a method leaves nothing that a repeat under its
mark does not finish, and the product's own cleanup does not find.

The points are discovered: a method is run again and again, and dies one call later each time, until it lives.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
from peers.azure_bed import AzureBed
from peers.product_cleanup import clean

from coterie.cpi.conformance.lab import Lab
from coterie.cpi.contract import Cpi, Mark, OutcomeUnknown, SecurityGroup
from coterie.cpi.kit.http_calls import HttpCalls

WEB = SecurityGroup(
    "web", ({"protocol": "tcp", "ports": "80", "cidr": "10.0.0.0/8"}, {"protocol": "tcp", "group": "web"})
)
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


def sweep(bed: AzureBed, keep: set[str]) -> None:
    clean(bed.open(), bed.director_uuid, keep)


def every_kill(bed: AzureBed, act: Act, keep: set[str], mark: Callable[[], Mark], *, repeat: bool) -> int:
    """How many points there were. After each, a repeat finishes, and a sweep leaves what was there before."""
    before = bed.inventory()
    for calls in itertools.count(1):
        cpi, under = bed.open(), mark()
        with pytest.MonkeyPatch.context() as patch:
            dying_after(cpi, calls, patch)
            try:
                act(cpi, under)
                return calls
            except Killed:
                pass
        if repeat:
            act(bed.open(), under)
        sweep(bed, keep)
        left = sorted(bed.inventory() - before)
        assert not left, f"killed after call {calls}, there is still {left}"
    raise AssertionError("unreachable")


def every_lost_answer(bed: AzureBed, act: Act, keep: set[str], mark: Callable[[], Mark]) -> int:
    """Each change is done once without an answer: the call says that it does not know, and a repeat finishes."""
    before, front = bed.inventory(), bed.peer.front
    for number in itertools.count(1):
        left, under, lost = itertools.count(number, -1), mark(), []

        def lose(method: str, path: str, left: Any = left, lost: Any = lost) -> bool:
            if next(left) == 1:
                lost.append((method, path))
            return bool(lost) and lost[-1] == (method, path)

        front.lose = lose
        try:
            act(bed.open(), under)
            if not lost:
                return number - 1
        except OutcomeUnknown:
            front.lose = lambda method, path: False
            act(bed.open(), under)
        finally:
            front.lose = lambda method, path: False
        sweep(bed, keep)
        remaining = sorted(bed.inventory() - before)
        assert not remaining, f"without an answer to {lost}, there is still {remaining}"
    raise AssertionError("unreachable")


@pytest.fixture
def acts(bed: AzureBed, lab: Lab) -> dict[str, Act]:
    group, disk = lab.group(security_groups=[WEB]), lab.disk()
    lab.image()
    properties = {**bed.vm_properties(lab.az), "ephemeral_disk": {"size": 4096}}

    def create_vm(cpi: Cpi, mark: Mark) -> None:
        networks = bed.networks(lab.az, "127.40.7.7")
        cpi.create_vm(**lab.vm_arguments(None, group, cloud_properties=properties, networks=networks, mark=mark))
        sweep(bed, kept)

    def delete_vm(cpi: Cpi, mark: Mark) -> None:
        networks = bed.networks(lab.az, "127.40.7.7")
        arguments = lab.vm_arguments(None, group, cloud_properties=properties, networks=networks, mark=mark)
        lose, bed.peer.front.lose = bed.peer.front.lose, lambda method, path: False
        vm = bed.open().create_vm(**arguments).cid
        bed.open().attach_disk(vm, disk)
        bed.peer.front.lose = lose
        cpi.delete_vm(vm)

    def create_group(cpi: Cpi, mark: Mark) -> None:
        cid = cpi.create_server_group(lab.metadata(security_groups=[SecurityGroup("other", WEB.rules)]), mark=mark)
        cpi.update_server_group(cid, lab.metadata(security_groups=[SecurityGroup("other", ())]))
        cpi.delete_server_group(cid)

    def disks(cpi: Cpi, mark: Mark) -> None:
        made = cpi.create_disk(1024, {}, mark=mark)
        cpi.resize_disk(made, 2048)
        cpi.delete_disk(made)

    def snapshot(cpi: Cpi, mark: Mark) -> None:
        cpi.delete_snapshot(cpi.snapshot_disk(disk, {}, mark=mark))

    def stemcell(cpi: Cpi, mark: Mark) -> None:
        cpi.delete_stemcell(cpi.create_stemcell(*bed.image(), mark=mark))

    kept = {cid for _, cid in bed.inventory()}
    return {
        "create_vm": create_vm,
        "delete_vm": delete_vm,
        "server_group": create_group,
        "disk": disks,
        "snapshot": snapshot,
        "stemcell": stemcell,
    }


LONG = {"server_group": pytest.mark.full}  # a killed writer leaves its domain to the next one only with its lease
NAMES = ["create_vm", "delete_vm", "server_group", "disk", "snapshot", "stemcell"]


@pytest.mark.parametrize("repeat", [False, True])
@pytest.mark.parametrize("name", [pytest.param(name, marks=LONG.get(name, ())) for name in NAMES])
def test_killed_after_each_call(bed: AzureBed, lab: Lab, acts: dict[str, Act], name: str, repeat: bool) -> None:
    kept = {cid for _, cid in bed.inventory()}
    assert every_kill(bed, acts[name], kept, lab.mark, repeat=repeat) > 3


@pytest.mark.parametrize("name", NAMES)
def test_without_each_answer(bed: AzureBed, lab: Lab, acts: dict[str, Act], name: str) -> None:
    kept = {cid for _, cid in bed.inventory()}
    assert every_lost_answer(bed, acts[name], kept, lab.mark) >= 1
