"""Parts of objects: what was created beside an object under its mark, with the cloud's ids. Rows stay when the part is
gone: then they show that what bears the same mark is a copy."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from coterie.cpi.contract import Kind, Part
from coterie.ledger.statements import run
from coterie.ledger.writes import NOW, Write, insert

if TYPE_CHECKING:
    from coterie.ledger.statements import Tx

LATE_S = 900.0  # longer than any call may take: what a lost call creates is there by then
# The newest intent without an id: the call that asks is the last that began.
_OPEN = (
    "(SELECT max(id) FROM parts"
    " WHERE parts.intent = :intent AND parts.kind = :kind AND parts.name = :name AND parts.cid IS NULL)"
)
_INSERT = "INSERT INTO parts (cloud, intent, kind, name, cid, created_at)"


def begin(cloud: str, intent: str, kind: Kind) -> Write:
    """Of a VM or server group: its parts are recorded, so that without another row it has none. Objects that older
    releases created have no row at all."""
    return insert("parts", cloud=cloud, intent=intent, kind=kind, name="", created_at=NOW)


def intend(tx: Tx, cloud: str, intent: str, kind: Kind, name: str) -> None:
    text = f"{_INSERT} VALUES (:cloud, :intent, :kind, :name, NULL, {{now}})"
    run(tx, text, cloud=cloud, intent=intent, kind=kind, name=name)


def record(tx: Tx, cloud: str, intent: str, kind: Kind, name: str, cid: str) -> None:
    """Give the id to an intent without one; without such an intent, or if it is recorded already, see to one row."""
    same = "SELECT id FROM parts WHERE intent = :intent AND kind = :kind AND cid = :cid LIMIT 1"
    if run(tx, same, intent=intent, kind=kind, cid=cid).fetchone() is not None:
        return
    update = f"UPDATE parts SET cid = :cid WHERE id = {_OPEN}"
    if run(tx, update, intent=intent, kind=kind, name=name, cid=cid).rowcount == 0:
        text = f"{_INSERT} VALUES (:cloud, :intent, :kind, :name, :cid, {{now}})"
        run(tx, text, cloud=cloud, intent=intent, kind=kind, name=name, cid=cid)


def withdraw(tx: Tx, intent: str, kind: Kind, name: str) -> None:
    """Forget one intent without an id."""
    run(tx, f"DELETE FROM parts WHERE id = {_OPEN}", intent=intent, kind=kind, name=name)


def list_of(tx: Tx, intents: Sequence[str]) -> dict[str, list[Part]]:
    """By intent."""
    return _by_intent(tx, "intent IN {values}", values=json.dumps(list(intents)))


def list_of_cloud(tx: Tx, cloud: str) -> dict[str, list[Part]]:
    return _by_intent(tx, "cloud = :cloud", cloud=cloud)


def of_deployment(tx: Tx, deployment: str) -> dict[str, tuple[str, ...]]:
    """Kind and id of what was created with its VMs and server groups, by intent; it may be gone."""
    which = (
        "intent IN (SELECT vm_intent FROM nodes WHERE deployment = :deployment)"
        " OR intent IN (SELECT intent FROM server_groups WHERE deployment = :deployment)"
    )
    found = _by_intent(tx, which, deployment=deployment)
    return {intent: tuple(f"{one.kind} {one.cid}" for one in beside if one.cid) for intent, beside in found.items()}


def _by_intent(tx: Tx, which: str, **values: Any) -> dict[str, list[Part]]:
    """An intent without an id stands for a part that may be there, unless it is old and a later call created the part:
    then the earlier one came to nothing, and what bears the mark beside the later one's part is a copy."""
    text = f"SELECT intent, kind, name, cid, {{now}} - created_at FROM parts WHERE {which} ORDER BY id"
    found: dict[str, list[Part]] = defaultdict(list)
    created_later = set()
    for intent, kind, name, cid, age in reversed(run(tx, text, **values).fetchall()):
        key = (intent, kind, name)
        if cid is not None:
            created_later.add(key)
        elif age > LATE_S and key in created_later:
            continue
        found[intent].insert(0, Part(kind, name, cid, age))
    return dict(found)
