"""Takes existing machines under management, and lets go of them again; only `destroy` ends a machine."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from coterie.errors import Conflict, NotFound, UsageError
from coterie.ids import Ids
from coterie.ledger import clouds, conductors, enrolled, events, identity, nodes, tasks, writes
from coterie.ledger.clouds import CloudRow
from coterie.ledger.events import Event
from coterie.ledger.nodes import NodeRow
from coterie.ledger.store import Ledger, Tx, time
from coterie.ledger.tasks import NewStage, NewStep, NewTask
from coterie.ring.members import group_name
from coterie.task.refresh import ask

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


def enroll(ledger: Ledger, wish: Enrollment, by: str | None, ids: Ids | None = None) -> str:
    """The uuid of the new node. The cloud is asked first; a refusal leaves nothing written."""
    name = _name(wish)
    own_group = None if wish.conductor_group is None else group_name(wish.conductor_group)
    with ledger.read() as tx:
        cloud = _admit(tx, wish, name, own_group)
        director = identity.director(tx).uuid
    question = {"cid": wish.cid, "director": director}
    seen = ask(ledger, [(cloud, "machine", question)], _PATIENCE_S)[0]
    _refuse_marked(wish, seen, director)
    uuid = (ids or Ids()).uuid()
    with ledger.write() as tx:
        enrolled.hold(tx, wish.cloud)
        _admit(tx, wish, name, own_group)
        state = "up" if seen["state"] in (None, "running", "unknown") else "dead"
        values = {"cloud": wish.cloud, "cid": wish.cid, "state": state, "host": seen["host"]}
        enrolled.add(tx, uuid, name, group=own_group, **values)
        body = f"VM {wish.cid} of cloud {wish.cloud}, conductor group {cloud.conductor_group!r}"
        data = {"uuid": uuid, "cid": wish.cid, "conductor_group": own_group, "by": by}
        events.append(tx, [Event(None, "node.enrolled", name, body, data)], time(tx))
    return uuid


def forget(ledger: Ledger, uuid: str, by: str | None) -> None:
    """The machine stays as it is, and is nobody's business here any more."""
    with ledger.write() as tx:
        node = _free(tx, uuid)
        writes.apply(tx, nodes.forget(uuid), time(tx))
        body = f"VM {node.vm_cid} of cloud {node.cloud} is left as it is"
        events.append(tx, [Event(None, "node.forgotten", node.name, body, {"uuid": uuid, "by": by})], time(tx))


def destroy(ledger: Ledger, uuid: str, by: str | None) -> int:
    """Delete the machine itself; the task that does it, and forgets the node at its end."""
    with ledger.write() as tx:
        node = _free(tx, uuid)
        cloud = clouds.get(tx, node.cloud)
        if cloud is None:
            raise _unknown_cloud(node.cloud)
        group = cloud.conductor_group if node.conductor_group is None else node.conductor_group
        conductors.living(tx).require(group, cloud.driver)
        writes.apply(tx, [nodes.change(uuid, state="deleting", problem=None)], time(tx))
        data = {"cid": node.vm_cid}
        step = NewStep("node.destroy", "begin", node.name, data, uuid, node.cloud, cloud.driver, group)
        opening = f"VM {node.vm_cid} of cloud {node.cloud}"
        return tasks.create(
            tx, NewTask("destroy-node", None, [NewStage("destroy", [step])], requested_by=by, opening=opening)
        )


def _name(wish: Enrollment) -> str:
    made = re.sub(r"[^A-Za-z0-9_.-]+", "-", wish.cid).strip("-_.")[:255]
    name = made if wish.name is None else wish.name
    if not _NAME.fullmatch(name) or _UUID.fullmatch(name):
        raise UsageError(
            f"name: {name!r} cannot name a node",
            why="it is a uuid, or has other characters than letters, digits, '_', '.' and '-'",
            remedy="give another one: --name NAME, at most 255 characters",
        )
    return name


def _admit(tx: Tx, wish: Enrollment, name: str, own_group: str | None) -> CloudRow:
    """The cloud, with the group that the node will have; or why the machine cannot be enrolled."""
    cloud = clouds.get(tx, wish.cloud)
    if cloud is None:
        raise _unknown_cloud(wish.cloud)
    if own_group is not None:
        cloud = replace(cloud, conductor_group=own_group)
    conductors.living(tx).require(cloud.conductor_group, cloud.driver)
    user = enrolled.user_of(tx, wish.cloud, wish.cid)
    if user is not None:
        raise Conflict(f"VM {wish.cid} of cloud {wish.cloud} is {user} already", remedy="see `coterie nodes`")
    if enrolled.named(tx, name):
        raise Conflict(f"there is an enrolled node {name} already", remedy="give another name: --name NAME")
    return cloud


def _refuse_marked(wish: Enrollment, seen: dict[str, Any], director: str) -> None:
    if not seen["there"]:
        raise NotFound(
            f"cloud {wish.cloud} has no VM {wish.cid}", remedy="give its id as the cloud writes it: --cid CID"
        )
    if seen["owner"] is None:
        return
    who = "this Director" if seen["owner"] == director else f"the Director {seen['owner']}"
    raise Conflict(
        f"VM {wish.cid} carries the mark of {who}",
        why="who made a machine may also clean it up; an enrolled one must be safe from that",
        remedy="leave it to the Director that made it, or remove its mark in the cloud first",
    )


def _free(tx: Tx, uuid: str) -> NodeRow:
    """The enrolled node, if no step works on it."""
    node = nodes.get(tx, uuid)
    if node is None:
        raise NotFound(f"no node {uuid!r}", remedy="list them with `coterie nodes`")
    if not node.enrolled:
        raise Conflict(
            f"node {node.name} belongs to deployment {node.deployment}",
            remedy="change its manifest and deploy it, or delete the deployment",
        )
    task = enrolled.working_on(tx, uuid)
    if task is not None:
        raise Conflict(
            f"task {task} is working on node {node.name}",
            remedy=f"wait for it (coterie tasks watch {task}) or cancel it (coterie tasks cancel {task})",
            details={"task_id": task},
        )
    return node


def _unknown_cloud(name: str) -> NotFound:
    return NotFound(f"no cloud {name!r}", remedy="list them with `coterie clouds`; set them with `clouds set FILE`")
