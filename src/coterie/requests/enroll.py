"""Takes existing machines under management, if a conductor serves their group and no Director has marked them."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from coterie.errors import Conflict, NotFound, UsageError
from coterie.ids import Ids
from coterie.ledger.rows import clouds, enrolled, events, identity
from coterie.ledger.rows.clouds import CloudRow
from coterie.ledger.rows.events import Event
from coterie.ledger.store import Ledger, Tx, time
from coterie.requests.ask_clouds import ask
from coterie.requests.regroup import require_group
from coterie.ring.members import group_name

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,254}")
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_PATIENCE_S = 30.0


@dataclass(frozen=True, slots=True)
class Enrollment:
    """`name` None: made of the CID. `conductor_group` None: its cloud's."""

    cloud: str
    cid: str
    name: str | None = None
    conductor_group: str | None = None


def enroll(ledger: Ledger, request: Enrollment, by: str | None, ids: Ids | None = None) -> str:
    """The uuid of the new node. The cloud is asked first; a refusal leaves nothing written."""
    name = _name(request)
    own_group = None if request.conductor_group is None else group_name(request.conductor_group)
    with ledger.read() as tx:
        cloud = _admit(tx, request, name, own_group)
        director = identity.director(tx).uuid
    seen = ask(ledger, [(cloud, "machine", {"cid": request.cid})], _PATIENCE_S)[0]
    _refuse_absent_or_marked(request, seen, director)
    uuid = (ids or Ids()).uuid()
    with ledger.write() as tx:
        enrolled.hold(tx, request.cloud)
        _admit(tx, request, name, own_group)
        enrolled.add(tx, uuid, name, cloud=request.cloud, cid=request.cid, group=own_group)
        body = f"VM {request.cid} of cloud {request.cloud}, conductor group {cloud.conductor_group!r}"
        data = {"uuid": uuid, "cid": request.cid, "conductor_group": own_group, "by": by}
        events.append(tx, [Event(None, "node.enrolled", name, body, data)], time(tx))
    return uuid


def _name(request: Enrollment) -> str:
    made = re.sub(r"[^A-Za-z0-9_.-]+", "-", request.cid).strip("-_.")[:255]
    made = f"vm-{made[:252]}" if _UUID.fullmatch(made) else made  # nodes themselves are known by uuids
    name = made if request.name is None else request.name
    if not _NAME.fullmatch(name) or _UUID.fullmatch(name):
        raise UsageError(
            f"name: {name!r} cannot name a node",
            why="it is a uuid, or has other characters than letters, digits, '_', '.' and '-'",
            remedy="give another one: --name NAME, at most 255 characters",
        )
    return name


def _admit(tx: Tx, request: Enrollment, name: str, own_group: str | None) -> CloudRow:
    """The cloud, with the group that the node will have; or why the machine cannot be enrolled."""
    cloud = clouds.get(tx, request.cloud)
    if cloud is None:
        raise unknown_cloud(request.cloud)
    group = cloud.conductor_group if own_group is None else own_group
    require_group(tx, cloud, group)
    cloud = replace(cloud, conductor_group=group)
    user = enrolled.user_of(tx, request.cloud, request.cid)
    if user is not None:
        raise Conflict(f"VM {request.cid} of cloud {request.cloud} is {user} already", remedy="see `coterie nodes`")
    if enrolled.named(tx, name):
        raise enrolled.name_taken(name)
    return cloud


def _refuse_absent_or_marked(request: Enrollment, seen: dict[str, Any], director: str) -> None:
    if not seen["there"]:
        raise NotFound(
            f"cloud {request.cloud} has no VM {request.cid}", remedy="give its id as the cloud writes it: --cid CID"
        )
    if seen["owner"] is None:
        return
    who = "this Director" if seen["owner"] == director else f"the Director {seen['owner']}"
    raise Conflict(
        f"VM {request.cid} carries the mark of {who}",
        why="the Director that made a machine may also clean it up; an enrolled one must be safe from that",
        remedy="leave it to the Director that made it, or remove its mark in the cloud first",
    )


def unknown_cloud(name: str) -> NotFound:
    return NotFound(f"no cloud {name!r}", remedy="list them with `coterie clouds`; set them with `clouds set FILE`")
