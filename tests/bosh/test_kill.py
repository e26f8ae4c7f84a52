"""The program killed at every commit and every change of the cloud; afterwards cleanup leaves nothing of ours.

The points are discovered by a run without a death. A repeat of the call, as a Director makes it, ends well too.
"""

from __future__ import annotations

import shutil
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.bosh.nursery import Nursery, Order
from tests.bosh.program import PATIENCE_S, Shop, result
from tests.kill.points import Point, merge_by_moment, read_trace

_LEASE_S = 0.2
GROUP = "bosh-dep-web"


@dataclass(frozen=True, slots=True)
class World:
    """What was there before the call, and the call."""

    shop: Shop
    request: bytes
    stemcell: str | None

    def copy(self, folder: Path) -> World:
        folder.mkdir()
        for file in self.shop.folder.glob("*.db*"):
            shutil.copy(file, folder)
        shop = Shop(folder, lease_s=_LEASE_S)
        request = self.request.replace(str(self.shop.folder).encode(), str(folder).encode())
        return World(shop, request, self.stemcell)

    def order(self, target: Point | None = None, *, watched: bool = True) -> Order:
        folder = self.shop.folder
        trace = str(folder / "trace") if watched else None
        return Order(str(self.shop.config), self.request.decode(), str(folder / "answer"), trace, target)

    @property
    def kept(self) -> dict[str, list[str]]:
        return {"image": [self.stemcell]} if self.stemcell else {}


def _create_vm(shop: Shop) -> World:
    stemcell = shop.stemcell()
    return World(shop, shop.vm_request("agent-1", stemcell, group=GROUP), stemcell)


def _replace_vm(shop: Shop) -> World:
    """A repeat with other arguments: the first is removed before the second is made."""
    stemcell = shop.stemcell()
    shop.create_vm("agent-1", stemcell, group=GROUP)
    return World(shop, shop.vm_request("agent-1", stemcell, group=GROUP, cpu=2), stemcell)


def _delete_vm(shop: Shop) -> World:
    stemcell = shop.stemcell()
    cid = shop.create_vm("agent-1", stemcell, group=GROUP)
    return World(shop, shop.request("delete_vm", cid), stemcell)


def _begin(shop: Shop) -> None:
    """Cloud and ledger are there already, so that their own beginning is no point to die at."""
    shop.call("has_disk", "none")
    with shop.ledger():
        pass


def _create_disk(shop: Shop) -> World:
    _begin(shop)
    return World(shop, shop.request("create_disk", 1024, {"zone": "z1"}, None, version=1), None)


def _delete_disk(shop: Shop) -> World:
    cid = shop.call("create_disk", 1024, {"zone": "z1"}, None, version=1)
    return World(shop, shop.request("delete_disk", cid), None)


def _create_stemcell(shop: Shop) -> World:
    _begin(shop)
    return World(shop, shop.request("create_stemcell", str(shop.image), {}), None)


WORLDS: dict[str, Callable[[Shop], World]] = {
    "create_vm": _create_vm,
    "replace_vm": _replace_vm,
    "delete_vm": _delete_vm,
    "create_disk": _create_disk,
    "delete_disk": _delete_disk,
    "create_stemcell": _create_stemcell,
}


# By default machines are killed over on CloudStack, where the same commits have more changes of the cloud between them.
LONG = [pytest.param(name, marks=pytest.mark.full) for name in ("create_vm", "replace_vm")]


@pytest.mark.parametrize("name", [*LONG, *sorted(WORLDS.keys() - {"create_vm", "replace_vm"})])
def test_killed_anywhere_cleanup_leaves_nothing(name: str, nursery: Nursery, tmp_path: Path) -> None:
    (tmp_path / "before").mkdir()
    world = WORLDS[name](Shop(tmp_path / "before"))
    points = _points(world, nursery, tmp_path)
    for number, point in enumerate(merge_by_moment(points, points)):
        died = _died(world.copy(tmp_path / f"run-{number}"), point, nursery)
        _sweep(died, point)


def test_killed_over_the_first_opening_of_the_ledger(nursery: Nursery, tmp_path: Path) -> None:
    (tmp_path / "before").mkdir()
    shop = Shop(tmp_path / "before")
    shop.call("has_disk", "none")
    world = World(shop, shop.request("create_stemcell", str(shop.image), {}), None)
    opening = [point for point in _points(world, nursery, tmp_path) if "schema" in point.kind]
    assert {point.side for point in opening} == {"before", "after"}
    for number, point in enumerate(opening):
        died = _died(world.copy(tmp_path / f"run-{number}"), point, nursery)
        _sweep(died, point)


@pytest.mark.parametrize("name", [*LONG, "delete_vm", "delete_disk"])
def test_killed_anywhere_a_repeat_ends_as_if_nothing_had_happened(name: str, nursery: Nursery, tmp_path: Path) -> None:
    (tmp_path / "before").mkdir()
    world = WORLDS[name](Shop(tmp_path / "before"))
    points = _points(world, nursery, tmp_path)
    machines = 0 if name.startswith("delete") else 1
    for number, point in enumerate(merge_by_moment(points, points)):
        died = _died(world.copy(tmp_path / f"run-{number}"), point, nursery)
        assert nursery.run(died.order(watched=False)) == [0]
        answer = result((died.shop.folder / "answer").read_bytes())
        found = died.shop.inventory()
        assert len(found.get("vm", ())) == machines, point
        assert len(found.get("server_group", ())) <= 1, point
        assert "disk" not in found, point
        if machines:
            assert found["vm"] == [answer[0]], point


def _points(world: World, nursery: Nursery, folder: Path) -> list[Point]:
    recorded = world.copy(folder / "recorded")
    assert nursery.run(recorded.order()) == [0]
    result((recorded.shop.folder / "answer").read_bytes())
    # A lease is renewed by the clock, not by the call: that point may not come again.
    points = [point for point in read_trace(Path(recorded.order().trace or "")) if ".renew" not in point.kind]
    kinds = {point.kind.split()[0] for point in points}
    assert kinds == {"commit", "cloud", "answer"}, points
    return points


def _died(world: World, point: Point, nursery: Nursery) -> World:
    statuses = nursery.run(world.order(point))
    assert statuses == [-signal.SIGKILL], f"never reached {point}"
    return world


def _sweep(world: World, point: Point) -> None:
    """The Director knows its stemcell and nothing else. What a dead call holds is free when its lease has ended."""
    known: dict[str, Any] = {"vm": [], "disk": [], "snapshot": [], "image": [], **world.kept}
    until = time.monotonic() + PATIENCE_S
    while world.shop.cleanup_by_list(known) and world.shop.inventory() != world.kept:
        assert time.monotonic() < until, f"killed {point}: {world.shop.inventory()} is left"
        time.sleep(0.05)
