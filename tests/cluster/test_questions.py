"""Questions about clouds with several conductors in a group: each is answered by its owner, at once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from coterie.conductor.membership import ConductorRole
from coterie.conductor.process import Conductor
from coterie.ids import Ids
from coterie.ledger import store
from coterie.ledger.rows import clouds, facts, identity, stemcells
from coterie.ledger.rows.clouds import CloudRow
from coterie.ledger.store import Ledger, Tx
from coterie.ledger.work import conductors
from coterie.ledger.work.share import Share
from coterie.requests import start
from tests.cluster.fleet import until
from tests.ledger.blank import postgres_database, postgres_template

GROUP = "east"
NAMES = ("a", "b")
CLOUDS = [CloudRow(f"cloud-{number}", "sandbox", {}, GROUP) for number in range(8)]


@pytest.fixture
def url(postgres_server: str) -> str:
    return postgres_database(postgres_server, postgres_template(postgres_server))


@pytest.fixture
def ledger(url: str) -> Iterator[Ledger]:
    opened = Ledger.open(url)
    identity.ensure_director(opened, "test", Ids())
    yield opened
    opened.close()


def test_a_conductor_hides_no_question_from_its_owner(ledger: Ledger) -> None:
    """Both look at the same moment: the transaction of each is open while the other one claims."""
    owned = _join_and_ask(ledger)
    for other, owner in (NAMES, NAMES[::-1]):
        for cloud in owned[owner]:
            with ledger.write() as mine, ledger.write() as tx:
                assert _claim(mine, other, except_for=owned[other]) is None
                assert _claim(tx, owner, except_for=[one for one in owned[owner] if one != cloud]) == cloud


def test_a_question_is_taken_once_while_the_ring_changes(ledger: Ledger) -> None:
    """Two conductors that both think that they own it: the second one waits for the first, and gets nothing."""
    with ledger.write() as tx:
        facts.want(tx, CLOUDS[0], "check", {})
    alone = {}
    for name in NAMES:
        with ledger.write() as tx:
            _register(tx, name)
            alone[name] = Share(conductors.fleet(tx), name)
            conductors.leave(tx, name, name)
    taken: list[facts.Wanted | None] = []

    def take() -> None:
        with ledger.write() as tx:
            taken.append(facts.claim(tx, "b#1", 60.0, alone["b"]))

    late = threading.Thread(target=take)
    with ledger.write() as tx:
        assert facts.claim(tx, "a#1", 60.0, alone["a"]) is not None
        late.start()
        assert not taken
    late.join(60)
    assert taken == [None]


def test_a_question_that_is_overtaken_does_not_close_the_one_that_was_asked_later(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two plans ask the same; the first one to read the clock is the last one to write."""
    cloud, asked = CLOUDS[0], []
    read_cloud = clouds.get

    def overtake(tx: Tx, name: str) -> CloudRow | None:
        """Between the clock and the row of the first one."""
        monkeypatch.undo()
        with ledger.write() as other:
            asked.append(facts.want(other, cloud, "check", {}))
        return read_cloud(tx, name)

    with ledger.write() as tx:
        _register(tx, "a")
        share = Share(conductors.fleet(tx), "a")
    monkeypatch.setattr(clouds, "get", overtake)
    with ledger.write() as tx:
        asked.append(facts.want(tx, cloud, "check", {}))
    later, earlier = asked
    assert earlier < later
    with ledger.write() as tx:
        wanted = facts.claim(tx, "a#1", 60.0, share)
        assert wanted is not None
        facts.answer(tx, "a#1", wanted, (earlier + later) / 2, {}, None)  # begun between the two
    with ledger.write() as tx:
        assert facts.find_answer(tx, cloud.name, "check", earlier) is not None
        assert facts.find_answer(tx, cloud.name, "check", later) is None
        assert facts.claim(tx, "a#1", 60.0, share) is not None, "the later one is open still"


def test_twenty_plans_with_two_conductors_wait_for_no_poll(
    ledger: Ledger, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A conductor that waits for its next look would wait for ten minutes; a plan gives up after one."""
    monkeypatch.setattr(store, "_TRUST_S", 600.0)
    monkeypatch.setattr(store, "_POLL_S", 600.0)
    with ledger.write() as tx:
        stemcells.add(tx, "os", "1", "image", "1", {"image": "x"}, [])
    with ExitStack() as fleet:
        for name in NAMES:
            own = Ledger.open(url)
            fleet.callback(own.close)
            made = Conductor(own, name, state_folder=tmp_path, role=ConductorRole(GROUP), workers=1)
            made.start()
            fleet.callback(made.drain, 10.0)
            until(lambda own=own: own.poll_s == 600.0 and own._wakeups.listening, "no wake-ups", 60)
        for number in range(20):
            config = _config(CLOUDS[number % len(CLOUDS)].name)
            plan = start.plan(ledger, start.PlanRequest(manifest=_MANIFEST, cloud_config=config))
            assert [change.action for change in plan.changes].count("create") == 2


def _join_and_ask(ledger: Ledger) -> dict[str, list[str]]:
    """One open question for each cloud; the clouds of each conductor."""
    with ledger.write() as tx:
        clouds.set_config(tx, "test", CLOUDS)
        for name in NAMES:
            _register(tx, name)
        for cloud in CLOUDS:
            facts.want(tx, cloud, "check", {})
        shares = {name: Share(conductors.fleet(tx), name) for name in NAMES}
    owned = {name: [one.name for one in CLOUDS if shares[name].holds(GROUP, "sandbox", one.name)] for name in NAMES}
    assert all(owned.values()), "the ring gives each of them something"
    return owned


def _register(tx: Tx, name: str) -> None:
    conductors.register(tx, name, name, group=GROUP, drivers=["sandbox"], release="1")


def _claim(tx: Tx, name: str, except_for: list[str]) -> str | None:
    wanted = facts.claim(tx, f"{name}#1", 60.0, Share(conductors.fleet(tx), name), besides=except_for)
    return wanted.cloud if wanted else None


_MANIFEST = """
name: dep
stemcells: [{alias: s, name: os, version: '1'}]
instance_groups:
- {name: n, instances: 1, azs: [z], vm_type: small, stemcell: s, networks: [{name: net}]}
"""


def _config(cloud: str) -> str:
    return f"""
clouds: [{{name: {cloud}, driver: sandbox, conductor_group: {GROUP}}}]
azs: [{{name: z, cloud: {cloud}, cloud_properties: {{zone: z1}}}}]
vm_types: [{{name: small, cloud_properties: {{cpu: 1, ram_mb: 256, disk_mb: 1024}}}}]
networks: [{{name: net, type: dynamic}}]
"""
