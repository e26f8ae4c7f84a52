"""Accidents: ledgers, Directors, plans and tasks. Most are a matter of the Director alone."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from coterie.cleanup import start
from coterie.cleanup.options import Options
from coterie.errors import Conflict, StalePlan, UsageError
from coterie.flows.look import Look
from coterie.ids import Ids
from coterie.ledger.rows import alarms, identity
from coterie.ledger.rows.pins import CloudMoved
from coterie.ledger.store import Ledger
from coterie.ledger.tables import cloud_pins
from coterie.requests import pinned_clouds
from coterie.requests import start as requests
from coterie.requests.resurrection import resurrect
from tests.cleanup.accidents.ground import Ground, until
from tests.cleanup.accidents.listing import accident
from tests.cleanup.yard import AT_ONCE
from tests.ledger.blank import sqlite_ledger
from tests.requests.lost_ledger import lose_ledger, recovery

DAY_S = 86_400.0


@accident(
    47, "The ledger is restored from an old backup, or a Director is cloned", "Newer objects are kept.", cloud=False
)
def old_backup(g: Ground) -> None:
    backup = _copy_ledger(g)
    g.deploy()
    with g.director_on(Ledger.open(f"sqlite:///{backup}")) as old:
        plan = old.clean()
        assert plan.items == ()
        assert all("restored from an old backup" in str(old.reason(plan, cid)) for cid in g.ours["vm"] + g.ours["disk"])
    backup.unlink()
    assert g.left() == g.ours


@accident(48, "A new Director begins in the account of another one", "All that the other has is foreign.")
def new_director(g: Ground) -> None:
    g.leave()
    file = Path(g.site.folder / "new.db")
    ledger = sqlite_ledger(file)
    identity.ensure_director(ledger, "test", Ids())
    requests_config = g.site.config
    with g.director_on(ledger) as new:
        requests.set_cloud_config(ledger, requests_config, "cloud.yml")
        plan = new.clean()
        assert (plan.items, plan.rest) == ((), ())
    file.unlink()
    assert g.left() == g.ours


@accident(49, "A cloud is led to another account by a mistyped property", "The change is refused while objects live.")
def moved_cloud(g: Ground) -> None:
    g.deploy()
    with pytest.raises(CloudMoved):
        requests.set_cloud_config(g.ledger, g.bed.config_elsewhere(), "cloud.yml")
    assert g.survey().items == ()
    assert g.left() == g.ours


@accident(
    50,
    "Many nodes vanish within one look",
    "An alarm stops recreation and cleanup there until an operator accepts.",
    cloud=False,
)
def meltdown(g: Ground) -> None:
    g.deploy(g.text(2))
    for vm in g.ours["vm"]:
        g.operator.delete("vm", vm)
    g.look(Look(meltdown_nodes=2, meltdown_percent=30.0))
    assert _list_alarms(g) == ["meltdown"]
    assert resurrect(g.ledger, "dep") is None
    assert {"has an alarm" in str(one.reason) for one in g.yard.survey().stopped} == {True}
    pinned_clouds.accept(g.ledger, "lab", "test")
    g.look()


@accident(
    51,
    "A deployment starts between the plan and the sweep",
    "What it owns is skipped while it is at work.",
    cloud=False,
)
def deployment_in_the_middle(g: Ground) -> None:
    g.leave()
    plan, old = g.survey(), g.ours
    with g.held_call("create_vm") as wait_for_one:
        running = requests.deploy(g.ledger, g.site.request(g.text()), None, "test")
        wait_for_one()
        g.apply(plan)
        assert g.left().keys() >= {"vm", "disk"}
        assert f"task {running} is at work" in g.yard.why(plan, old["vm"][0])
    g.site.wait(running)
    g.adopt_all()
    assert g.nodes_up()


@accident(52, "A deploy is requested while its objects are being swept", "It is refused for the moment.", cloud=False)
def swept_meanwhile(g: Ground) -> None:
    g.leave()
    plan = g.survey()
    with g.held_call("delete_object") as wait_for_one:
        sweep = start.apply(g.ledger, plan.cleanup, plan.id, "test")
        wait_for_one()
        with pytest.raises(Conflict) as refused:
            requests.deploy(g.ledger, g.site.request(g.text()), None, "test")
        assert refused.value.retryable and refused.value.details == {"task_id": sweep}
    g.site.wait(sweep)
    assert g.left() == {}


@accident(53, "Two cleanups at once", "The second is refused, naming the task of the first.", cloud=False)
def second_cleanup(g: Ground) -> None:
    with g.held_call("survey") as wait_for_one:
        _, task = start.survey(g.ledger, Options.of_wire(AT_ONCE), "one")
        wait_for_one()
        with pytest.raises(Conflict) as second:
            start.survey(g.ledger, Options.of_wire(AT_ONCE), "two")
        assert second.value.details == {"task_id": task}
    g.site.wait(task)


@accident(54, "A plan is applied twice, expired, or edited", "It is refused (exit 6).", cloud=False)
def unfit_plans(g: Ground) -> None:
    g.leave()
    expired = g.survey(expires_s=0)
    with pytest.raises(StalePlan, match="expired"):
        g.apply(expired)
    plan = g.survey()
    with pytest.raises(StalePlan, match="not the plan"):
        start.apply(g.ledger, plan.cleanup, expired.id, "test")
    edited = [{**item, "cid": "vm-of-a-person"} for item in plan.wire()["items"]]
    with pytest.raises(StalePlan, match="edited"):
        start.apply(g.ledger, plan.cleanup, plan.id, "test", edited)
    g.apply(plan)
    with pytest.raises(Conflict, match="applied already"):
        g.apply(plan)
    assert g.left() == {}


@accident(55, "More would go than the cap allows", "None of that kind goes.", cloud=False)
def capped(g: Ground) -> None:
    g.leave(g.text(2))
    plan = g.clean(cap=1)
    assert g.left().keys() >= {"vm", "disk"}
    assert "more than the cap" in str(g.reason(plan, g.ours["vm"][0]))


@accident(56, "An orphan is found for the first time", "It is marked, and goes after the grace period.", cloud=False)
def first_sight(g: Ground) -> None:
    g.leave()
    plan = g.clean(grace_s=DAY_S)
    assert plan.items == ()
    assert "it may go after" in str(g.reason(plan, g.cid("vm")))
    assert g.left() == g.ours


@accident(57, "A sweep is cancelled half-way", "What has not begun stays; the next cleanup takes it.", cloud=False)
def cancelled(g: Ground) -> None:
    g.leave()
    plan = g.survey()
    with g.held_call("delete_object") as wait_for_one:
        task = start.apply(g.ledger, plan.cleanup, plan.id, "test")
        wait_for_one()
        requests.cancel(g.ledger, task)
    g.site.wait(task, "cancelled")
    assert "disk" in g.left()
    g.clean()
    assert g.left() == {}


@accident(58, "A conductor ends in the middle of a sweep", "Another one goes on with it.", cloud=False)
def successor(g: Ground) -> None:
    g.leave()
    plan = g.survey()
    task = start.apply(g.ledger, plan.cleanup, plan.id, "test")
    g.replace_conductor("successor")
    g.site.wait(task)
    assert g.left() == {}


@accident(59, "A name filter is empty or one letter, as from an unset variable", "It is refused.", cloud=False)
def empty_filter(g: Ground) -> None:
    for name in ("", "a", "*", "a*", "??"):
        for option in ("names", "not_names"):
            with pytest.raises(UsageError, match=option):
                g.survey(**{option: [name]})


@accident(60, "A deploy runs while cleanups survey and sweep", "Nothing of it is touched.", cloud=False)
def cleanups_during_a_deploy(g: Ground) -> None:
    with g.held_call("create_disk") as wait_for_one:
        running = requests.deploy(g.ledger, g.site.request(g.text()), None, "test")
        wait_for_one()
        assert [item for item in g.clean().items if item.action == "delete"] == []
    until(lambda: g.site.task(running).state != "running")
    g.adopt_all()
    assert g.nodes_up()


@accident(65, "Two Directors work under one uuid", "Both get the alarm *twin*; recreation and cleanup stop.")
def twins(g: Ground) -> None:
    g.deploy()
    g.look()
    backup = _copy_ledger(g)
    with g.director_on(Ledger.open(f"sqlite:///{backup}")) as twin:
        for _ in range(2):  # the copy knows the token that was left, and the one that was intended next
            _look_later(g)
        for one in (twin, g):
            one.look()
            assert _list_alarms(one) == ["twin"]
            assert {"has an alarm" in str(stopped.reason) for stopped in one.yard.survey().stopped} == {True}
    backup.unlink()
    assert pinned_clouds.accept(g.ledger, "lab", "test") == ["twin"]
    g.look()
    assert _list_alarms(g) == []
    assert g.left() == g.ours


@accident(
    66,
    "The ledger is lost",
    "`recover` writes it again, from marks and manifests; nothing is to change then, and a delete leaves nothing.",
)
def lost_ledger(g: Ground) -> None:
    g.deploy()
    before = g.held()
    lose_ledger(g.site)
    for text in (g.living, g.text()):
        found = recovery(g.site, text)
        assert [item for item in found.items if not item.taken] == []
        assert g.site.plan(text).changes == ()
    assert g.held() == before
    g.delete(delete_disks=True)
    assert g.left() == {}


def _look_later(g: Ground) -> None:
    """When the last token is an hour old."""
    with g.ledger.write() as tx:
        tx.execute(cloud_pins.update().values(token_at=cloud_pins.c.token_at - 3600))
    g.look()


def _list_alarms(g: Ground) -> list[str]:
    with g.ledger.read() as tx:
        return [one.kind for one in alarms.of_clouds(tx).get("lab", ())]


def _copy_ledger(g: Ground) -> Path:
    backup = g.site.folder / "backup.db"
    with sqlite3.connect(g.site.folder / "ledger.db") as live, sqlite3.connect(backup) as copied:
        live.backup(copied)
    return backup
