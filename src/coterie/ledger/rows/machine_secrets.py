"""Sealed secrets of machines: a row for each name and conductor group. Specs of nodes and steps hold only the name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import sqlalchemy as sa

from coterie.ledger.store import Tx, insert_or_update, now
from coterie.ledger.tables import deployments, machine_secrets, nodes, schema_floor, tasks

SINCE = "0013"  # the schema that brought them; a release from before it cannot make machines from sealed secrets
_KEEP_S = 86400.0  # what no node was made from is kept for so long after it was wanted, for a VM that is found late


@dataclass(frozen=True, slots=True)
class SecretRow:
    name: str
    conductor_group: str
    deployment: str
    key_id: str
    sealed: str


_ROW = tuple(machine_secrets.c[name] for name in SecretRow.__slots__)


def are_sealed(tx: Tx) -> bool:
    """Whether secrets are stored sealed: since `begin_sealing`."""
    floor: str | None = tx.execute(sa.select(schema_floor.c.oldest)).scalar()
    return floor is not None and floor >= SINCE


def begin_sealing(tx: Tx) -> None:
    """From now on; releases from before it are refused at their start."""
    if not are_sealed(tx):
        tx.execute(schema_floor.update().values(oldest=SINCE))


def of_name(tx: Tx, name: str) -> list[SecretRow]:
    return [SecretRow(*row) for row in tx.execute(sa.select(*_ROW).where(machine_secrets.c.name == name))]


def keys_of(tx: Tx, names: Iterable[str]) -> dict[tuple[str, str], str]:
    """The key that each of these is sealed to, by name and group."""
    columns = (machine_secrets.c.name, machine_secrets.c.conductor_group, machine_secrets.c.key_id)
    rows = tx.execute(sa.select(*columns).where(machine_secrets.c.name.in_(sorted(names))))
    return {(name, group): key_id for name, group, key_id in rows}


def sealed_to(tx: Tx, key_id: str) -> list[str]:
    """Deployments with secrets that are sealed to this key."""
    query = sa.select(machine_secrets.c.deployment).where(machine_secrets.c.key_id == key_id).distinct()
    return sorted(tx.execute(query).scalars())


def names_with_other_keys(tx: Tx, group: str, key_id: str) -> list[str]:
    """Those that are stored for this group, and sealed to another key than this one."""
    mine = sa.and_(machine_secrets.c.conductor_group == group, machine_secrets.c.key_id != key_id)
    return list(tx.execute(sa.select(machine_secrets.c.name).where(mine).order_by(machine_secrets.c.name)).scalars())


def replace_sealed(tx: Tx, name: str, group: str, key_id: str, sealed: str) -> bool:
    """The same content, sealed to another key; False if it was sealed to that one meanwhile, or forgotten."""
    here = machine_secrets.c
    other = sa.and_(here.name == name, here.conductor_group == group, here.key_id != key_id)
    return tx.execute(machine_secrets.update().where(other).values(key_id=key_id, sealed=sealed)).rowcount == 1


def save(tx: Tx, row: SecretRow) -> None:
    key = {"name": row.name, "conductor_group": row.conductor_group}
    values = {"deployment": row.deployment, "key_id": row.key_id, "sealed": row.sealed, "wanted_at": now()}
    insert_or_update(tx, machine_secrets, key, values)


def record_use(tx: Tx, names: Iterable[str]) -> None:
    """A request was accepted that uses these."""
    tx.execute(machine_secrets.update().where(machine_secrets.c.name.in_(sorted(names))).values(wanted_at=now()))


def forget_deployment(tx: Tx, deployment: str) -> None:
    tx.execute(machine_secrets.delete().where(machine_secrets.c.deployment == deployment))


def forget_unused(tx: Tx) -> int:
    """Drop what was replaced: no node was made from it, no task is at work, and nothing wanted it for a day."""
    used = sa.select(nodes.c.spec["secret"].as_string()).where(nodes.c.spec.is_not(None))
    busy = sa.select(tasks.c.deployment).where(tasks.c.state.in_(("running", "cancelling")))
    here = machine_secrets.c
    old = sa.and_(
        here.wanted_at < now() - _KEEP_S,
        here.name.not_in(used.where(nodes.c.spec["secret"].as_string().is_not(None))),
        here.deployment.not_in(busy.where(tasks.c.deployment.is_not(None))),
    )
    lost = here.deployment.not_in(sa.select(deployments.c.name))
    return tx.execute(machine_secrets.delete().where(sa.or_(old, lost))).rowcount
