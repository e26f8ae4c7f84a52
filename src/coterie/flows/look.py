"""The periodic look: which VMs and groups are there, in O(pages) calls per cloud and one per group or unlisted VM."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass

from coterie.cpi.contract import CloudObject, CpiError, GroupView, Mark, find_original
from coterie.engine.flow import Done, Flow, Move, NoProgress, Work
from coterie.flows.recovery_tags import LEDGER
from coterie.group.audit import remedy
from coterie.group.rules import with_rule_drift
from coterie.ledger.rows import alarms, groups, nodes, objects, pins
from coterie.ledger.rows.alarms import Alarm
from coterie.ledger.rows.groups import GroupRow
from coterie.ledger.rows.nodes import NodeRow
from coterie.ledger.rows.pins import CloudMoved
from coterie.ledger.work.steps import LATE_REMEDY

_TOKEN_S = 600.0  # between two tokens
_FEW = 10  # nodes that an incomplete list lacks
_WATCHED = ("up", "dead", "missing")


@dataclass(frozen=True, slots=True)
class Look:
    """Compares the cloud's list with the nodes and records what is dead or missing; it changes nothing in a cloud but
    the token of this ledger on one VM.

    A meltdown: so many nodes vanish within one look, and more than this share of the cloud's nodes. `deployment` and
    `only` (a node's uuid): record nothing of anything else. Whether it is a meltdown is judged by the whole cloud all
    the same, else the nodes of a cloud that has lost its list could be given up bit by bit."""

    meltdown_percent: float = 30.0
    meltdown_nodes: int = 3
    deployment: str | None = None
    only: str | None = None


LookWork = Work[Look, NoProgress]


def _look(work: LookWork) -> Move:
    try:
        return _look_at_one(work) if work.params.only else _look_at_nodes(work)
    except CloudMoved as moved:
        _ring(work, _read_alarms(work), alarms.MOVED, f"{moved.why}; {moved.remedy}")
        return Done()


def _look_at_one(work: LookWork) -> Move:
    for cid, node in _list_watched_nodes(work).items():
        if not _is_in_scope(work.params, node):
            continue
        state = _state_of(work, cid, node)
        if state is None:
            return _look_at_nodes(work)
        _judge(work, node, state)
    return Done()


def _state_of(work: LookWork, cid: str, node: NodeRow) -> str | None:
    """None: the cloud does not have it."""
    if node.vm_intent and work.cpi.capabilities().finds:
        found = work.cpi.find("vm", Mark(work.director_uuid, node.vm_intent))
        if found is not None and found.cid == cid:
            return found.state or "unknown"
    return "running" if work.cpi.has_vm(cid) else None


def _look_at_nodes(work: LookWork) -> Move:
    known, is_full, is_complete = _list_watched_nodes(work), _is_full(work.params), True
    if "survey" in work.cpi.capabilities().unsupported:
        states = {cid: "running" for cid in known if work.cpi.has_vm(cid)}
    else:
        seen, is_complete = _survey(work)
        if is_full and is_complete:  # a copy may be listed while what it was copied from is not
            _note_arrivals(work, seen)
        states = {cid: found.state or "unknown" for cid, found in seen.items()}
        states.update(_find_unlisted(work, known, states) if is_complete else _find_one_by_one(work, known, states))
        if is_full and is_complete:
            _watch_for_twin(work, known, seen)
    # Judge only nodes that were known before the cloud was asked and are still the same now: a VM that was made or
    # removed in between must not look missing.
    judged = {cid: node for cid, node in _list_watched_nodes(work).items() if cid in known}
    for cid, node in judged.items():
        if _is_in_scope(work.params, node):
            _judge(work, node, states.get(cid))
    missing = [node for cid, node in judged.items() if states.get(cid) is None]
    _judge_cloud(work, missing, len(judged), is_complete=is_complete)
    if work.params.only is None and is_complete:  # where a host is silent, groups seem to have drifted
        _look_at_groups(work)
    return Done()


def _survey(work: LookWork) -> tuple[dict[str, CloudObject], bool]:
    """And whether the list is complete."""
    seen: dict[str, CloudObject] = {}
    cursor: str | None = None
    is_complete = True
    while True:
        page = work.cpi.survey("vm", work.director_uuid, cursor)
        seen.update((found.cid, found) for found in page.objects)
        is_complete = is_complete and page.complete
        cursor = page.next
        if cursor is None:
            return seen, is_complete


def _watch_for_twin(work: LookWork, known: dict[str, NodeRow], seen: dict[str, CloudObject]) -> None:
    """Another ledger under this Director's uuid, a copy or one that was restored, leaves its token on the same VM: the
    oldest of ours. Each ledger then finds the other's, and both say so."""
    marked = [node for cid, node in known.items() if cid in seen and seen[cid].tags is not None and node.vm_intent]
    if not marked:
        return
    oldest = min(marked, key=lambda node: node.vm_intent or "").vm_cid or ""
    found, at = (seen[oldest].tags or {}).get(LEDGER), work.moment
    with work.ledger.read() as tx:
        own = pins.read_token(tx, work.cloud)
    foreign = bool(found) and own is not None and found not in own.known
    if foreign:
        what = "another ledger works under this Director's uuid: a second Director, or this ledger is an old backup"
        _ring(work, _read_alarms(work), alarms.TWIN, what)
    if foreign or not found or own is None or at - own.at > _TOKEN_S:
        _leave_token(work, oldest)


def _leave_token(work: LookWork, cid: str) -> None:
    """The ledger knows the token before the cloud does, so that a lost answer does not make our own a stranger's."""
    token = work.ids.intent()
    with work.ledger.write_silently() as tx:
        pins.intend_token(tx, work.cloud, token)
    try:
        work.cpi.set_vm_metadata(cid, {LEDGER: token})
    except CpiError as error:
        work.say("look.partial", f"the token of this ledger could not be written: {error}")


def _note_arrivals(work: LookWork, seen: dict[str, CloudObject]) -> None:
    """VMs whose creation was given up: a conductor that was paused, or the cloud, has created them late."""
    with work.ledger.read() as tx:
        given_up = {row.intent: row for row in objects.list_given_up_vms(tx, work.cloud) if row.cid is None}
    late: dict[str, list[CloudObject]] = {}
    for found in seen.values():
        if found.mark and found.mark.intent in given_up:
            late.setdefault(found.mark.intent, []).append(found)
    for intent, alike in late.items():
        row, cid = given_up[intent], find_original([(found.cid, found.created_at) for found in alike])
        if cid is not None:
            work.write(objects.record_late(intent, cid))
            of = f"{row.deployment}: " if row.deployment else ""
            what = f"{of}VM {cid} of {row.ref} was created after its creation had been given up"
            work.say("object.late", f"{what}; {LATE_REMEDY}", cid=cid, cloud=work.cloud)


def _find_unlisted(work: LookWork, known: dict[str, NodeRow], listed: Container[str]) -> dict[str, str]:
    """A list may leave out VMs that are there: enrolled, moved or renamed ones. Each of those is looked up."""
    return {cid: "running" for cid in known if cid not in listed and work.cpi.has_vm(cid)}


def _find_one_by_one(work: LookWork, known: dict[str, NodeRow], listed: Container[str]) -> dict[str, str]:
    """An incomplete list proves no absence: a host that is silent hides others for as long as it is. Nodes that it
    lacks are looked for by themselves, if they are few: many would take long, and may be all of the cloud's."""
    unlisted = [cid for cid in known if cid not in listed]
    states = dict.fromkeys(unlisted, "unknown")
    if len(unlisted) > _FEW:
        work.say("look.partial", f"the cloud's list was incomplete; of {len(unlisted)} nodes nothing is concluded")
        return states
    for cid in unlisted:
        try:
            state = _state_of(work, cid, known[cid])
        except CpiError as error:
            work.say("look.partial", f"the cloud's list was incomplete; of {known[cid].name} nothing is known: {error}")
            continue
        if state is None:
            del states[cid]
        else:
            states[cid] = state
    return states


def _list_watched_nodes(work: LookWork) -> dict[str, NodeRow]:
    """Of the whole cloud."""
    with work.ledger.read() as tx:
        present = nodes.of_cloud(tx, work.cloud)
    return {node.vm_cid: node for node in present if node.vm_cid and (node.state in _WATCHED or node.is_unhealthy)}


def _is_in_scope(look: Look, node: NodeRow) -> bool:
    return look.deployment in (None, node.deployment) and look.only in (None, node.uuid)


def _is_full(look: Look) -> bool:
    return look.deployment is None and look.only is None


def _judge(work: LookWork, node: NodeRow, state: str | None) -> None:
    now = {"running": "up", "unknown": node.state, None: "missing"}.get(state, "dead")
    if now == node.state or (now == "up" and node.is_unhealthy):
        return
    found = f"in state {state}" if state else "not there"
    problem = None if now == "up" else {"code": f"vm_{now}", "what": f"VM {node.vm_cid} is {found}"}
    if now == "up" and (node.spec or {}).get("health"):
        now, problem = "failing", nodes.unhealthy("its VM runs again; its health check has not passed yet", 0)
    work.write(nodes.set_state_if(node, now, problem))
    of = f"{node.deployment}: " if node.deployment else ""
    work.say(f"node.{now}", f"{of}{node.name} is {now}", node=node.uuid, deployment=node.deployment or None)


def _judge_cloud(work: LookWork, missing: Sequence[NodeRow], present: int, *, is_complete: bool) -> None:
    """Ring the alarm when many vanish at once; it ends when a complete list has them again, or an operator accepts
    their loss."""
    known = _read_alarms(work)
    vanished = sorted((node for node in missing if node.state != "missing"), key=lambda node: node.name)
    if is_meltdown(work.params, len(vanished), present):
        names = ", ".join(node.name for node in vanished[:5]) + (" and more" if len(vanished) > 5 else "")
        what = f"{len(vanished)} of {present} nodes vanished within one look ({names})"
        _ring(work, known, alarms.MELTDOWN, what)
    if not _is_full(work.params) or not is_complete:
        return
    if not is_meltdown(work.params, len(missing), present):
        _end_alarm(work, known, alarms.MELTDOWN, "most nodes are there again")
    _end_alarm(work, known, alarms.MOVED, "it is the one that our objects are in again")


def is_meltdown(how: Look, gone: int, of: int) -> bool:
    return gone >= max(1, how.meltdown_nodes) and 100.0 * gone > how.meltdown_percent * of


def _read_alarms(work: LookWork) -> list[Alarm]:
    with work.ledger.read() as tx:
        return alarms.of_clouds(tx, [work.cloud]).get(work.cloud, [])


def _ring(work: LookWork, known: Sequence[Alarm], kind: str, body: str) -> None:
    work.write(alarms.ring(known, work.cloud, kind, body))
    if not any(alarm.kind == kind for alarm in known):
        stops = "nothing in it is resurrected, recreated or cleaned up"
        work.say("cloud.alarm", f"{body}; {stops}: {alarms.remedy(work.cloud)}", alarm=kind)


def _end_alarm(work: LookWork, known: Sequence[Alarm], kind: str, why: str) -> None:
    if any(alarm.kind == kind for alarm in known):
        work.write(alarms.end(work.cloud, kind))
        work.say("cloud.alarm_over", why, alarm=kind)


def _look_at_groups(work: LookWork) -> None:
    """A group that was deleted behind our back is missing, one that was changed has drifted; one event per change."""
    if "inspect_server_group" in work.cpi.capabilities().unsupported:
        return
    with work.ledger.read() as tx:
        rows, holders = groups.of_cloud(tx, work.cloud), groups.security_group_holders(tx)
    for row in rows:
        if work.params.deployment not in (None, row.deployment):
            continue
        metadata = groups.own_metadata(row, holders)
        _judge_group(work, row, with_rule_drift(metadata, work.cpi.inspect_server_group(row.cid or "")))


def _judge_group(work: LookWork, row: GroupRow, view: GroupView) -> None:
    gone = view.state == "missing"
    if gone != (row.state == "missing"):
        work.write(groups.move(row, "missing" if gone else "live"))
        what = f"is missing: {_advice(work, row, view)}" if gone else "is there again"
        _say(work, row, "group.missing" if gone else "group.live", what, view.notes if gone else ())
    drift = sorted(view.notes) if view.state == "drifted" else None
    if drift == row.drift or (drift and _in_motion(work, row)):
        return
    work.write(groups.record_drift(row.intent, drift))
    if drift:
        _say(work, row, "group.drifted", f"is not as it was made: {_advice(work, row, view)}", drift)
    elif not gone:
        _say(work, row, "group.live", "is as it was made again")


def _advice(work: LookWork, row: GroupRow, view: GroupView) -> str:
    moves, other = work.cpi.capabilities().moves_members, view.policy != row.policy
    return remedy(view.state, moves_members=moves, adopted=row.adopted, other_policy=other).replace("NAME", row.name)


def _in_motion(work: LookWork, row: GroupRow) -> bool:
    """Nodes of its deployment are being changed: a VM that moves is for a moment in no group, or in two."""
    with work.ledger.read() as tx:
        present = nodes.of_deployment(tx, row.deployment)
    return any(node.state in ("changing", "deleting") for node in present)


def _say(work: LookWork, row: GroupRow, kind: str, what: str, notes: Sequence[str] = ()) -> None:
    why = f" ({'; '.join(notes)})" if notes else ""
    work.say(kind, f"{row.deployment}: server group {row.name} {what}{why}", cid=row.cid)


LOOK = Flow("look", Look, NoProgress, {"begin": _look})
