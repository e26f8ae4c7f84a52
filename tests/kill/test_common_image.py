"""Two deployments with one image are deleted at once, and a conductor is killed around each step that may delete it."""

from __future__ import annotations

import itertools
import json
import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa

from coterie.cpi.drivers.sandbox.storage import Stemcells
from coterie.ids import Ids
from coterie.ledger.rows import identity, stemcells
from coterie.ledger.store import Ledger
from coterie.ledger.tables import tasks
from coterie.requests import start
from coterie.requests.draft import accept_draft, draft_plan
from coterie.requests.request import PlanRequest
from tests.cleanup.leaks import wait
from tests.kill.director import conductor
from tests.kill.nursery import Nursery
from tests.kill.order import Order
from tests.kill.points import Point, first_of_each_kind, read_trace
from tests.kill.scenario import STEMCELLS, Phase, cloud_config, group, manifest
from tests.kill.truth import read_book, read_cloud
from tests.kill.world import World, new_world

NAMES = ("shop", "branch")
_DELETION = f"{Stemcells.delete.__module__.removeprefix('coterie.')}.{Stemcells.delete.__qualname__}"


@pytest.mark.timeout(600)
def test_killed_around_each_step_that_may_delete_it_the_image_goes(
    nursery: Nursery, database: str | None, tmp_path: Path
) -> None:
    begun = new_world(tmp_path / "begun", database)
    _accept_two_deletions(begun)
    copies = (begun.copy(tmp_path / f"run-{n}") for n in itertools.count())
    points = [point for point in first_of_each_kind(_run(nursery, next(copies))) if _is_about_images(point)]
    assert {"commit", "call", "cloud"} == {point.kind.split()[0] for point in points}
    for point in points:
        _run(nursery, next(copies), point)
    begun.destroy()


def _accept_two_deletions(world: World) -> None:
    """As two clients that plan at the same time: each plan has the other deployment as a user of the image."""
    with world.ledger() as ledger:
        identity.ensure_director(ledger, "director", Ids())
        with ledger.write() as tx:
            stemcells.add(tx, *STEMCELLS[0], "image", "sha", {}, ["sandbox"])
        start.set_cloud_config(ledger, cloud_config(), "cloud config")
        worker = conductor(ledger, _order(world))
        worker.start()
        try:
            for name in NAMES:
                text = json.dumps({**manifest(group("web", 1)), "name": name})
                wait(ledger, start.deploy(ledger, PlanRequest(manifest=text), None, None))
            drafts = [draft_plan(ledger, PlanRequest(deployment=name, delete=True)) for name in NAMES]
        finally:
            worker.drain()
        for draft in drafts:
            accept_draft(ledger, draft, "delete", None)


def _run(nursery: Nursery, world: World, target: Point | None = None) -> list[Point]:
    """Kill a conductor at the target, then let another one finish; what the last one passed through."""
    order = _order(world)
    if target is not None:
        assert nursery.run(replace(order, target=target, run=1)) == -signal.SIGKILL, target
    pid = nursery.start(order)
    with world.ledger() as ledger:
        try:
            _wait_for_all(ledger)
        finally:
            os.kill(pid, signal.SIGTERM)
        ended = nursery.wait(pid)  # with nothing left to do, the signal may come before it listens
        assert ended == 0 or (target and ended == -signal.SIGTERM), order.log.read_text()[-2000:]
        book = read_book(ledger)
    assert {row.state for row in book.tasks} == {"done"}, target
    assert [row.state for row in book.objects if row.kind == "image"] == ["gone"], target
    assert read_cloud(world, book.director).images == [], target
    trace = read_trace(order.trace)
    world.destroy()
    return trace


def _order(world: World) -> Order:
    return Order("conductor", world.url, str(world.folder), Phase("none", manifest()))


def _wait_for_all(ledger: Ledger) -> None:
    with ledger.read() as tx:
        found = list(tx.execute(sa.select(tasks.c.id)).scalars())
    for task in found:
        wait(ledger, task)


def _is_about_images(point: Point) -> bool:
    """One step in a commit: with which others a step is committed differs from run to run."""
    if point.kind.startswith("commit "):
        return "stemcell.delete." in point.kind and point.kind.count("→") == 1
    return "delete_stemcell" in point.kind or point.kind == f"cloud {_DELETION}"
