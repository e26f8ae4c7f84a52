"""A Director is killed around the intent, the creation and the record of a part. It goes on with the same part, and
what people have copied from it stays when the part goes."""

from __future__ import annotations

import itertools
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa

from coterie.ledger.rows.parts import LATE_S
from coterie.ledger.tables import parts
from coterie.sandbox import security_groups
from tests.kill.foreign import plant
from tests.kill.nursery import Nursery
from tests.kill.order import Order
from tests.kill.points import Point, first_of_each_kind, read_trace
from tests.kill.scenario import phases
from tests.kill.truth import read_book, read_cloud
from tests.kill.world import World, new_world

CREATE, DELETE = (next(phase for phase in phases() if phase.name == name) for name in ("create", "delete"))
MOMENTS = {
    "commit engine.part_records.LedgerPartRecords.intend",
    "cloud cpi.drivers.sandbox.security_groups.SecurityGroups._create.<locals>.create",
    "commit engine.part_records.LedgerPartRecords.record",
}


@pytest.mark.timeout(600)
def test_killed_around_each_change_a_part_is_found_again_and_copies_of_it_stay(
    nursery: Nursery, database: str | None, tmp_path: Path
) -> None:
    begun = new_world(tmp_path / "begun", database)
    with begun.operator() as account:
        plant(account)
    copies = (begun.copy(tmp_path / f"run-{n}") for n in itertools.count())
    with _of(copies) as world:
        order = _order(world)
        assert nursery.run(order) == 0, order.log.read_text()[-2000:]
        points = [point for point in first_of_each_kind(read_trace(order.trace)) if point.kind in MOMENTS]
    assert {point.kind for point in points} == MOMENTS
    for point in points:
        with _of(copies) as world:
            _kill_copy_and_delete(nursery, world, point)
    begun.destroy()


def _kill_copy_and_delete(nursery: Nursery, world: World, point: Point) -> None:
    assert nursery.run(replace(_order(world), target=point, run=1)) == -signal.SIGKILL, point
    theirs = _copy_all(world, suffix="-copy")
    finish = replace(_order(world), run=2)
    assert nursery.run(finish) == 0, (point, finish.log.read_text()[-2000:])
    with world.ledger() as ledger, ledger.write() as tx:
        tx.execute(sa.update(parts).values(created_at=parts.c.created_at - LATE_S - 1))
    theirs |= _copy_all(world)
    with world.ledger() as ledger:
        newest = max(task.id for task in read_book(ledger).tasks)
    delete = replace(_order(world), phase=DELETE, since=newest, run=3)
    assert nursery.run(delete) == 0, (point, delete.log.read_text()[-2000:])
    with world.ledger() as ledger:
        cloud = read_cloud(world, read_book(ledger).director)
    assert {guard.id for guard in cloud.guards} == theirs, point
    assert (cloud.groups, cloud.vms, cloud.images) == ([], [], []), point


def _copy_all(world: World, suffix: str = "") -> set[str]:
    """What a person has who copies each security group with all its tags."""
    with world.ledger() as ledger:
        ours = [one for one in read_cloud(world, read_book(ledger).director).guards if not one.name.endswith("-copy")]
    with world.operator() as account:
        return {
            security_groups.create_security_group(account, name=one.name + suffix, tags=one.tags).id for one in ours
        }


def _order(world: World) -> Order:
    return Order("director", world.url, str(world.folder), CREATE)


@contextmanager
def _of(copies: Iterator[World]) -> Iterator[World]:
    """The next world, until the block ends."""
    world = next(copies)
    try:
        yield world
    finally:
        world.destroy()
