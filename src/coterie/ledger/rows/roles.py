"""The database role of this process: which conductor groups it may work for."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from coterie.ledger.rows.keys import EVERY
from coterie.ledger.store import Tx
from coterie.ledger.tables import conductor_roles


@dataclass(frozen=True, slots=True)
class RoleRow:
    """`groups` None: not limited, as the Director's role. `old`: it has the rights that an earlier release granted."""

    name: str
    groups: frozenset[str] | None = None
    old: bool = False

    def serves(self, group: str | None) -> bool:
        """`group` None: every group."""
        return self.groups is None or EVERY in self.groups or group in self.groups


def own(tx: Tx) -> RoleRow:
    if tx.dialect.name != "postgresql":
        return RoleRow("")
    query = sa.text(
        "SELECT session_user::text, has_table_privilege('tokens', 'SELECT'),"
        " has_table_privilege('conductor_roles', 'SELECT')"
    )
    name, unlimited, granted = tx.execute(query).one()
    if unlimited or not granted:
        return RoleRow(name, old=not unlimited)
    return RoleRow(name, frozenset(tx.execute(sa.select(conductor_roles.c.conductor_group)).scalars()))


def list_old(tx: Tx) -> list[str]:
    """For the Director: roles whose rights an earlier release granted; they see and change the rows of every site."""
    if tx.dialect.name != "postgresql":
        return []
    query = sa.text(
        "SELECT role FROM conductor_roles JOIN pg_roles ON rolname = role"
        " WHERE NOT has_table_privilege(role, 'conductor_roles', 'SELECT') ORDER BY role"
    )
    return list(tx.execute(query).scalars())
