"""A deployment that dies at a given point and is never resumed, in a cloud that others use too."""

from __future__ import annotations

import itertools
import json
import signal
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from coterie.cleanup import start
from coterie.cleanup.options import Options
from coterie.conductor.process import Conductor
from coterie.engine.runner import Retry
from coterie.errors import NotFound
from coterie.ids import Ids
from coterie.ledger.rows import clouds, identity
from coterie.ledger.store import Ledger
from coterie.ledger.tables import tasks
from coterie.requests import start as work
from coterie.requests.operations import abandon
from coterie.sandbox import security_groups
from coterie.sandbox.accounts import open_account
from coterie.sandbox.datacenter import open_datacenter
from tests.cleanup.yard import AT_ONCE, plant
from tests.kill.nursery import Nursery
from tests.kill.order import Order
from tests.kill.points import Point, read_trace
from tests.kill.scenario import CLOUD, DEPLOYMENT, OPERATORS_GUARD, cloud_config, phases, zone
from tests.kill.truth import read_book, read_cloud
from tests.kill.world import World, new_world

FOREIGN = 500
_TRIES = 3


class Leaks:
    def __init__(self, nursery: Nursery, folder: Path) -> None:
        self._nursery = nursery
        self._folder = folder
        self._numbers = itertools.count()
        self.start = new_world(folder / "start", None)
        self._plant(self.start)
        self.foreign = read_cloud(self.start, "another").foreign

    def points(self) -> list[Point]:
        """Everything that a deployment passes through, in order."""
        world = self.start.copy(self._folder / "recording")
        order = _order(world)
        assert self._nursery.run(order) == 0, order.log.read_text()[-2000:]
        found = read_trace(order.trace)
        world.destroy()
        return found

    def die_and_clean(self, point: Point) -> list[str]:
        """What is wrong afterwards. A miss is tried again: threads do not always take the same order."""
        for _ in range(_TRIES):
            world = self.start.copy(self._folder / f"run-{next(self._numbers)}")
            try:
                if self._nursery.run(replace(_order(world), target=point)) == -signal.SIGKILL:
                    return self._clean(world)
            finally:
                world.destroy()
        return [f"{point} was never reached"]

    def _clean(self, world: World) -> list[str]:
        with world.ledger() as ledger:
            identity.ensure_director(ledger, "director", Ids())
            try:
                abandon(ledger, DEPLOYMENT)
            except NotFound:
                _configure(ledger)
            conductor = Conductor(ledger, "after", state_folder=world.folder, workers=4, retry=Retry(first_s=0.01))
            conductor.start()
            try:
                story = _sweep(ledger)
            finally:
                conductor.drain()
            book = read_book(ledger)
        cloud = read_cloud(world, book.director)
        found = [
            f"left behind: {what}"
            for name in ("vms", "disks", "images", "groups", "guards")
            for what in getattr(cloud, name)
        ]
        found += [
            f"the ledger still has {row.kind} {row.intent} as {row.state}"
            for row in book.objects
            if row.state != "gone"
        ]
        found += [
            f"the ledger still has group {row.intent} as {row.state}" for row in book.groups if row.state != "gone"
        ]
        if cloud.foreign != self.foreign:
            found.append("objects of others were touched")
        return found + story if found else []

    def _plant(self, world: World) -> None:
        center = open_datacenter(world.folder / "sandbox.db", {"zones": [zone()]})
        account = open_account(center, CLOUD, groups="direct", operator=True)
        security_groups.create_security_group(account, name=OPERATORS_GUARD)
        plant(account, FOREIGN)


def _order(world: World) -> Order:
    create = next(phase for phase in phases() if phase.name == "create")
    return Order("director", world.url, str(world.folder), create)


def _configure(ledger: Ledger) -> None:
    """It died before it had accepted anything: the clouds are not even configured."""
    with ledger.read() as tx:
        known = clouds.config(tx)
    if known is None:
        work.set_cloud_config(ledger, cloud_config(), "cloud config")


def _sweep(ledger: Ledger) -> list[str]:
    options = Options.of_wire(AT_ONCE)
    number, task = start.survey(ledger, options, "test")
    wait(ledger, task)
    plan = start.read_plan(ledger, number)
    wait(ledger, start.apply(ledger, number, plan.id, "test"))
    return [
        json.dumps({name: getattr(item, name) for name in ("action", "kind", "cid", "reason")}) for item in plan.items
    ]


def wait(ledger: Ledger, task: int) -> None:
    give_up = time.monotonic() + 60
    while True:
        with ledger.read() as tx:
            state: Any = tx.execute(sa.select(tasks.c.state).where(tasks.c.id == task)).scalar_one()
        if state not in ("running", "cancelling"):
            return
        assert time.monotonic() < give_up, f"task {task} does not end"
        time.sleep(0.02)  # every commit would wake this, and the process has many
