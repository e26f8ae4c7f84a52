"""The row behind every mark, the moves of its life from the intent on, and what `coterie-cpi` reads of it.

Each move is a `Write`: steps collect them for their commit, other callers execute them at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coterie.cpi.contract import Kind
from coterie.ledger.statements import document, run
from coterie.ledger.writes import NOW, Write, insert, update
from coterie.slotted import dataclass

if TYPE_CHECKING:
    from coterie.ledger.statements import Tx

OPEN = ("intended", "live", "unknown", "kept", "deleting")  # everything that may be in the cloud


@dataclass(frozen=True, slots=True)
class ObjectRow:
    """`director`: the uuid of a BOSH caller; None for what our own Director makes."""

    intent: str
    kind: Kind
    cloud: str
    az: str | None
    state: str
    cid: str | None
    deployment: str | None
    node: str | None
    ref: str | None
    size_mb: int
    properties: dict[str, Any] | None
    doubt_since: float | None
    director: str | None
    server_group: str | None
    created_at: float

    @property
    def may_exist(self) -> bool:
        """Whether it may be in the cloud."""
        return self.state in OPEN

    @property
    def is_undelivered(self) -> bool:
        """Whether its caller has not received the id, as far as is known."""
        return bool((self.properties or {}).get(UNDELIVERED))


UNDELIVERED = "undelivered"  # a note among the properties: the caller has not received the answer of the create

_SELECT = f"SELECT {', '.join(ObjectRow.__slots__)} FROM objects WHERE"
_OPEN = f"state IN ({', '.join(map(repr, OPEN))})"


def get(tx: Tx, intent: str) -> ObjectRow | None:
    return next(iter(_rows(tx, "intent = :intent", intent=intent)), None)


# -- objects of BOSH callers, each with the caller's uuid --


def of_agent(tx: Tx, cloud: str, director: str, agent_id: str) -> list[ObjectRow]:
    """Every VM that was ever begun for this agent, oldest first."""
    which = "kind = 'vm' AND cloud = :cloud AND director = :director AND ref = :ref ORDER BY created_at, intent"
    return _rows(tx, which, cloud=cloud, director=director, ref=agent_id)


def by_cid(tx: Tx, kind: Kind, cloud: str, director: str, cid: str) -> ObjectRow | None:
    return next((row for row in all_by_cid(tx, kind, cloud, cid) if row.director == director), None)


def all_by_cid(tx: Tx, kind: Kind, cloud: str, cid: str) -> list[ObjectRow]:
    """What is known by this id and may be in the cloud, whichever Director created it."""
    which = f"cid = :cid AND kind = :kind AND cloud = :cloud AND {_OPEN}"
    return _rows(tx, which, cid=cid, kind=kind, cloud=cloud)


def of_caller(tx: Tx, cloud: str, director: str) -> list[ObjectRow]:
    """Everything that was ever begun for this caller in this cloud."""
    return _rows(tx, "cloud = :cloud AND director = :director", cloud=cloud, director=director)


def list_undelivered_vms(tx: Tx, cloud: str, director: str) -> list[ObjectRow]:
    """Those that may be in the cloud, although their caller never received the id."""
    which = (
        f"kind = 'vm' AND cloud = :cloud AND director = :director AND {_OPEN} AND CAST(properties AS TEXT) LIKE :noted"
    )
    rows = _rows(tx, which, cloud=cloud, director=director, noted=f'%"{UNDELIVERED}"%')
    return [row for row in rows if row.is_undelivered]


def members(tx: Tx, group_cid: str) -> set[str]:
    """Intents of VMs made for this group that may be in the cloud."""
    text = f"SELECT intent FROM objects WHERE server_group = :cid AND kind = 'vm' AND {_OPEN}"
    return {intent for (intent,) in run(tx, text, cid=group_cid).fetchall()}


def _rows(tx: Tx, which: str, **values: Any) -> list[ObjectRow]:
    rows = run(tx, f"{_SELECT} {which}", **values).fetchall()
    named = (dict(zip(ObjectRow.__slots__, row, strict=True)) for row in rows)
    return [ObjectRow(**{**row, "properties": document(row["properties"])}) for row in named]


# -- the moves of a life; an intent is always committed before the cloud is called --


def intend(
    intent: str,
    kind: Kind,
    cloud: str,
    *,
    az: str | None = None,
    deployment: str | None = None,
    node: str | None = None,
    ref: str | None = None,
    size_mb: int = 0,
    properties: dict[str, Any] | None = None,
    director: str | None = None,
    server_group: str | None = None,
) -> Write:
    return insert(
        "objects",
        intent=intent,
        kind=kind,
        cloud=cloud,
        az=az,
        state="intended",
        deployment=deployment,
        node=node,
        ref=ref,
        size_mb=size_mb,
        properties=properties,
        director=director,
        server_group=server_group,
        created_at=NOW,
    )


def record_created(intent: str, cid: str, properties: dict[str, Any] | None = None) -> Write:
    """It is in the cloud, under this id. Without `properties` those of the intent stay."""
    more = {} if properties is None else {"properties": properties}
    return _change(intent, state="live", cid=cid, doubt_since=None, **more)


def record_delivered(row: ObjectRow) -> Write:
    """The caller has the id."""
    notes = {key: value for key, value in (row.properties or {}).items() if key != UNDELIVERED}
    return _change(row.intent, properties=notes)


def record_unknown(intent: str, since: float | None = None) -> Write:
    """The answer of the cloud was lost. `since`: an earlier loss from which the settle time goes on counting."""
    return _change(intent, state="unknown", doubt_since=NOW if since is None else since)


def begin_delete(intent: str, cid: str) -> Write:
    return _change(intent, state="deleting", cid=cid)


def end_delete(intent: str, state: str) -> Write:
    """The deletion certainly did not happen: back to the state before it."""
    return _change(intent, state=state)


def record_gone(intent: str, *, tombstone: bool = False) -> Write:
    """`tombstone`: nothing was ever seen under this mark; an object that comes later is an orphan."""
    return _change(intent, state="gone", tombstone=tombstone, ended_at=NOW, late_at=None)


def give_up(intent: str) -> Write:
    """Nothing was found under this mark. If the object comes, or was noted already, it came late."""
    return _change(intent, state="gone", tombstone=True, ended_at=NOW)


def record_late(intent: str, cid: str) -> Write:
    """The creation was given up, and all the same the object is there."""
    return _change(intent, cid=cid, late_at=NOW)


def keep(intent: str) -> Write:
    """No node has it any more, and it stays in the cloud."""
    return _change(intent, state="kept", node=None)


def begin_replace(intent: str) -> Write:
    """Its node has another disk by the ledger, and this one is attached to its VM until it is kept."""
    return _change(intent, state="kept")


def keep_for_undo(intent: str, cid: str) -> Write:
    """The same for an object that a cleanup found; its row may have ended before."""
    return _change(intent, state="kept", node=None, cid=cid, tombstone=False, ended_at=None, late_at=None)


def record_size(intent: str, size_mb: int) -> Write:
    return _change(intent, size_mb=size_mb)


def record_disk_update(intent: str, cid: str, size_mb: int, properties: dict[str, Any]) -> Write:
    """Some clouds answer an update with another disk: it goes on under the same intent."""
    return _change(intent, cid=cid, size_mb=size_mb, properties=properties)


def _change(intent: str, **values: Any) -> Write:
    return update("objects", {"intent": intent}, **values)
