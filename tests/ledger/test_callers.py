"""Claims, groups and intents of callers without our Director, on both databases, and on a file without SQLAlchemy."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from coterie.ledger.file import FileLedger
from coterie.ledger.rows import bosh_groups, objects
from coterie.ledger.rows.bosh_groups import Key
from coterie.ledger.store import Ledger
from coterie.ledger.work import leases
from coterie.ledger.writes import execute
from tests.ledger.blank import postgres_database, postgres_template, sqlite_ledger

KEY = Key("lab", "d", "web")
INTENT = "0123456789abcdefghjkmnpqrs"
OTHER = "1123456789abcdefghjkmnpqrs"


@pytest.fixture(params=["sqlite", "postgresql", "file"])
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ledger | FileLedger]:
    opened: Ledger | FileLedger
    if request.param == "postgresql":
        server = request.getfixturevalue("postgres_server")
        opened = Ledger.open(postgres_database(server, postgres_template(server)))
    else:
        opened = sqlite_ledger(tmp_path / "ledger.db")
    if request.param == "file":
        opened.close()
        opened = FileLedger.open(str(tmp_path / "ledger.db"))
    yield opened
    opened.close()


def take(ledger: Ledger, holder: str, lease_s: float = 60) -> bool:
    with ledger.write() as tx:
        return leases.take(tx, "k", holder, lease_s)


def test_a_claim_has_one_holder_until_it_ends(ledger: Ledger) -> None:
    assert take(ledger, "a")
    assert not take(ledger, "b")
    assert not take(ledger, "a")
    with ledger.write() as tx:
        leases.release(tx, "k", "b")
        assert leases.list_held(tx) == {"k"}
        leases.release(tx, "k", "a")
        assert leases.list_held(tx) == frozenset()
    assert take(ledger, "b")


def test_a_claim_that_is_not_renewed_is_taken_over(ledger: Ledger) -> None:
    assert take(ledger, "a", 0.05)
    time.sleep(0.1)
    assert take(ledger, "b")
    with ledger.write() as tx:
        leases.renew(tx, "k", "a", 60)
        leases.release(tx, "k", "a")
        assert leases.list_held(tx) == {"k"}


def test_of_many_that_claim_a_group_at_once_one_creates_it(ledger: Ledger) -> None:
    seen: list[bosh_groups.BoshGroup] = []

    def claim(n: int) -> None:
        with ledger.write() as tx:
            seen.append(bosh_groups.claim(tx, KEY, f"{n:026d}", f"h{n}", 60))

    threads = [threading.Thread(target=claim, args=(n,)) for n in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 12
    assert len({(row.intent, row.holder, row.state) for row in seen}) == 1


def test_a_group_whose_creator_died_keeps_its_intent(ledger: Ledger) -> None:
    with ledger.write() as tx:
        bosh_groups.claim(tx, KEY, INTENT, "dead", 0.0)
    time.sleep(0.01)
    with ledger.write() as tx:
        row = bosh_groups.claim(tx, KEY, OTHER, "heir", 60)
        assert (row.intent, row.holder) == (INTENT, "heir")
        assert not bosh_groups.record_live(tx, KEY, "dead", "cg-x")
        assert bosh_groups.record_live(tx, KEY, "heir", "cg-x")
        assert bosh_groups.is_live(tx, KEY, "cg-x")
        assert bosh_groups.claim(tx, KEY, OTHER, "late", 60).holder == "heir"


def test_a_group_that_is_being_deleted_cannot_be_joined(ledger: Ledger) -> None:
    with ledger.write() as tx:
        bosh_groups.claim(tx, KEY, INTENT, "a", 60)
        assert not bosh_groups.begin_delete(tx, KEY, "sweeper", 60)
        bosh_groups.record_live(tx, KEY, "a", "cg-x")
        assert bosh_groups.begin_delete(tx, KEY, "sweeper", 60)
        assert not bosh_groups.is_live(tx, KEY, "cg-x")
        assert not bosh_groups.forget(tx, KEY, "a")
        bosh_groups.restore(tx, KEY, "sweeper")
        assert bosh_groups.is_live(tx, KEY, "cg-x")


def test_members_are_counted_while_they_may_be_in_the_cloud(ledger: Ledger) -> None:
    with ledger.write() as tx:
        execute(tx, objects.intend(INTENT, "vm", "lab", director="d", ref="agent", server_group="cg-x"))
        assert len(objects.members(tx, "cg-x")) == 1
        execute(tx, objects.record_created(INTENT, "i-1", {"answer": ["i-1", {}]}))
        execute(tx, objects.begin_delete(INTENT, "i-1"))
        assert len(objects.members(tx, "cg-x")) == 1
        execute(tx, objects.record_gone(INTENT))
        assert len(objects.members(tx, "cg-x")) == 0


def test_the_settle_time_counts_from_the_first_lost_answer(ledger: Ledger) -> None:
    with ledger.write() as tx:
        execute(tx, objects.intend(INTENT, "disk", "lab", director="d"))
        execute(tx, objects.record_unknown(INTENT))
        first = objects.of_caller(tx, "lab", "d")[0].doubt_since
    time.sleep(0.02)
    with ledger.write() as tx:
        execute(tx, objects.record_unknown(INTENT, first))
        assert objects.of_caller(tx, "lab", "d")[0].doubt_since == first is not None


def test_an_object_is_found_by_its_owner_only(ledger: Ledger) -> None:
    with ledger.write() as tx:
        execute(tx, objects.intend(INTENT, "disk", "lab", director="d"))
        execute(tx, objects.record_created(INTENT, "vol-1"))
        assert objects.by_cid(tx, "disk", "lab", "d", "vol-1")
        for kind, cloud, director in (("vm", "lab", "d"), ("disk", "other", "d"), ("disk", "lab", "e")):
            assert objects.by_cid(tx, kind, cloud, director, "vol-1") is None  # type: ignore[arg-type] # a kind
        execute(tx, objects.record_gone(INTENT))
        assert objects.by_cid(tx, "disk", "lab", "d", "vol-1") is None
