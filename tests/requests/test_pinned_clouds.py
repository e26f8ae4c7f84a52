"""A cloud is the account that our objects are in, and many nodes that vanish at once are not simply made anew."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import sqlalchemy as sa

from coterie.cleanup import start as cleaning
from coterie.cleanup.options import Options
from coterie.errors import Conflict, CoterieError
from coterie.flows.look import Look
from coterie.ledger.rows import alarms, pins
from coterie.ledger.rows.pins import CloudMoved
from coterie.ledger.tables import cloud_alarms, cloud_pins, events
from coterie.manifest import load_cloud_config
from coterie.requests import looks, pinned_clouds, start
from coterie.requests.draft import store_config
from coterie.requests.request import cloud_rows
from coterie.requests.resurrection import resurrect
from tests.requests.site import Site, group, manifest

ELSEWHERE = "account other of sandbox"
TWO = manifest(group("a", 2), extra="resurrection: true\n")


def elsewhere(site: Site) -> str:
    """The same cloud's name with the properties of another account, as a typing error gives it."""
    return site.config.replace("properties: {settle_s: 0.1}", "properties: {settle_s: 0.1, account: other}")


def look(site: Site, expect_state: str = "done", how: Look | None = None) -> int:
    task = looks.look(site.ledger, how) or 0
    site.wait(task, expect_state)
    return task


def identity(site: Site) -> str:
    return site.cpi().identity() or ""


def rung(site: Site) -> list[str]:
    with site.ledger.read() as tx:
        return [alarm.kind for alarm in alarms.of_clouds(tx).get("lab", [])]


def states(site: Site) -> dict[str, str]:
    return {name: node.state for name, node in site.nodes().items()}


def store_past_the_check(site: Site) -> None:
    """The properties lead elsewhere although no conductor could say so when they were set."""
    text = elsewhere(site)
    with site.ledger.write() as tx:
        store_config(tx, text, cloud_rows(load_cloud_config(text, "c.yml").value), {})


def test_a_cloud_is_pinned_with_its_first_object(here: Site) -> None:
    here.deploy(TWO)
    with here.ledger.read() as tx:
        assert pins.get(tx, "lab") == identity(here)


def test_a_cloud_with_objects_cannot_be_led_elsewhere(here: Site) -> None:
    here.deploy(TWO)
    with pytest.raises(CloudMoved, match=ELSEWHERE) as refusal:
        start.set_cloud_config(here.ledger, elsewhere(here), "c.yml")
    assert identity(here) in refusal.value.why
    assert "coterie clouds repin lab" in refusal.value.remedy
    with pytest.raises(CoterieError, match=ELSEWHERE):
        here.config = elsewhere(here)
        here.deploy(TWO)
    with here.ledger.read() as tx:
        assert pins.get(tx, "lab") != ELSEWHERE


def test_a_cloud_without_objects_may_become_another_one(here: Site) -> None:
    here.deploy(TWO)
    here.delete()
    with here.ledger.write() as tx:  # the image of the last deployment is gone too
        tx.execute(sa.text("UPDATE objects SET state = 'gone'"))
    here.config = elsewhere(here)
    here.deploy(TWO)
    with here.ledger.read() as tx:
        assert (pins.get(tx, "lab") or "").startswith(ELSEWHERE)


def test_new_properties_of_the_same_account_are_taken(here: Site) -> None:
    here.deploy(TWO)
    start.set_cloud_config(here.ledger, here.config.replace("settle_s: 0.1", "settle_s: 0.2"), "c.yml")


def test_conductors_stop_before_any_change_when_the_account_is_another(here: Site) -> None:
    here.deploy(TWO)
    store_past_the_check(here)
    task = look(here)
    assert states(here) == {"a/0": "up", "a/1": "up"}, "nothing is concluded from another account's list"
    assert "cloud.alarm" in here.kinds(task)
    assert rung(here) == ["moved"]
    with pytest.raises(CoterieError, match="is another one now"):
        start.plan(here.ledger, start.PlanRequest(manifest=manifest(group("a", 3))))
    removal = start.PlanRequest(deployment="dep", delete=True)
    with pytest.raises(CoterieError, match=r"is another one now|has an alarm"):
        start.deploy(here.ledger, removal, None, None)
    number, survey = cleaning.survey(here.ledger, Options(), None)
    here.wait(survey)
    plan = cleaning.read_plan(here.ledger, number)
    assert plan.items == ()
    assert plan.stopped
    assert len(here.held("vm")) == 2


def test_an_operator_can_say_that_a_cloud_was_moved(here: Site) -> None:
    here.deploy(TWO)
    new = here.cpi(properties={"account": "other"}).identity() or ""
    pinned_clouds.repin(here.ledger, "lab", new, "test")
    look(here)
    assert rung(here) == ["moved"], "the driver that is open still leads to the former account"
    start.set_cloud_config(here.ledger, elsewhere(here), "c.yml")
    look(here)
    assert rung(here) == []
    assert states(here) == {"a/0": "missing", "a/1": "missing"}


def test_an_old_installation_is_pinned_by_its_first_look(here: Site) -> None:
    here.deploy(TWO)
    with here.ledger.write() as tx:
        tx.execute(cloud_pins.delete())
    here.conductor.drain(5.0)
    here.conductor = here.new_conductor("upgraded")
    here.conductor.start()
    look(here)
    with here.ledger.read() as tx:
        assert pins.get(tx, "lab") == identity(here)


