"""What the front keeps of each resource, in the datacenter's file: a document by its path below the project."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from coterie.sandbox.datacenter import Account

Row = dict[str, Any]
_TABLE = (
    "CREATE TABLE IF NOT EXISTS gcp_resources (account TEXT, path TEXT, document TEXT, PRIMARY KEY (account, path))"
)


@dataclass(slots=True)
class Resource:
    """`path` like zones/z1/disks/a. `row`: as the API shows it. `inner`: the id of the datacenter's object. `facts`:
    what no answer shows."""

    path: str
    row: Row
    created: float
    inner: str | None = None
    facts: Row = field(default_factory=dict)

    @property
    def kind(self) -> str:
        return self.path.split("/")[-2]

    @property
    def name(self) -> str:
        return self.path.rsplit("/", 1)[-1]

    @property
    def scope(self) -> str:
        """Like zones/z1, or global."""
        return "/".join(self.path.split("/")[:-2])


class Shelf:
    """Used under the front's lock; the oldest come first."""

    def __init__(self, account: Account) -> None:
        self._account = account.name
        self._store = account.datacenter.store
        with self._store.writing() as db:
            db.execute(_TABLE)
            rows = db.execute("SELECT document FROM gcp_resources WHERE account = ?", (self._account,)).fetchall()
        kept = sorted((Resource(**json.loads(row[0])) for row in rows), key=lambda one: one.created)
        self._known = {one.path: one for one in kept}

    def get(self, path: str) -> Resource | None:
        return self._known.get(path)

    def every(self, kind: str) -> Iterator[Resource]:
        return (one for one in list(self._known.values()) if one.kind == kind)

    def every_one(self) -> list[Resource]:
        return list(self._known.values())

    def put(self, one: Resource) -> None:
        self._known[one.path] = one
        values = self._account, one.path, json.dumps(asdict(one))
        with self._store.writing() as db:
            db.execute("INSERT OR REPLACE INTO gcp_resources VALUES (?,?,?)", values)

    def drop(self, one: Resource) -> None:
        self._known.pop(one.path, None)
        with self._store.writing() as db:
            db.execute("DELETE FROM gcp_resources WHERE account = ? AND path = ?", (self._account, one.path))
