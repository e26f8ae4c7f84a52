"""Small tasks of one step that a person asks for: mending a server group, granting rights in a cloud."""

from __future__ import annotations

from coterie.cpi.contract import NotSupported
from coterie.errors import Conflict, NotFound
from coterie.flows.grant import GRANT, Grant
from coterie.flows.group import REPAIR_GROUP, RepairGroup
from coterie.ledger.rows import clouds, groups
from coterie.ledger.rows.clouds import CloudRow
from coterie.ledger.store import Ledger, Tx
from coterie.ledger.work import tasks
from coterie.ledger.work.tasks import NewStage, NewTask
from coterie.requests.ask_clouds import ask


def repair_group(ledger: Ledger, intent: str, by: str | None) -> int:
    """Have the cloud make again what it lost of a group."""
    with ledger.write() as tx:
        row = groups.get(tx, intent)
        if row is None or row.state == "gone":
            raise NotFound(f"there is no server group {intent}", remedy="see `coterie groups`")
        if row.state not in ("live", "missing"):
            raise Conflict(f"server group {row.name} is {row.state}", remedy="wait for its task, or deploy again")
        step = REPAIR_GROUP.step(RepairGroup(intent), f"{row.name}@{row.cloud}", _cloud(tx, row.cloud))
        return tasks.create(tx, NewTask("repair-group", row.deployment, [NewStage("repair", [step])], requested_by=by))


def grant(ledger: Ledger, cloud: str, user: str, groups_too: bool, by: str | None) -> int:
    """Give a user of the cloud the rights that its driver needs. Done with the cloud's configured credentials."""
    with ledger.read() as tx:
        row = _cloud(tx, cloud)
    (able,) = ask(ledger, [(row, "capabilities", {})])
    if not able["grants"]:
        raise NotSupported(
            f"cloud {cloud}: its driver {row.driver} cannot grant rights",
            remedy="have the cloud's administrator give them",
        )
    with ledger.write() as tx:
        step = GRANT.step(Grant(user, groups_too), f"{user}@{cloud}", _cloud(tx, cloud))
        return tasks.create(tx, NewTask("grant", None, [NewStage("grant", [step])], requested_by=by))


def _cloud(tx: Tx, cloud: str) -> CloudRow:
    row = clouds.get(tx, cloud)
    if row is None:
        raise NotFound(f"no cloud {cloud!r}", remedy="list them with `coterie clouds`")
    return row