def lose(site: Site, names: Sequence[str]) -> None:
    for name in names:
        site.cpi().delete_vm(site.nodes()[name].vm_cid or "")


def test_when_many_nodes_vanish_at_once_an_operator_decides(here: Site) -> None:
    text = manifest(group("a", 8), extra="resurrection: true\n")
    here.deploy(text)
    lose(here, ["a/0", "a/1", "a/2"])
    task = look(here)
    assert rung(here) == ["meltdown"]
    assert "3 of 8 nodes vanished within one look (a/0, a/1, a/2)" in here.story(task)
    assert resurrect(here.ledger, "dep") is None
    with pytest.raises(Conflict, match="has an alarm") as refusal:
        here.plan(text)
    assert "coterie clouds accept lab" in refusal.value.remedy
    number, survey = cleaning.survey(here.ledger, Options(), None)
    here.wait(survey)
    assert "has an alarm" in str(cleaning.read_plan(here.ledger, number).stopped[0].reason)
    look(here)
    assert rung(here) == ["meltdown"], "the alarm stays"
    assert pinned_clouds.accept(here.ledger, "lab", "test") == ["meltdown"]
    look(here)
    assert rung(here) == [], "what was accepted rings no more"
    here.wait(resurrect(here.ledger, "dep") or 0)
    assert set(states(here).values()) == {"up"}


def test_the_alarm_ends_by_itself_when_the_nodes_are_back(here: Site) -> None:
    here.deploy(manifest(group("a", 4)))
    before = {name: node.vm_cid for name, node in here.nodes().items()}
    with here.ledger.write() as tx:
        tx.execute(sa.text('UPDATE nodes SET vm_cid = \'lost-\' || "index" WHERE "index" < 3'))
    look(here)
    assert rung(here) == ["meltdown"]
    with here.ledger.write() as tx:
        for name, cid in before.items():
            tx.execute(sa.text('UPDATE nodes SET vm_cid = :c WHERE "index" = :i'), {"c": cid, "i": int(name[2:])})
    task = look(here)
    assert rung(here) == []
    assert "cloud.alarm_over" in here.kinds(task)


@pytest.mark.parametrize(("lost", "how"), [(2, Look()), (3, Look(meltdown_percent=60)), (3, Look(meltdown_nodes=4))])
def test_few_nodes_are_made_anew_without_a_question(local: Site, lost: int, how: Look) -> None:
    local.deploy(manifest(group("a", 5), extra="resurrection: true\n"))
    lose(local, [f"a/{index}" for index in range(lost)])
    look(local, how=how)
    assert rung(local) == []
    assert resurrect(local.ledger, "dep") is not None


def test_alarms_are_events(local: Site) -> None:
    local.deploy(manifest(group("a", 3)))
    lose(local, ["a/0", "a/1", "a/2"])
    look(local)
    pinned_clouds.accept(local.ledger, "lab", "test")
    with local.ledger.read() as tx:
        kinds = set(tx.execute(sa.select(events.c.kind)).scalars())
    assert {"cloud.alarm", "cloud.accepted"} <= kinds


def test_two_ledgers_under_one_uuid_both_say_so(here: Site) -> None:
    here.deploy(TWO)
    look(here)
    with here.ledger.read() as tx:
        copy = dict(tx.execute(sa.select(cloud_pins)).one()._mapping)  # another Director begins with this ledger
    look(here)
    assert rung(here) == [], "its own token is no stranger's"

    def swap() -> None:
        """Go on as the other Director, with what its own ledger knows."""
        nonlocal copy
        with here.ledger.write() as tx:
            mine = dict(tx.execute(sa.select(cloud_pins)).one()._mapping)
            tx.execute(cloud_pins.update().values(**copy))
            tx.execute(cloud_alarms.delete())
        copy = mine

    age(here)
    look(here)  # the first one leaves a new token
    age(here)
    look(here)  # and another: the copy knows neither
    swap()
    look(here)
    assert rung(here) == ["twin"]
    assert resurrect(here.ledger, "dep") is None
    swap()
    look(here)
    assert rung(here) == ["twin"], "the first one finds the token of the second"
    assert pinned_clouds.accept(here.ledger, "lab", "test") == ["twin"]
    look(here)
    assert rung(here) == []


def age(site: Site) -> None:
    with site.ledger.write() as tx:
        tx.execute(cloud_pins.update().values(token_at=cloud_pins.c.token_at - 3600))


def test_a_cloud_with_objects_gets_no_other_driver(local: Site) -> None:
    """Also where nothing can be asked of the other one: its properties are an example's."""
    local.deploy(TWO)
    other = local.config.replace("driver: sandbox", "driver: exec").replace("settle_s: 0.1", "path: /nowhere/cpi")
    with pytest.raises(CloudMoved, match="cannot get the driver exec"):
        pinned_clouds.refuse_moved_clouds(local.ledger, cloud_rows(load_cloud_config(other, "c.yml").value))
    local.delete()
    pinned_clouds.refuse_moved_clouds(local.ledger, cloud_rows(load_cloud_config(other, "c.yml").value))
