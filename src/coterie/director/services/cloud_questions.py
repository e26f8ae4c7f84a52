"""Questions about a cloud: the conductors of its site answer, with dated facts in the ledger."""

from __future__ import annotations

from typing import Any

from coterie.director.context import AppContext
from coterie.errors import CoterieError, NotFound, Unreachable
from coterie.group.audit import remedy
from coterie.ledger.rows import clouds
from coterie.ledger.rows.clouds import CloudRow
from coterie.ledger.store import time
from coterie.ledger.views.groups import moves_members
from coterie.ledger.views.page import when
from coterie.requests.ask_clouds import ask

_PATIENCE_S = 30.0


def check_cloud(context: AppContext, name: str) -> None:
    """Have a conductor check a cloud now. A refusal is an answer too, and is stored among its facts."""
    row = _cloud(context, name)
    try:
        ask(context.ledger, [(row, "check", {})], _PATIENCE_S)
    except Unreachable:
        raise
    except CoterieError:
        return


def inspect_group(context: AppContext, group: dict[str, Any]) -> dict[str, Any] | None:
    """What the cloud holds under the group's CID now; None when it holds nothing."""
    cid = group["cid"]
    if cid is None or group["state"] in ("gone", "intended"):
        return None
    with context.ledger.read() as tx:
        at = when(time(tx))
    try:
        row = _cloud(context, group["cloud"])
        seen = ask(context.ledger, [(row, "groups", {"cids": [cid]})], _PATIENCE_S)[0]
    except CoterieError as error:
        return {"at": at, "data": None, "error": error.facts()}
    return {"at": at, "data": seen.get(cid), "error": None}


def advice(context: AppContext, group: dict[str, Any], live: dict[str, Any] | None) -> str:
    """The remedy for a group: by what its cloud holds now, or by the ledger if the cloud could not be asked."""
    view = (live or {}).get("data")
    if view is None:
        return str(group["remedy"])
    with context.ledger.read() as tx:
        moves = moves_members(tx, group["cloud"])
    other = view["policy"] != group["policy"]
    found = remedy(view["state"], moves_members=moves, adopted=group["adopted"], other_policy=other)
    return found.replace("NAME", group["name"])


def _cloud(context: AppContext, name: str) -> CloudRow:
    with context.ledger.read() as tx:
        row = clouds.get(tx, name)
    if row is None:
        raise NotFound(f"no cloud {name!r}", remedy="list them with `coterie clouds`; set them with `clouds set FILE`")
    return row
