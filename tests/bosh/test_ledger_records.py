"""What the local ledger adds to the facts of a cloud: never that nothing uses a thing, where something may."""

from __future__ import annotations

import pytest

from coterie.bosh.recording.ledger_records import LedgerRecords
from coterie.cleanup.cpi_method import judge
from coterie.cpi.contract import CloudObject, Kind, Mark
from coterie.ledger.rows.objects import ObjectRow

DIRECTOR = "8d8c4a1e-0000-4000-8000-000000000001"
MARK = Mark(DIRECTOR, "0123456789abcdefghjkmnpqrs")


def row(kind: Kind, state: str = "deleting") -> ObjectRow:
    return ObjectRow(
        intent=MARK.intent,
        kind=kind,
        cloud="lab",
        az=None,
        state=state,
        cid="x",
        deployment=None,
        node=None,
        ref=None,
        size_mb=0,
        properties=None,
        doubt_since=None,
        director=DIRECTOR,
        server_group=None,
        created_at=1.0,
    )


def verdict(kind: Kind, users: tuple[str, ...] | None) -> str:
    records = LedgerRecords([row(kind)], under_way=(), needed=())
    seen = records.complete(CloudObject(kind, "x", "x", mark=MARK, in_use_by=users))
    return records.correct(judge(seen, DIRECTOR, (), now=1000.0, grace_s=1.0)).verdict


@pytest.mark.parametrize("kind", ["disk", "server_group", "security_group", "port", "ip"])
def test_what_may_have_users_stays_where_the_cloud_does_not_show_them(kind: Kind) -> None:
    assert verdict(kind, None) == "keep"
    assert verdict(kind, ()) == "orphan"
    assert verdict(kind, ("y",)) == "keep"


@pytest.mark.parametrize("kind", ["vm", "snapshot", "keypair", "image"])
def test_what_only_the_ledger_s_own_rows_can_use_needs_no_users_from_the_cloud(kind: Kind) -> None:
    assert verdict(kind, None) == "orphan"


def test_what_was_made_along_with_a_thing_is_used_by_it_as_long_as_it_may_be_there() -> None:
    port = CloudObject("port", "p", "p", mark=MARK)
    used = {state: LedgerRecords([row("vm", state)], (), ()).complete(port).in_use_by for state in ("live", "gone")}
    assert used == {"live": ("x",), "gone": ()}
