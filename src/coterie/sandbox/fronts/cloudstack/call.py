"""One command: its caller, its parameters, its transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from coterie.sandbox.datacenter import Datacenter
from coterie.sandbox.fronts.cloudstack import configuration
from coterie.sandbox.fronts.cloudstack.definition import Command
from coterie.sandbox.fronts.cloudstack.refusals import refuse
from coterie.sandbox.twist import Tx


@dataclass(frozen=True, slots=True)
class Caller:
    """The account that signed the request."""

    account: str
    admin: bool
    user: str


@dataclass(slots=True)
class Call:
    """`origin`: where this front is reached, for addresses that answers carry. `post`: how the parameters came."""

    datacenter: Datacenter
    tx: Tx
    caller: Caller
    command: Command
    params: dict[str, Any]
    origin: str = ""
    post: bool = True
    after: list[Callable[[], None]] = field(default_factory=list)  # what begins when the transaction is committed

    def get(self, name: str, default: Any = None) -> Any:
        return self.params.get(name, default)

    def flag(self, setting: str) -> bool:
        return configuration.flag(self.tx.db, setting)

    def needs(self, *names: str) -> None:
        """At least one of these parameters."""
        if not any(name in self.params for name in names):
            raise refuse(f"{self.command.name} needs {' or '.join(names)}")

    def scopes(self) -> Iterator[Tx]:
        """The accounts that a list covers: the caller's own, or all if an administrator requests it."""
        if not (self.caller.admin and self.get("listall")):
            yield self.tx
            return
        for row in self.tx.db.execute("SELECT name FROM accounts ORDER BY name").fetchall():
            yield replace(self.tx, account=row[0])
