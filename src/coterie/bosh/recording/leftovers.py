"""What cleanup settles besides objects: groups that nobody uses, and intents whose process died."""

from __future__ import annotations

from collections.abc import Iterable

from coterie.bosh.core.call_context import Desk
from coterie.cpi.contract import CpiError
from coterie.ledger import store
from coterie.ledger.rows import bosh_groups, objects
from coterie.ledger.rows.bosh_groups import BoshGroup
from coterie.ledger.rows.objects import ObjectRow
from coterie.ledger.writes import execute

_DOUBTFUL = ("intended", "unknown", "deleting")


def closable_groups(desk: Desk, *, dry_run: bool) -> list[BoshGroup]:
    """Groups without a member in the ledger. Unless it is a dry run, nobody can join them from now on."""
    with desk.book.ledger.read() as tx:
        busy = bosh_groups.busy(tx, desk.cloud, desk.director)
        rows = [row for row in bosh_groups.of_caller(tx, desk.cloud, desk.director) if row.intent not in busy]
        empty = [row for row in rows if not objects.members(tx, row.cid or "")]
    return empty if dry_run else [row for row in empty if _close(desk, row)]


def _close(desk: Desk, row: BoshGroup) -> bool:
    with desk.book.ledger.write() as tx:
        if not bosh_groups.begin_delete(tx, row.key, desk.holder, desk.book.lease_s):
            return False
        # Counted again after the row is ours: a machine may have been recorded since the first look.
        if objects.members(tx, row.cid or ""):
            bosh_groups.restore(tx, row.key, desk.holder)
            return False
        return True


def reopen_groups(desk: Desk, closing: Iterable[BoshGroup]) -> None:
    """Those that the sweep removed are forgotten, the others may be joined again."""
    for row in closing:
        with desk.book.ledger.write() as tx:
            kept = objects.by_cid(tx, "server_group", row.cloud, row.director, row.cid or "")
            if kept is None:
                bosh_groups.forget(tx, row.key, desk.holder)
            else:
                bosh_groups.restore(tx, row.key, desk.holder)


def forget_missing(desk: Desk) -> None:
    """A group that was deleted behind our back is let go of, so that the next machine gets a new one."""
    with desk.book.ledger.read() as tx:
        rows = [row for row in bosh_groups.of_caller(tx, desk.cloud, desk.director) if row.state == "live" and row.cid]
    for row in rows:
        if desk.driver.inspect_server_group(row.cid or "").state != "missing":
            continue
        with desk.book.ledger.write() as tx:
            if bosh_groups.begin_delete(tx, row.key, desk.holder, desk.book.lease_s):
                bosh_groups.forget(tx, row.key, desk.holder)
                execute(tx, objects.record_gone(row.intent))


def settle(desk: Desk, rows: Iterable[ObjectRow]) -> None:
    """Ask the cloud for every object whose outcome nobody knows; what stays away past the settle time is gone."""
    able = desk.driver.capabilities()
    doubtful = [row for row in rows if row.state in _DOUBTFUL]
    for row in doubtful if able.finds else ():
        try:
            found = desk.driver.find(row.kind, desk.mark(row.intent))
        except CpiError:
            continue  # it stays in doubt until somebody can look
        with desk.book.ledger.write() as tx:
            if found is None and _waited(store.time(tx), row, able.settle_s):
                execute(tx, objects.record_gone(row.intent, tombstone=True))
            elif found is None:
                execute(tx, objects.record_unknown(row.intent, row.doubt_since))


def _waited(now: float, row: ObjectRow, settle_s: float) -> bool:
    if row.state == "deleting":
        return True  # it was there and is not any more: no late arrival can be meant
    return row.doubt_since is not None and now - row.doubt_since >= settle_s
