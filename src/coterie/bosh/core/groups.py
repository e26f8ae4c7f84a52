"""Server groups for callers that cannot ask for one: a unique row in the ledger decides which process creates it."""

from __future__ import annotations

import time
from dataclasses import dataclass

from coterie.bosh.core import grouping
from coterie.bosh.core.call_context import Desk
from coterie.bosh.recording.lease import renewed
from coterie.cpi.contract import CpiError, GroupInUse, GroupMetadata, Json, OutcomeUnknown
from coterie.ids import Ids
from coterie.ledger.rows import bosh_groups, objects
from coterie.ledger.rows.bosh_groups import BoshGroup, Key
from coterie.ledger.store import Tx
from coterie.ledger.writes import execute

_LOOK_S = 0.02
_TRIES = 3


@dataclass(frozen=True, slots=True)
class Place:
    """Where a new machine goes. `key` None: no group of ours is needed."""

    cid: str | None
    key: Key | None = None

    def holds(self, tx: Tx) -> bool:
        """Whether the group is still there to be joined."""
        return self.key is None or bosh_groups.is_live(tx, self.key, self.cid or "")


def place(desk: Desk, env: Json) -> Place:
    """The living group for this machine, made now if it is the first."""
    name = grouping.wanted(desk, env)
    if name is None:
        return Place(grouping.chosen(env))
    key = Key(desk.cloud, desk.director, name)
    return Place(_live(desk, key, env), key)


def _live(desk: Desk, key: Key, env: Json) -> str:
    give_up, pause = time.monotonic() + desk.config.groups.patience_s, _LOOK_S
    while time.monotonic() < give_up:
        row = _claim(desk, key)
        if row.state == "live" and row.cid:
            return row.cid
        if row.holder == desk.holder:
            _work(desk, row, env)
            continue
        time.sleep(pause)
        pause = min(pause * 1.5, 0.5)
    raise CpiError(
        f"server group {key.name} did not become ready within {desk.config.groups.patience_s:.0f} s",
        why="another process is creating or removing it",
        remedy="repeat; if it goes on, look at the other calls in the log of the Director",
        retryable=True,
    )


def _claim(desk: Desk, key: Key) -> BoshGroup:
    # Those who only wait do not write: fifty of them would keep the one who works from its turn.
    with desk.book.ledger.read() as tx:
        seen = bosh_groups.look(tx, key)
    if seen and seen[1]:
        return seen[0]
    fresh = Ids().intent()
    with desk.book.ledger.write() as tx:
        row = bosh_groups.claim(tx, key, fresh, desk.holder, desk.book.lease_s)
        if row.intent == fresh:
            execute(tx, objects.intend(fresh, "server_group", desk.cloud, director=desk.director, ref=key.name))
    return row


def _work(desk: Desk, row: BoshGroup, env: Json) -> None:
    def renew() -> None:
        with desk.book.ledger.write() as tx:
            bosh_groups.renew(tx, row.key, desk.holder, desk.book.lease_s)

    with renewed(desk.book.lease_s, renew):
        if row.state == "intended":
            _create(desk, row, env)
        else:
            finish_delete(desk, row)


def _create(desk: Desk, row: BoshGroup, env: Json) -> None:
    ledger = desk.book.ledger
    try:
        cid = _called(desk, grouping.metadata(desk, row.name, env), row.intent)
    except OutcomeUnknown:
        with ledger.write() as tx:
            bosh_groups.let_go(tx, row.key, desk.holder)
        raise
    except CpiError:
        with ledger.write() as tx:
            if bosh_groups.forget(tx, row.key, desk.holder):
                execute(tx, objects.record_gone(row.intent))
        raise
    with ledger.write() as tx:
        if bosh_groups.live(tx, row.key, desk.holder, cid):
            execute(tx, objects.record_created(row.intent, cid))


def _called(desk: Desk, metadata: GroupMetadata, intent: str) -> str:
    for _ in range(_TRIES - 1):
        try:
            return desk.driver.create_server_group(metadata, mark=desk.mark(intent))
        except OutcomeUnknown:
            continue  # by contract a repeat under the same mark finds or completes the first
    return desk.driver.create_server_group(metadata, mark=desk.mark(intent))


def finish_delete(desk: Desk, row: BoshGroup) -> bool:
    """Remove a group that nobody may join any more. False: the cloud still shows members, so it lives on."""
    ledger, cid = desk.book.ledger, row.cid or desk.mark(row.intent).group_cid
    try:
        desk.driver.delete_server_group(cid)
    except GroupInUse:
        with ledger.write() as tx:
            bosh_groups.restore(tx, row.key, desk.holder)
        return False
    with ledger.write() as tx:
        if bosh_groups.forget(tx, row.key, desk.holder):
            execute(tx, objects.record_gone(row.intent))
    return True
