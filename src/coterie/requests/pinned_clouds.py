"""Which account a cloud is: a new configuration of a cloud with objects must lead to the same one."""

from __future__ import annotations

from collections.abc import Mapping

from coterie.errors import CoterieError, NotFound
from coterie.ledger.rows import alarms, clouds, events, pins
from coterie.ledger.rows.clouds import CloudRow
from coterie.ledger.rows.events import Event
from coterie.ledger.rows.pins import CloudMoved
from coterie.ledger.store import Ledger, time
from coterie.ledger.work import conductors
from coterie.requests.ask_clouds import ask

_PATIENCE_S = 20.0


def refuse_moved_clouds(ledger: Ledger, wanted: Mapping[str, CloudRow]) -> None:
    """Raises CloudMoved. A cloud that cannot be asked now is let through: its conductors compare before each change."""
    with ledger.read() as tx:
        present, pinned, fleet = clouds.all_clouds(tx), pins.all_pins(tx), conductors.living(tx)
        changed = [row for name, row in wanted.items() if present.get(name) != row]
        changed = [row for row in changed if pins.holds_objects(tx, row.name)]
    for row in changed:
        _refuse_other_driver(present.get(row.name), row)
    for row in changed:
        if row.name not in pinned:
            continue
        try:
            fleet.require(row.conductor_group, row.driver)
            (answer,) = ask(ledger, [(row, "identity", {})], _PATIENCE_S)
        except CoterieError:
            continue
        with ledger.read() as tx:
            moved = pins.conflict(tx, row.name, answer["identity"])
        if moved is not None:
            raise moved


def _refuse_other_driver(before: CloudRow | None, row: CloudRow) -> None:
    if before is not None and before.driver != row.driver:
        raise CloudMoved(
            f"cloud {row.name} cannot get the driver {row.driver} while the ledger has objects in it",
            why=f"they were made by the driver {before.driver}",
            remedy=f"give the other cloud a name of its own, or first delete what is in {row.name}",
            details={"cloud": row.name, "driver": before.driver, "wanted": row.driver},
        )


def repin(ledger: Ledger, cloud: str, identity: str, by: str | None) -> None:
    """Everything of ours in this cloud is in another account now, under the same ids."""
    with ledger.write() as tx:
        _require(clouds.get(tx, cloud), cloud)
        before = pins.get(tx, cloud)
        pins.pin(tx, cloud, identity)
        body = f"pinned to {identity}, before to {before or 'nothing'}"
        data = {"identity": identity, "before": before, "by": by}
        events.append(tx, [Event(None, "cloud.repinned", cloud, body, data)], time(tx))


def accept(ledger: Ledger, cloud: str, by: str | None) -> list[str]:
    """An operator takes the cloud as it is: the kinds of the alarms that end with that."""
    with ledger.write() as tx:
        _require(clouds.get(tx, cloud), cloud)
        ended = alarms.end_all(tx, cloud)
        if ended:
            body = f"{' and '.join(ended)}: its state is taken as it is"
            events.append(tx, [Event(None, "cloud.accepted", cloud, body, {"alarms": ended, "by": by})], time(tx))
        return ended


def _require(row: CloudRow | None, cloud: str) -> None:
    if row is None:
        raise NotFound(f"no cloud {cloud!r}", remedy="list them with `coterie clouds`")
