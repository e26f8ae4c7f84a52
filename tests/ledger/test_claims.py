"""Which conductor claims which steps: groups, drivers, rings, joins and pins, on both databases."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from coterie.ids import Ids
from coterie.ledger.rows import clouds, facts
from coterie.ledger.rows.clouds import CloudRow
from coterie.ledger.store import Ledger, Tx
from coterie.ledger.tables import steps as steps_table
from coterie.ledger.work import conductors, tasks
from coterie.ledger.work.claims import Claims
from coterie.ledger.work.share import Share
from coterie.ledger.work.tasks import NewStage, NewStep, NewTask

FLOWS = ("flow",)


def join(ledger: Ledger, name: str, group: str | None = "", drivers: tuple[str, ...] = ("d",), **more: Any) -> None:
    with ledger.write() as tx:
        conductors.register(tx, name, "1", group=group, drivers=drivers, release="0.1.0", **more)


def queue(ledger: Ledger, count: int, group: str = "", driver: str = "d", flow: str = "flow") -> None:
    ids = Ids()
    steps = [
        NewStep(flow, "begin", f"{group}{n}", {}, ids.uuid(), "cloud", driver, conductor_group=group)
        for n in range(count)
    ]
    with ledger.write() as tx:
        tasks.create(tx, NewTask("test", "d", [NewStage("s", steps)]))


def claim(ledger: Ledger, name: str, limit: int = 10_000) -> list[str]:
    with ledger.write() as tx:
        share = Share(conductors.fleet(tx), name)
        return [one.subject for one in Claims(share, f"{name}#1", FLOWS).claim(tx, limit)]


def ready(ledger: Ledger) -> int:
    with ledger.read() as tx:
        return tx.execute(sa.select(sa.func.count()).where(steps_table.c.state == "ready")).scalar_one()


def test_members_of_a_ring_share_its_steps_and_leave_none(ledger: Ledger) -> None:
    for name in ("a", "b", "c"):
        join(ledger, name, "rack1")
    queue(ledger, 90, "rack1")
    shares = {name: claim(ledger, name) for name in ("a", "b", "c")}
    assert ready(ledger) == 0
    assert all(shares.values())
    assert sorted(subject for share in shares.values() for subject in share) == sorted(f"rack1{n}" for n in range(90))


def test_no_conductor_takes_what_the_ring_gives_to_another(ledger: Ledger) -> None:
    join(ledger, "a")
    join(ledger, "b")
    queue(ledger, 40)
    first = claim(ledger, "a")
    assert first
    assert claim(ledger, "a") == []
    assert ready(ledger) == 40 - len(first)


def test_what_is_ours_is_found_behind_many_steps_of_others(ledger: Ledger) -> None:
    join(ledger, "a")
    join(ledger, "b", weight=100.0)
    queue(ledger, 1500)
    mine = claim(ledger, "a", limit=3)
    assert len(mine) == 3


def test_a_leave_gives_its_share_to_the_others_without_a_rewrite(ledger: Ledger) -> None:
    join(ledger, "a")
    join(ledger, "b")
    queue(ledger, 40)
    with ledger.read() as tx:
        before = tx.execute(sa.select(steps_table).order_by(steps_table.c.id)).all()
        seen = conductors.fingerprint(tx)
    with ledger.write() as tx:
        conductors.leave(tx, "b", "1")
    with ledger.read() as tx:
        assert tx.execute(sa.select(steps_table).order_by(steps_table.c.id)).all() == before
        assert conductors.fingerprint(tx) != seen
    assert len(claim(ledger, "a")) == 40


def test_a_draining_conductor_has_no_share_and_the_others_have_it(ledger: Ledger) -> None:
    join(ledger, "a")
    join(ledger, "b")
    queue(ledger, 30)
    with ledger.write() as tx:
        seen = conductors.fingerprint(tx)
        conductors.drain(tx, "a", "1")
        assert conductors.fingerprint(tx) != seen
    assert claim(ledger, "a") == []
    assert len(claim(ledger, "b")) == 30


@pytest.mark.parametrize(("group", "driver"), [("rack2", "d"), ("", "d"), ("rack1", "other")])
def test_another_group_or_driver_is_out_of_reach(ledger: Ledger, group: str, driver: str) -> None:
    join(ledger, "a", "Rack1")
    queue(ledger, 3, group, driver)
    assert claim(ledger, "a") == []


def test_a_conductor_of_every_group_leaves_a_group_to_its_own_conductors(ledger: Ledger) -> None:
    join(ledger, "embedded", None)
    queue(ledger, 4, "rack1")
    queue(ledger, 4, "rack2")
    join(ledger, "own", "rack1")
    assert claim(ledger, "embedded") == [f"rack2{n}" for n in range(4)]
    assert claim(ledger, "own") == [f"rack1{n}" for n in range(4)]


def test_while_one_is_pinned_groups_do_not_count(ledger: Ledger) -> None:
    join(ledger, "a", "rack1")
    join(ledger, "b", "rack2", pinned="0.0")
    queue(ledger, 40, "rack1")
    shares = claim(ledger, "a"), claim(ledger, "b")
    assert all(shares)
    assert len(shares[0]) + len(shares[1]) == 40


def test_a_flow_that_only_a_newer_release_knows_goes_there(ledger: Ledger) -> None:
    join(ledger, "old", flows=["another"])
    join(ledger, "new", flows=["flow", "another"])
    queue(ledger, 30)
    assert claim(ledger, "new") == [f"{n}" for n in range(30)]


def test_questions_go_to_the_owner_of_their_cloud(ledger: Ledger) -> None:
    join(ledger, "a", "rack1")
    join(ledger, "b", "rack1")
    names = [f"cloud{n}" for n in range(30)]
    with ledger.write() as tx:
        for name in names:
            facts.want(tx, CloudRow(name, "d", {}, "rack1"), "check", {})
    taken = {}
    for name in ("a", "b"):
        with ledger.write() as tx:
            share = Share(conductors.fleet(tx), name)
            assert facts.open_questions(tx, share)
            taken[name] = _take_all(tx, name, share)
    assert all(taken.values())
    assert sorted(taken["a"] + taken["b"]) == sorted(names)


def _take_all(tx: Tx, name: str, share: Share) -> list[str]:
    taken = []
    while (one := facts.claim(tx, name, 10.0, share)) is not None:
        taken.append(one.cloud)
    return taken


def test_a_cloud_with_a_question_under_way_is_left_out(ledger: Ledger) -> None:
    join(ledger, "a", "rack1")
    with ledger.write() as tx:
        for name in ("slow", "quick"):
            facts.want(tx, CloudRow(name, "d", {}, "rack1"), "check", {})
        share = Share(conductors.fleet(tx), "a")
        taken = facts.claim(tx, "a", 10.0, share, besides=["slow"])
        assert taken is not None
        assert taken.cloud == "quick"
        assert facts.claim(tx, "a", 10.0, share, besides=["slow"]) is None


def test_steps_of_a_cloud_that_has_its_fill_are_left_in_the_queue(ledger: Ledger) -> None:
    join(ledger, "a", "rack1")
    queue(ledger, 3, "rack1")
    with ledger.write() as tx:
        claims = Claims(Share(conductors.fleet(tx), "a"), "a", FLOWS)
        assert claims.next_due(tx, ["cloud"]) is None
        assert claims.take(tx, 10, claims.choose(tx, 10, ["cloud"]), ["cloud"]) == []
        assert len(claims.take(tx, 10, claims.choose(tx, 10, ["other"]), ["other"])) == 3


def test_a_cloud_that_moves_takes_its_waiting_steps_along(ledger: Ledger) -> None:
    from coterie.requests.regroup import move_clouds

    join(ledger, "b", "rack2")
    with ledger.write() as tx:
        clouds.set_config(tx, "one", [CloudRow("cloud", "d", {}, "rack1")])
    queue(ledger, 3, "rack1")
    assert claim(ledger, "b") == []
    with ledger.write() as tx:
        move_clouds(tx, {"cloud": CloudRow("cloud", "d", {}, "rack2")}, {})
    assert len(claim(ledger, "b")) == 3


def test_one_look_serves_many_claims_and_what_moved_away_is_not_taken(ledger: Ledger) -> None:
    for name in ("a", "b"):
        join(ledger, name, "rack1")
    queue(ledger, 60, "rack1")
    looks: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        if statement.startswith("SELECT steps.id, "):
            looks.append(statement)

    with ledger.write() as tx:
        sa.event.listen(tx, "before_cursor_execute", note)
        claims = Claims(Share(conductors.fleet(tx), "a"), "a#1", FLOWS)
        taken = [one.id for _ in range(3) for one in claims.claim(tx, 4)]
        assert (len({*taken}), len(looks)) == (12, 1)
        tx.execute(steps_table.update().where(steps_table.c.state == "ready").values(conductor_group="rack2"))
        assert claims.claim(tx, 4) == []


def test_what_is_known_of_a_full_cloud_outlasts_a_look_for_others(ledger: Ledger) -> None:
    for name in ("a", "b"):
        join(ledger, name, "rack1")
    queue(ledger, 60, "rack1")
    with ledger.write() as tx:
        claims = Claims(Share(conductors.fleet(tx), "a"), "a#1", FLOWS)
        assert len(claims.claim(tx, 2)) == 2
        assert claims.choose(tx, 2, ["cloud"]) == []
        assert len(claims.claim(tx, 2)) == 2
