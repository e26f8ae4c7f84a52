"""Questions to a cloud, asked through the conductors of its site; the answers are dated facts in the ledger."""

from __future__ import annotations

from typing import Any

from coterie.director.context import Office
from coterie.errors import CoterieError, NotFound, Unreachable
from coterie.group.remedy import remedy
from coterie.ledger.rows import clouds
from coterie.ledger.rows.clouds import CloudRow
from coterie.ledger.store import time
from coterie.ledger.views.groups import moves_members
from coterie.ledger.views.page import when
from coterie.requests.ask_clouds import ask

_PATIENCE_S = 30.0


def check_cloud(office: Office, name: str) -> None:
    """Have a cloud checked now. That it refuses is an answer too, and stands among its facts."""
    row = _cloud(office, name)
    try:
        ask(office.ledger, [(row, "check", {})], _PATIENCE_S)
    except Unreachable:
        raise
    except CoterieError:
        return


def inspect_group(office: Office, group: dict[str, Any]) -> dict[str, Any] | None:
    """What the cloud holds behind the group's CID now; None when there is nothing to ask for."""
    cid = group["cid"]
    if cid is None or group["state"] in ("gone", "intended"):
        return None
    with office.ledger.read() as tx:
        at = when(time(tx))
    try:
        row = _cloud(office, group["cloud"])
        seen = ask(office.ledger, [(row, "groups", {"cids": [cid]})], _PATIENCE_S)[0]
    except CoterieError as error:
        return {"at": at, "data": None, "error": error.facts()}
    return {"at": at, "data": seen.get(cid), "error": None}


def advice(office: Office, group: dict[str, Any], live: dict[str, Any] | None) -> str:
    """What to do about a group, by what its cloud holds now; if nobody could look, by what the ledger knows."""
    view = (live or {}).get("data")
    if view is None:
        return str(group["remedy"])
    with office.ledger.read() as tx:
        moves = moves_members(tx, group["cloud"])
    other = view["policy"] != group["policy"]
    found = remedy(view["state"], moves_members=moves, adopted=group["adopted"], other_policy=other)
    return found.replace("NAME", group["name"])


def _cloud(office: Office, name: str) -> CloudRow:
    with office.ledger.read() as tx:
        row = clouds.get(tx, name)
    if row is None:
        raise NotFound(f"no cloud {name!r}", remedy="list them with `coterie clouds`; set them with `clouds set FILE`")
    return row
