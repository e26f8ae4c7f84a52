"""Small tasks of one step that a person asks for: mending a server group, granting rights in a cloud."""

from __future__ import annotations

from coterie.errors import Conflict, NotFound
from coterie.ledger.rows import clouds, groups
from coterie.ledger.store import Ledger, Tx
from coterie.ledger.work import tasks
from coterie.ledger.work.tasks import NewStage, NewStep, NewTask


def repair_group(ledger: Ledger, intent: str, by: str | None) -> int:
    """Have the cloud make again what it lost of a group."""
    with ledger.write() as tx:
        row = groups.get(tx, intent)
        if row is None or row.state == "gone":
            raise NotFound(f"there is no server group {intent}", remedy="see `coterie groups`")
        if row.state not in ("live", "missing"):
            raise Conflict(f"server group {row.name} is {row.state}", remedy="wait for its task, or deploy again")
        step = _step(tx, "group.repair", f"{row.name}@{row.cloud}", row.cloud, {"intent": intent})
        return tasks.create(tx, NewTask("repair-group", row.deployment, [NewStage("repair", [step])], requested_by=by))


def grant(ledger: Ledger, cloud: str, user: str, groups_too: bool, by: str | None) -> int:
    """Give a user of the cloud the rights that its driver needs. Done with the cloud's configured credentials."""
    with ledger.write() as tx:
        step = _step(tx, "cloud.grant", f"{user}@{cloud}", cloud, {"user": user, "groups": groups_too})
        return tasks.create(tx, NewTask("grant", None, [NewStage("grant", [step])], requested_by=by))


def _step(tx: Tx, flow: str, subject: str, cloud: str, data: dict[str, object]) -> NewStep:
    row = clouds.get(tx, cloud)
    if row is None:
        raise NotFound(f"no cloud {cloud!r}", remedy="list them with `coterie clouds`")
    return NewStep(flow, "begin", subject, data, None, cloud, row.driver, row.conductor_group)
