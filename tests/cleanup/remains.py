"""A cloud after a bad week: a deployment given up, lost answers, intents without an object, and things of others.

A process cleans it up, dies at a given point, and another goes on.
"""

from __future__ import annotations

import itertools
import json
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from coterie.conductor.membership import Heartbeat
from coterie.conductor.process import Conductor
from coterie.ids import Ids
from coterie.ledger import writes
from coterie.ledger.rows import groups, identity, nodes, objects, stemcells
from coterie.ledger.store import Ledger, time
from coterie.ledger.tables import nodes as nodes_table
from coterie.ledger.tables import objects as objects_table
from coterie.ledger.tables import server_groups
from coterie.requests import start as work
from coterie.requests.operations import abandon
from coterie.requests.request import PlanRequest
from tests.cleanup.leaks import wait
from tests.cleanup.yard import plant
from tests.kill.nursery import Nursery
from tests.kill.order import Order
from tests.kill.points import Point, commit_of, read_trace
from tests.kill.scenario import CLOUD, STEMCELLS, Phase, cloud_config, group, manifest
from tests.kill.truth import read_book, read_cloud
from tests.kill.world import World, new_world

FOREIGN = 40
LIVING, GIVEN_UP = "alive", "given-up"
_TRIES = 3
_HEARTBEAT = commit_of(Heartbeat._beat)
_DATA = {"policy": "soft-anti-affinity", "server_group": "data"}


class Remains:
    def __init__(self, nursery: Nursery, folder: Path, server: str | None) -> None:
        self._nursery = nursery
        self._folder = folder
        self._numbers = itertools.count()
        self._start = new_world(folder / "start", server)
        with self._start.operator() as account:
            plant(account, FOREIGN)
        self._foreign = read_cloud(self._start, "another").foreign
        with self._start.ledger() as ledger:
            _live_badly(ledger, self._start)

    def points(self) -> list[Point]:
        """Everything that the cleanup passes through, in order; it must end well."""
        world = self._start.copy(self._folder / "recording")
        order = _order(world)
        assert self._nursery.run(order) == 0, order.log.read_text()[-3000:]
        assert self._wrong(world, order) == []
        # A heartbeat is no work of the cleanup, and a quick one ends before the next.
        found = [point for point in read_trace(order.trace) if point.kind != _HEARTBEAT]
        world.destroy()
        return found

    def clean_with_outages(self) -> list[str]:
        """The outages at every use of the ledger that the cleanup's labels made; it must end well."""
        world = self._start.copy(self._folder / "outages")
        order = replace(_order(world), outages=True)
        assert self._nursery.run(order) == 0, order.log.read_text()[-3000:]
        assert self._wrong(world, order) == []
        struck = order.struck.read_text().splitlines()
        with world.ledger() as ledger:
            assert [(task.kind, task.state) for task in read_book(ledger).tasks if task.state != "done"] == []
        world.destroy()
        return struck

    def die_and_go_on(self, point: Point) -> list[str]:
        """What is wrong afterwards. A miss is tried again: threads do not always take the same order."""
        for _ in range(_TRIES):
            world = self._start.copy(self._folder / f"run-{next(self._numbers)}")
            try:
                if self._nursery.run(replace(_order(world), target=point)) != -signal.SIGKILL:
                    continue
                again = replace(_order(world), run=1)
                if self._nursery.run(again) != 0:
                    return [again.log.read_text()[-3000:]]
                return self._wrong(world, again)
            finally:
                world.destroy()
        return [f"{point} was never reached"]

    def _wrong(self, world: World, order: Order) -> list[str]:
        with world.ledger() as ledger:
            book = read_book(ledger)
            with ledger.read() as tx:
                (node,) = nodes.of_deployment(tx, LIVING)
        cloud = read_cloud(world, book.director)
        found: list[str] = json.loads(order.result.read_text())["left"]
        if [vm.id for vm in cloud.vms] != [node.vm_cid] or node.state != "up":
            found.append(f"{node.name} is {node.state} with {node.vm_cid}; the cloud has {cloud.vms}")
        found += [f"left behind: {disk}" for disk in cloud.disks]
        if len(cloud.groups) != 1:
            found.append(f"one server group is needed, these are there: {cloud.groups}")
        found += [
            f"the ledger still has {row.kind} {row.intent} as {row.state}"
            for row in book.objects
            if row.state in ("intended", "unknown", "deleting")
        ]
        if cloud.foreign != self._foreign:
            found.append("objects of others were touched")
        return found


def _order(world: World) -> Order:
    return Order("cleaner", world.url, str(world.folder), Phase("clean", {}, "nothing"))


def _live_badly(ledger: Ledger, world: World) -> None:
    identity.ensure_director(ledger, "director", Ids())
    with ledger.write() as tx:
        for name, version in STEMCELLS:
            stemcells.add(tx, name, version, "image", f"sha-{version}", {}, ["sandbox"])
    conductor = Conductor(ledger, "before", state_folder=world.folder, workers=4)
    conductor.start()
    try:
        _deploy(ledger, LIVING, group("web", 1, placement=_DATA))
        _deploy(ledger, GIVEN_UP, _rich())
    finally:
        conductor.drain()
    abandon(ledger, GIVEN_UP)
    _lose_answers(ledger)
    _intend_in_vain(ledger)


def _rich() -> dict[str, Any]:
    return group("store", 1, persistent_disk=64, placement={"policy": "anti-affinity"}, security_groups=["store"])


def _deploy(ledger: Ledger, name: str, *wanted: dict[str, Any]) -> None:
    text = json.dumps({**manifest(*wanted), "name": name})
    request = PlanRequest(deployment=name, manifest=text, cloud_config=cloud_config())
    wait(ledger, work.deploy(ledger, request, None, "test"))


def _lose_answers(ledger: Ledger) -> None:
    """The ledger as it is when the answers to the creation of the living VM and its group were lost."""
    with ledger.write() as tx:
        (node,) = nodes.of_deployment(tx, LIVING)
        mine = objects_table.c.intent == node.vm_intent
        tx.execute(objects_table.update().where(mine).values(state="unknown", cid=None, doubt_since=time(tx)))
        failing = {"state": "failing", "vm_cid": None, "spec": None, "problem": {"what": "timed out"}}
        tx.execute(nodes_table.update().where(nodes_table.c.uuid == node.uuid).values(**failing))
        shared = server_groups.c.deployment == LIVING
        tx.execute(server_groups.update().where(shared).values(state="intended", cid=None))


def _intend_in_vain(ledger: Ledger) -> None:
    """Rows whose objects were never made."""
    ids = Ids()
    with ledger.write() as tx:
        writes.execute(tx, objects.intend(ids.intent(), "disk", CLOUD, deployment=GIVEN_UP))
        known = sa.select(server_groups.c.metadata).where(server_groups.c.deployment == GIVEN_UP)
        wanted = {**tx.execute(known).scalars().first(), "name": "ghost"}
        groups.add(tx, ids.intent(), wanted, name="ghost", cloud=CLOUD)
