"""Kills a driver after any of its calls, and sweeps what is left by marks, as cleanup does.

The points are discovered: a method is run again and again, and dies one call later each time, until it lives.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from peers.openstack_bed import OpenstackBed
from peers.openstack_operator import until

from coterie.cpi.contract import Cpi, Expected, Mark
from coterie.cpi.openstack.api import Api

SWEPT = ("vm", "ip", "port", "disk", "snapshot", "disk", "image", "server_group", "security_group", "keypair")


class Killed(BaseException):
    """Nothing in the driver may catch it, as nothing catches SIGKILL."""


def dying_after(cpi: Cpi, calls: int, patch: pytest.MonkeyPatch) -> None:
    """The process dies when this many calls were answered."""
    once, left = Api._once, itertools.count(calls, -1)

    def counted(self: Api, *arguments: Any, **keywords: Any) -> Any:
        answer = once(self, *arguments, **keywords)
        if self is cpi.api and next(left) == 1:  # type: ignore[attr-defined] # it is ours
            raise Killed
        return answer

    patch.setattr(Api, "_once", counted)


def settled(bed: OpenstackBed) -> bool:
    """Nova does nothing any more that it was asked for."""
    servers = bed.tenant.get("nova", "/servers/detail")["servers"]
    volumes = bed.tenant.get("cinder", "/volumes/detail")["volumes"]
    busy = [one for one in servers if one["status"] == "BUILD" or one["OS-EXT-STS:task_state"]]
    return not busy and not [
        one for one in volumes if one["status"] in ("creating", "deleting", "attaching", "detaching")
    ]


def sweep(bed: OpenstackBed, keep: Iterable[str]) -> None:
    """Everything with a mark of ours goes, in the order of dependence."""
    until(lambda: settled(bed))
    cpi = bed.open()
    for kind in SWEPT:
        for one in surveyed(cpi, kind, bed.director_uuid):
            if one.mark and one.cid not in keep:
                cpi.delete_object(kind, one.cid, Expected(one.mark, one.created_at, one.etag))  # type: ignore[arg-type]


def surveyed(cpi: Cpi, kind: Any, director: str) -> list[Any]:
    if kind not in cpi.capabilities().kinds:
        return []
    found, cursor = [], None
    while True:
        page = cpi.survey(kind, director, cursor)
        found += page.objects
        cursor = page.next
        if cursor is None:
            return found


def every_point(
    bed: OpenstackBed, act: Callable[[Cpi, Mark], Any], keep: Iterable[str], mark: Callable[[], Mark]
) -> int:
    """How many points there were; after each, a sweep leaves what was there before."""
    before = bed.inventory()
    for calls in itertools.count(1):
        if not killed_at(bed, act, calls, mark()):
            return calls
        sweep(bed, keep)
        left = sorted(bed.inventory() - before)
        assert not left, f"killed after call {calls}, there is still {left}"
    raise AssertionError("unreachable")


def killed_at(bed: OpenstackBed, act: Callable[[Cpi, Mark], Any], calls: int, mark: Mark) -> bool:
    """Whether it died; it lives if it makes fewer calls."""
    cpi = bed.open()
    with pytest.MonkeyPatch.context() as patch:
        dying_after(cpi, calls, patch)
        try:
            act(cpi, mark)
        except Killed:
            return True
    return False
