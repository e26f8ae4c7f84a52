"""What is: the ledger's rows and the cloud's objects of ours, read once, to be held against each other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from coterie.cpi.drivers.sandbox.account import of_director
from coterie.cpi.kit.marking import DIRECTOR, INTENT
from coterie.ledger.rows import identity
from coterie.ledger.store import Ledger
from coterie.ledger.tables import addresses, events, nodes, objects, server_groups, stages, steps, tasks
from coterie.sandbox import disks, images, security_groups, vm_shape
from coterie.sandbox import server_groups as cloud_groups
from coterie.sandbox.datacenter import Account
from coterie.sandbox.pages import Filter
from tests.kill.foreign import planted
from tests.kill.world import World

Row = Any


@dataclass(frozen=True, slots=True)
class Book:
    """The ledger."""

    director: str
    nodes: list[Row]
    objects: list[Row]
    groups: list[Row]
    addresses: list[Row]
    tasks: list[Row]
    steps: list[Row]
    stages: list[Row]

    def of(self, kind: str, *states: str) -> list[Row]:
        return [row for row in self.objects if row.kind == kind and row.state in states]


@dataclass(frozen=True, slots=True)
class Cloud:
    """What carries our mark in the simulated cloud, and what does not."""

    vms: list[Any]
    disks: list[Any]
    images: list[Any]
    groups: list[Any]
    members: dict[str, set[str]]  # group → VMs
    guards: list[Any]
    guard_names: dict[str, str]  # of all security groups, by id
    foreign: dict[str, Any]


def read_book(ledger: Ledger) -> Book:
    with ledger.read() as tx:
        rows = [tx.execute(sa.select(table)).all() for table in (nodes, objects, server_groups, addresses)]
        work = [tx.execute(sa.select(table).order_by(*table.primary_key)).all() for table in (tasks, steps, stages)]
        return Book(identity.director(tx).uuid, *map(list, rows), *map(list, work))


def read_cloud(world: World, director: str) -> Cloud:
    with world.operator() as account:
        return _read_cloud(account, director)


def _read_cloud(account: Account, director: str) -> Cloud:
    groups = _ours(account, cloud_groups.list_server_groups, director)
    return Cloud(
        vms=_ours(account, vm_shape.list_vms, director),
        disks=_ours(account, disks.list_disks, director),
        images=_ours(account, images.list_images, director),
        groups=groups,
        members={group.id: set(cloud_groups.read_members(account, group.id)) for group in groups},
        guards=_ours(account, security_groups.list_security_groups, director),
        guard_names={guard.id: guard.name for guard in security_groups.list_security_groups(account).items},
        foreign=planted(account, director),
    )


def intent_of(thing: Any) -> str:
    found: str = thing.tags[INTENT]
    return found


def last_events(ledger: Ledger, count: int = 25) -> list[str]:
    with ledger.read() as tx:
        rows = tx.execute(sa.select(events).order_by(events.c.id.desc()).limit(count)).all()
    return [f"  task {row.task} #{row.n} {row.kind} {row.subject}: {row.body}" for row in reversed(rows)]


def _ours(account: Account, listing: Callable[..., Any], director: str) -> list[Any]:
    only: Filter = of_director(director)
    found = list(listing(account, only).items)
    assert all(item.tags[DIRECTOR] == director for item in found)
    return found
