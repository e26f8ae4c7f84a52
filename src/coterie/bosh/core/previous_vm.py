"""What an earlier call for the same agent left: its machine stands, or it is taken away before a new one is made."""

from __future__ import annotations

from contextlib import suppress

from coterie.bosh.core.call_context import Desk
from coterie.bosh.recording import creates
from coterie.cpi.contract import VMNotFound
from coterie.ledger.rows import objects
from coterie.ledger.rows.objects import ObjectRow
from coterie.ledger.writes import execute

_HEALTHY = ("running", "building", None)


def stands(desk: Desk, row: ObjectRow, digest: str) -> bool:
    """Whether this row's machine is the one that is wanted, and healthy; if not, it is gone when this returns."""
    cid = row.cid or _found(desk, row)
    if cid is None:
        return False
    equal = (row.properties or {}).get("digest") == digest and row.state != "deleting"
    if equal and _healthy(desk, row, cid):
        return True
    _remove(desk, row, cid)
    return False


def _found(desk: Desk, row: ObjectRow) -> str | None:
    mark = desk.mark(row.intent)
    if not creates.settled(desk, "vm", mark, row.doubt_since):
        return None
    found = desk.driver.find("vm", mark)
    return found.cid if found else None


def _healthy(desk: Desk, row: ObjectRow, cid: str) -> bool:
    if not desk.driver.capabilities().finds:
        return desk.driver.has_vm(cid)
    found = desk.driver.find("vm", desk.mark(row.intent))
    return found.state in _HEALTHY if found else desk.driver.has_vm(cid)


def _remove(desk: Desk, row: ObjectRow, cid: str) -> None:
    with desk.book.ledger.write() as tx:
        execute(tx, objects.begin_delete(row.intent, cid))
    with suppress(VMNotFound):
        desk.driver.delete_vm(cid)
    with desk.book.ledger.write() as tx:
        execute(tx, objects.record_gone(row.intent))
