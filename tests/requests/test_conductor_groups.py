"""Conductor groups of azs, instance groups and single nodes: which group their work goes to, and when it may change."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import sqlalchemy as sa

from coterie.conductor.membership import ConductorRole
from coterie.conductor.process import Conductor
from coterie.errors import InvalidDocument, Refused
from coterie.ledger.rows import conductor_groups, nodes
from coterie.ledger.store import Ledger
from coterie.ledger.tables import steps
from coterie.ledger.work import conductors, tasks
from coterie.ledger.work.claims import Claims
from coterie.ledger.work.share import Share
from coterie.ledger.work.stages import Ready
from coterie.ledger.work.steps import Outcome, commit, hand_back, regroup_node
from coterie.ledger.work.tasks import NewStage, NewStep, NewTask
from coterie.requests import regroup, start
from coterie.ring.refusals import GroupUnserved
from tests.requests.site import CONFIG, Site, group, manifest

RACKS = CONFIG.replace("driver: sandbox", "driver: sandbox, other_conductor_groups: [r1, r2, r3]")
ZONED = RACKS.replace("zone: z1}}", "zone: z1}, conductor_group: R1}")


@pytest.fixture
def racks(local: Site) -> Iterator[Site]:
    """A conductor in each of the groups r1 and r2, and the one that stands in for groups without any."""
    there = [conducting(local, name) for name in ("r1", "r2")]
    with there[0], there[1]:
        local.config = ZONED
        yield local


@contextmanager
def conducting(site: Site, name: str) -> Iterator[None]:
    made = Conductor(site.ledger, f"c-{name}", state_folder=site.folder, workers=2, role=ConductorRole(name))
    made.start()
    try:
        yield
    finally:
        made.drain(10)


def runs_in(site: Site) -> dict[str, str]:
    with site.ledger.read() as tx:
        groups = conductor_groups.of_nodes(tx, "dep")
    return {name: groups[node.uuid] for name, node in site.nodes().items()}


def worked_in(site: Site, task: int) -> dict[str, str]:
    """The group of each step of a task, by subject."""
    with site.ledger.read() as tx:
        query = sa.select(steps.c.subject, steps.c.conductor_group).where(steps.c.task == task)
        return dict(tx.execute(query).all())


BOTH = manifest(group("a", 2), group("b", 2, "conductor_group: R2"))


def test_the_instance_group_comes_before_the_az_and_the_az_before_the_cloud(racks: Site) -> None:
    task = racks.deploy(BOTH)
    assert runs_in(racks) == {"a/0": "r1", "a/1": "", "b/0": "r2", "b/1": "r2"}
    worked = worked_in(racks, task)
    assert {name: worked[name] for name in runs_in(racks)} == runs_in(racks)
    assert {one for name, one in worked.items() if name not in runs_in(racks)} == {""}, "the rest is the cloud's"
    uuid = racks.nodes()["b/0"].uuid
    regroup.move_node(racks.ledger, uuid, "r1")
    assert runs_in(racks)["b/0"] == "r1", "the node itself comes first"
    regroup.move_node(racks.ledger, uuid, None)
    assert runs_in(racks)["b/0"] == "r2"
    assert worked_in(racks, racks.delete()).items() >= {"a/0": "r1", "b/0": "r2"}.items()


def test_a_changed_manifest_moves_nodes_without_recreating_them_and_the_plan_says_so(racks: Site) -> None:
    racks.deploy(BOTH)
    before = {name: node.vm_cid for name, node in racks.nodes().items()}
    changed = manifest(group("a", 2, "conductor_group: r2"), group("b", 2))
    plan = racks.plan(changed)
    assert not plan.changes
    assert plan.notes == (
        "1 nodes go from conductor group '' to 'r2': a/1",
        "1 nodes go from conductor group 'r1' to 'r2': a/0",
        "1 nodes go from conductor group 'r2' to '': b/1",
        "1 nodes go from conductor group 'r2' to 'r1': b/0",
    )
    racks.deploy(changed)
    assert runs_in(racks) == {"a/0": "r2", "a/1": "r2", "b/0": "r1", "b/1": ""}
    assert {name: node.vm_cid for name, node in racks.nodes().items()} == before


def test_another_group_of_an_az_counts_as_soon_as_the_cloud_config_is_set(racks: Site) -> None:
    racks.deploy(BOTH)
    start.set_cloud_config(racks.ledger, ZONED.replace("conductor_group: R1", "conductor_group: r2"), "x")
    assert runs_in(racks) == {"a/0": "r2", "a/1": "", "b/0": "r2", "b/1": "r2"}
    start.set_cloud_config(racks.ledger, RACKS, "x")
    assert runs_in(racks) == {"a/0": "", "a/1": "", "b/0": "r2", "b/1": "r2"}
    without = RACKS.replace("r1, r2, r3", "r1, r3")
    with pytest.raises(Refused, match="cannot leave conductor group 'r2'") as refused:
        start.set_cloud_config(racks.ledger, without, "x")
    assert "node dep/b/" in refused.value.why


def test_a_group_that_the_cloud_is_not_sealed_to_is_refused_with_field_and_line(racks: Site) -> None:
    text = manifest(group("a", 1), group("b", 1, "conductor_group: r9"))
    with pytest.raises(InvalidDocument) as caught:
        racks.plan(text)
    (mistake,) = caught.value.details["mistakes"]
    assert mistake["line"] == len(text.splitlines())
    assert mistake["field"] == "instance_groups[b].conductor_group"
    assert mistake["what"] == "cloud 'lab' is not sealed to conductor group 'r9'"


def test_a_plan_for_a_group_without_conductors_is_refused(racks: Site) -> None:
    with racks.ledger.write() as tx:  # else it stands in for groups without one
        tx.execute(sa.text("UPDATE conductors SET every_group = false WHERE name = 'c'"))
    with pytest.raises(GroupUnserved, match="r3"):
        racks.plan(manifest(group("a", 1, "conductor_group: r3")))
    assert racks.plan(manifest(group("a", 1, "conductor_group: r2"))).changes


def test_a_node_moves_only_to_a_group_that_its_cloud_is_sealed_to(racks: Site) -> None:
    racks.deploy(BOTH)
    uuid = racks.nodes()["a/0"].uuid
    with pytest.raises(Refused, match="not sealed to conductor group 'r9'") as refused:
        regroup.move_node(racks.ledger, uuid, "r9")
    assert "add 'r9' to other_conductor_groups of cloud lab" in refused.value.remedy
    with racks.ledger.read() as tx:
        node = nodes.get(tx, uuid)
    assert node is not None and node.conductor_group is None, "nothing was written"


def claims(ledger: Ledger, name: str) -> Claims:
    with ledger.read() as tx:
        return Claims(Share(conductors.living(tx), name), f"{name}#1", ["node.create"])


@pytest.mark.parametrize("end", ["wait", "hand back"])
def test_a_running_step_goes_on_where_it_is_leased_and_to_the_new_group_after_its_rest(here: Site, end: str) -> None:
    here.config = RACKS
    here.conductor.drain(10)
    with here.ledger.write() as tx:
        for name in ("", "r1"):
            conductors.register(tx, f"c-{name}", "1", group=name, drivers=["sandbox"], release="0.1")
    with here.ledger.write() as tx:
        made = [
            NewStep("node.create", "begin", f"a/{n}", {}, node="u", cloud="lab", driver="sandbox") for n in range(2)
        ]
        tasks.create(tx, NewTask("deploy", None, [NewStage("s", made, max_in_flight=1)]))
    old, new = claims(here.ledger, "c-"), claims(here.ledger, "c-r1")
    with here.ledger.write() as tx:
        (held,) = old.claim(tx, 5)
        regroup_node(tx, "u", "r1")
    with here.ledger.write() as tx:
        assert new.claim(tx, 5) == [], "it is leased"
        going_on = Outcome(held, "next", "create_vm", {})
        assert commit(tx, [going_on]) == {held.key}, "its lease holds"
    with here.ledger.write() as tx:
        if end == "wait":
            woken: list[Ready] = []
            assert commit(tx, [Outcome(held, "wait", "create_vm", {})], woken) == {held.key}
            fleet = Share(conductors.living(tx), "c-")
            assert [fleet.owner(*one) for one in woken] == ["c-r1"], "it need not wait for its next poll"
        else:
            assert hand_back(tx, held)
    with here.ledger.write() as tx:
        assert old.claim(tx, 5) == []
        (taken,) = new.claim(tx, 5)
        assert (taken.id, taken.label) == (held.id, "create_vm")
        commit(tx, [Outcome(taken, "done", "create_vm", {})])
    with here.ledger.write() as tx:
        assert old.claim(tx, 5) == []
        (later,) = new.claim(tx, 5)
        assert later.id != held.id, "later steps of the node go there, too"
