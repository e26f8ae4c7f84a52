"""What the front remembers of each resource beside the datacenter's own rows, in the same file: a document by its id.
Ids are compared without case."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from coterie.sandbox.datacenter import Account

Body = dict[str, Any]
_TABLE = (
    "CREATE TABLE IF NOT EXISTS azure_resources (id TEXT PRIMARY KEY, account TEXT NOT NULL, document TEXT NOT NULL) "
    "WITHOUT ROWID"
)


@dataclass(slots=True)
class Resource:
    """`id`: as it was first written. `body`: what ARM keeps of the request. `state`: its provisioningState. `inner`:
    the id of the datacenter's object. `facts`: what no answer repeats as it is, such as where a VM is."""

    id: str
    type: str
    name: str
    body: Body
    created: float
    state: str = "Succeeded"
    inner: str | None = None
    revision: int = 1
    facts: Body = field(default_factory=dict)

    @property
    def properties(self) -> Body:
        found: Body = self.body.setdefault("properties", {})
        return found

    def show(self) -> Body:
        """What every answer about it has."""
        shown: Body = {"name": self.name, "id": self.id, "type": self.type, "tags": {}, **self.body}
        shown["properties"] = {**self.properties, "provisioningState": self.state}
        return shown


def own(body: Body) -> Body:
    """What a request may set."""
    return {key: one for key, one in body.items() if key not in ("id", "name", "type", "etag")}


class Shelf:
    """Resources of one account, the oldest first. Used under the front's lock."""

    def __init__(self, account: Account) -> None:
        self._account = account
        self._store = account.datacenter.store
        with self._store.writing() as db:
            db.execute(_TABLE)
            rows = db.execute("SELECT document FROM azure_resources WHERE account = ?", (account.name,)).fetchall()
        kept = sorted((Resource(**json.loads(row[0])) for row in rows), key=lambda one: one.created)
        self._known = {one.id.lower(): one for one in kept}

    def get(self, wanted: str) -> Resource | None:
        return self._known.get(wanted.lower())

    def every(self, type_: str, below: str = "") -> Iterator[Resource]:
        """`below`: ids that begin so, such as those of a resource group."""
        start = below.lower()
        return (one for key, one in list(self._known.items()) if one.type == type_ and key.startswith(start))

    def every_one(self) -> list[Resource]:
        return list(self._known.values())

    def put(self, one: Resource) -> None:
        self._known[one.id.lower()] = one
        document = json.dumps(asdict(one))
        with self._store.writing() as db:
            db.execute(
                "INSERT OR REPLACE INTO azure_resources VALUES (?,?,?)", (one.id.lower(), self._account.name, document)
            )

    def drop(self, one: Resource) -> None:
        self._known.pop(one.id.lower(), None)
        with self._store.writing() as db:
            db.execute("DELETE FROM azure_resources WHERE id = ?", (one.id.lower(),))
