"""Tags on resources: a key that is there already fails, and so does an empty value. Affinity groups take none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from coterie.sandbox import tags as tagging
from coterie.sandbox.fronts.cloudstack import entities, places, shelf
from coterie.sandbox.fronts.cloudstack.call import Call
from coterie.sandbox.fronts.cloudstack.command_table import answers, job
from coterie.sandbox.fronts.cloudstack.listing import Row
from coterie.sandbox.fronts.cloudstack.refusals import INTERNAL, ApiError, refuse
from coterie.sandbox.twist import Tx

# resource type → kind of thing here, kind in the datacenter
TYPES = {
    "uservm": ("UserVm", "vm", "vm"),
    "volume": ("Volume", "volume", "disk"),
    "snapshot": ("Snapshot", "snapshot", "snapshot"),
    "template": ("Template", "template", "image"),
    "network": ("Network", "network", "network"),
    "securitygroup": ("SecurityGroup", "securitygroup", "security_group"),
    "publicipaddress": ("PublicIpAddress", "publicip", ""),
}
_LONGEST = 255


def _begin(call: Call) -> str:
    _check_type(call)
    for wanted in call.params["resourceids"]:
        if not entities.is_known(call.tx, _kind(call), wanted):
            raise refuse(f"Unable to find resource by id {wanted} and type {call.params['resourcetype']}")
    for entry in call.get("tags") or ():
        if not entry.get("key") or (call.command.name == "createTags" and not entry.get("value")):
            raise refuse("tag key and value can't be empty")
        if max(len(str(entry["key"])), len(str(entry.get("value") or ""))) > _LONGEST:
            raise refuse(f"tag keys and values have at most {_LONGEST} characters")
    return str(call.params["resourceids"][0])


@job("createTags", begin=_begin)
def create(call: Call, wanted: str) -> None:
    added = {str(entry["key"]): str(entry["value"]) for entry in call.params["tags"]}
    for one in call.params["resourceids"]:
        taken = set(_read(call.tx, _kind(call), one)) & set(added)
        if taken:
            raise ApiError(INTERNAL, f"tag {min(taken)} already on {call.params['resourcetype']} {one}")
        _write(call, one, dict(added))


@job("deleteTags", begin=_begin)
def delete(call: Call, wanted: str) -> None:
    """The named ones, or all of them."""
    for one in call.params["resourceids"]:
        has = _read(call.tx, _kind(call), one)
        gone = [entry["key"] for entry in call.get("tags") or ()] or list(has)
        if not set(gone) & set(has):
            raise refuse(f"Unable to find any tags which match the input on {one}")
        _write(call, one, dict.fromkeys(gone))


@answers("listTags")
def list_tags(call: Call) -> Iterator[Row]:
    for word, kind, inner in TYPES.values():
        if call.get("resourcetype", word).lower() != word.lower() or not inner:
            continue
        for row in _rows(call.tx, inner, call.get("resourceid"), kind):
            if call.get("key", row["key"]) == row["key"] and call.get("value", row["value"]) == row["value"]:
                yield {**row, "resourcetype": word, **places.owner_words(call.tx.account)}


def _rows(tx: Tx, inner: str, only: str | None, kind: str) -> Iterator[Row]:
    found = tx.db.execute(
        "SELECT o.id, t.key, t.value FROM tags t JOIN objects o ON o.seq = t.object WHERE t.scope = ? "
        "AND o.id = coalesce(?, o.id) ORDER BY o.seq, t.key",
        (tagging.scope(tx.account, inner), entities.inner_id(kind, only) if only else None),
    )
    for object_id, key, value in found.fetchall():
        yield {"resourceid": entities.outer_id(object_id), "key": key, "value": value}


def _check_type(call: Call) -> None:
    if call.params["resourcetype"].lower() not in TYPES:
        raise refuse(f"Unable to tag resources of type {call.params['resourcetype']}")


def _kind(call: Call) -> str:
    return TYPES[call.params["resourcetype"].lower()][1]


def _read(tx: Tx, kind: str, wanted: str) -> dict[str, str]:
    if kind == "publicip":
        return dict(shelf.doc_of(tx.db, wanted).get("tags") or {})
    rows = tx.db.execute(
        "SELECT key, value FROM tags WHERE object = (SELECT seq FROM objects WHERE id = ?)",
        (entities.inner_id(kind, wanted),),
    )
    return dict(rows.fetchall())


def _write(call: Call, wanted: str, changes: Mapping[str, str | None]) -> None:
    kind = _kind(call)
    if kind == "publicip":
        kept = {**_read(call.tx, kind, wanted), **changes}
        shelf.note(call.tx, wanted, tags={key: value for key, value in kept.items() if value is not None})
        return
    inner = TYPES[call.params["resourcetype"].lower()][2]
    row = call.tx.db.execute("SELECT seq FROM objects WHERE id = ?", (entities.inner_id(kind, wanted),)).fetchone()
    if row is None:
        raise refuse(f"Unable to find resource by id {wanted}")
    tagging.change(call.tx, row[0], inner, changes)
