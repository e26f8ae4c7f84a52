"""Moves nodes and clouds to another conductor group, and the steps that wait; refused where no conductor serves it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from coterie.errors import NotFound
from coterie.ledger import writes
from coterie.ledger.rows import clouds, events, nodes
from coterie.ledger.rows.clouds import CloudRow
from coterie.ledger.rows.events import Event
from coterie.ledger.store import Ledger, Tx, time
from coterie.ledger.work import conductors, steps
from coterie.ring.members import fold, group_name


def move_node(ledger: Ledger, uuid: str, group: str | None, permit: Callable[[Tx], None] = lambda tx: None) -> None:
    """`group` None: its cloud's again. Where it comes from does not matter: out of an empty group works.

    `permit` is asked inside the transaction that moves it: it raises, or not.
    """
    wanted = None if group is None else group_name(group)
    with ledger.write() as tx:
        permit(tx)
        node = nodes.get(tx, uuid)
        cloud = clouds.get(tx, node.cloud) if node else None
        if node is None or cloud is None:
            raise NotFound(f"no node {uuid!r} in a configured cloud", remedy="list them with `coterie nodes`")
        target = cloud.conductor_group if wanted is None else wanted
        conductors.living(tx).require(target, cloud.driver)
        writes.execute(tx, nodes.set_conductor_group(uuid, wanted))
        steps.regroup_node(tx, uuid, fold(target))
        body = f"conductor group {target!r}" if wanted is not None else f"conductor group {target!r}, its cloud's"
        events.append(
            tx, [Event(None, "node.moved", node.name, body, {"uuid": uuid, "conductor_group": wanted})], time(tx)
        )


def move_clouds(tx: Tx, wanted: Mapping[str, CloudRow]) -> None:
    """Before a cloud config comes into force: a cloud with nodes may only go to a group that serves its driver."""
    present = clouds.all_clouds(tx)
    for name, cloud in wanted.items():
        before = present.get(name)
        if before is None or before.conductor_group == cloud.conductor_group:
            continue
        if nodes.of_cloud(tx, name):
            conductors.living(tx).require(cloud.conductor_group, cloud.driver)
        steps.regroup_cloud(tx, name, cloud.conductor_group)
        body = f"conductor group {cloud.conductor_group!r}, before {before.conductor_group!r}"
        data = {"conductor_group": cloud.conductor_group}
        events.append(tx, [Event(None, "cloud.moved", name, body, data)], time(tx))
