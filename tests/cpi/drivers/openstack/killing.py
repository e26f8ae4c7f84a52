"""Kills a driver after any of its calls. What is left is repeated under the same mark, or swept by marks.

The points are discovered: an act is run once and its calls are noted; then it dies after each change, and after the
first look of each kind while the cloud works on something; or, in the long matrices, after each single call.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from peers.openstack_bed import OpenstackBed
from peers.openstack_operator import until

from coterie.cpi.contract import Cpi, Expected, Mark
from coterie.cpi.drivers.openstack.client import Client
from coterie.ledger.work import domains

SWEPT = ("vm", "ip", "port", "disk", "snapshot", "disk", "image", "server_group", "security_group", "keypair")
_ID = re.compile(r"[0-9a-f]{8}-?[0-9a-f-]{20,}|c(ot|g)-[0-9a-z-]+|coterie-leaves-.*")
# what the cloud has not done yet when it answers
_SLOW = (
    *("POST compute /servers", "DELETE compute /servers", "PUT image /images"),
    *("POST block-storage /volumes", "POST block-storage /snapshots"),
)
Dies = Callable[[list[str]], bool]
Open = Callable[[], Cpi]


class Killed(BaseException):
    """Nothing in the driver may catch it, as nothing catches SIGKILL."""


@dataclass(frozen=True)
class Deed:
    """`act` is killed, repeated and, once it is through, taken back by `undo`, which gets its answer. `swept`: and at
    each point it is also killed and not repeated."""

    act: Callable[[Cpi, Mark], Any]
    undo: Callable[[Any], Any]
    mark: Callable[[], Mark]
    keep: frozenset[str] = frozenset()
    swept: bool = True


def noting(cpi: Cpi, patch: pytest.MonkeyPatch, dies: Dies) -> list[str]:
    """What this driver was answered, changes numbered; its process dies when `dies` says so."""
    call, kinds = Client._call, list[str]()

    def noted(self: Client, method: str, what: str, service: str, path: str, **more: Any) -> Any:
        answer = call(self, method, what, service, path, **more)
        if self is cpi.client:  # type: ignore[attr-defined] # it is ours
            kind = f"{method} {service} {_ID.sub('*', path)} {sorted(more.get('params') or ())}"
            alike = sum(one.startswith(kind) for one in kinds)
            kinds.append(kind if method == "GET" else f"{kind} #{alike + 1}")
            if dies(kinds):
                raise Killed
        return answer

    patch.setattr(Client, "_call", noted)
    return kinds


def dying_after(cpi: Cpi, calls: int, patch: pytest.MonkeyPatch) -> None:
    """The process dies when this many calls were answered."""
    noting(cpi, patch, lambda kinds: len(kinds) == calls)


def killed_at(open_driver: Open, act: Callable[[Cpi, Mark], Any], dies: Dies, mark: Mark) -> bool:
    """Whether it died; it lives if it makes no such call. What it had submitted to the one writer stays there, and its
    lease as that writer ends by time only."""
    cpi = open_driver()
    with pytest.MonkeyPatch.context() as patch:
        noting(cpi, patch, dies)
        patch.setattr(domains, "withdraw", lambda tx, change: None)
        try:
            act(cpi, mark)
        except Killed:
            return True
    return False


def every_kind(bed: OpenstackBed, deed: Deed) -> int:
    """How many such points there were. After each, a sweep leaves what was there before; and a repeat under the
    same mark makes what an undisturbed run makes."""
    before = bed.inventory()
    kinds, whole = _undisturbed(bed, deed, before)
    points = _kinds_of_points(kinds)
    for kind in points:
        _point(bed, deed, before, whole, _first(kind), kind)
    return len(points)


def every_call(bed: OpenstackBed, deed: Deed) -> int:
    """The same after each single call, until it lives."""
    before = bed.inventory()
    _, whole = _undisturbed(bed, deed, before)
    for calls in itertools.count(1):
        if not _point(bed, deed, before, whole, lambda kinds, n=calls: len(kinds) == n, f"call {calls}"):  # type: ignore[misc]
            return calls
    raise AssertionError("unreachable")


def points_of(open_driver: Open, act: Callable[[Cpi, Mark], Any], mark: Mark) -> Iterator[tuple[str, Dies]]:
    """Each kind of point of an act, which is carried out once to learn them."""
    cpi = open_driver()
    with pytest.MonkeyPatch.context() as patch:
        kinds = noting(cpi, patch, lambda _: False)
        act(cpi, mark)
    yield from ((kind, _first(kind)) for kind in _kinds_of_points(kinds))


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


def settled(bed: OpenstackBed) -> bool:
    """Nova has ended everything that was requested."""
    servers = bed.tenant.get("nova", "/servers/detail")["servers"]
    volumes = bed.tenant.get("cinder", "/volumes/detail")["volumes"]
    busy = [one for one in servers if one["status"] == "BUILD" or one["OS-EXT-STS:task_state"]]
    return not busy and not [
        one for one in volumes if one["status"] in ("creating", "deleting", "attaching", "detaching")
    ]


def _point(bed: OpenstackBed, deed: Deed, before: Any, whole: Any, dies: Dies, where: str) -> bool:
    """Whether there is such a point."""
    if deed.swept:
        died = killed_at(bed.open, deed.act, dies, deed.mark())
        sweep(bed, deed.keep)
        assert bed.inventory() == before, f"killed after {where}, swept: {sorted(bed.inventory() ^ before)}"
        if not died:
            return False
    mark = deed.mark()
    died = killed_at(bed.open, deed.act, dies, mark)
    answer = deed.act(bed.open(), mark)
    assert _shape(bed, before) == whole, f"killed after {where}, repeated"
    deed.undo(answer)
    assert bed.inventory() == before, f"killed after {where}, repeated and undone: {sorted(bed.inventory() ^ before)}"
    return died


def _undisturbed(bed: OpenstackBed, deed: Deed, before: Any) -> tuple[list[str], Any]:
    cpi = bed.open()
    with pytest.MonkeyPatch.context() as patch:
        kinds = noting(cpi, patch, lambda _: False)
        answer = deed.act(cpi, deed.mark())
    whole = _shape(bed, before)
    deed.undo(answer)
    assert bed.inventory() == before
    return kinds, whole


def _kinds_of_points(kinds: list[str]) -> list[str]:
    """A look tells of another state than the change before it only where the cloud goes on by itself."""
    at_work = _since_work(kinds)
    return [kind for kind in dict.fromkeys(kinds) if not kind.startswith("GET ") or kind in at_work]


def _first(kind: str) -> Dies:
    """At the first call of this kind; a look counts only while the cloud is at work."""
    if kind.startswith("GET "):
        return lambda kinds: kinds[-1] == kind and _since_work(kinds).count(kind) == 1
    return lambda kinds: kinds[-1] == kind


def _since_work(kinds: list[str]) -> list[str]:
    return list(itertools.dropwhile(lambda one: not one.startswith(_SLOW), kinds))


def _shape(bed: OpenstackBed, before: Any) -> tuple[Any, ...]:
    """What is there beyond what was before: how many of each kind, and each port with its addresses and its VM."""
    vms = {one["id"] for one in bed.operator.listed("vm")}
    ports = sorted(
        (len(one["fixed_ips"]), one["network_id"], one["device_id"] in vms, len(one["security_groups"]))
        for one in bed.operator.listed("port")
    )
    return Counter(kind for kind, _ in bed.inventory() - before), ports
