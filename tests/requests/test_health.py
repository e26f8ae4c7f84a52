"""A node's health is checked with every look: a node that fails is `failing` until it passes again, or is recreated."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest
import sqlalchemy as sa

from coterie.errors import NotFound, Refused
from coterie.flows.look import LOOK, Look
from coterie.ledger.tables import steps
from coterie.ledger.work import conductors
from coterie.ledger.work import steps as step_rows
from coterie.plan import render
from coterie.requests import looks
from coterie.requests.looks import Scope
from coterie.requests.resurrection import resurrect
from tests.requests.site import Site, group, manifest

FIRST = "127.20.0.2"  # of az z1, the first that is free


@contextmanager
def service(address: str, port: int = 0) -> Iterator[int]:
    """Something that accepts connections there; its port."""
    with closing(socket.socket()) as door:
        door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        door.bind((address, port))
        door.listen(16)
        yield door.getsockname()[1]


def checked(port: int, instances: int = 1, more: str = "") -> str:
    health = f"health: {{kind: tcp, port: {port}, interval_s: 0.1, timeout_s: 0.5{more}}}"
    return manifest(group("a", instances, health, azs="z1"), extra="resurrection: true\n")


def look(site: Site, scope: Scope | None = None) -> int:
    task = looks.look(site.ledger, None, scope)
    assert task is not None
    site.wait(task)
    return task


def state(site: Site, name: str = "a/0") -> str:
    return site.nodes()[name].state


def test_a_node_fails_and_passes_again(here: Site) -> None:
    with service(FIRST) as port:
        here.deploy(checked(port))
        assert here.nodes()["a/0"].addresses == {"net": FIRST}
        look(here)
        assert state(here) == "up"
    task = look(here)
    assert state(here) == "failing"
    assert f"dep: a/0 fails its health check: tcp check of {FIRST} port {port}" in here.story(task)
    assert "refused" in here.nodes()["a/0"].problem["what"]
    assert "node.failing" not in here.kinds(look(here)), "it says so once"
    assert resurrect(here.ledger, "dep") is None, "two failures may pass"
    with service(FIRST, port):
        task = look(here)
    assert (state(here), here.nodes()["a/0"].problem) == ("up", None)
    assert "dep: a/0 passes its health check again" in here.story(task)


def test_after_some_failures_it_is_recreated(local: Site) -> None:
    with service(FIRST) as port:
        local.deploy(checked(port))
    before = local.nodes()["a/0"].vm_cid
    for _ in range(3):
        task = look(local)
    assert "failed its health check 3 times in a row; resurrection or the next deploy recreates it" in local.story(task)
    with service(FIRST, port):
        revived = resurrect(local.ledger, "dep")
        assert revived is not None
        local.wait(revived)
    assert state(local) == "up"
    assert local.nodes()["a/0"].vm_cid != before
    assert "its health check fails: tcp check" in local.story(revived)


def test_a_plan_recreates_it_only_then(local: Site) -> None:
    with service(FIRST) as port:
        text = checked(port, more=", recreate_after: 2")
        local.deploy(text)
    look(local)
    plan = local.plan(text)
    assert plan.changes == ()
    assert "Note: a/0: the health check fails" in render.text(plan)
    look(local)
    (change,) = local.plan(text).changes
    assert (change.action, change.subject) == ("recreate", "a/0")
    assert change.reason.startswith("its health check fails: tcp check")


def test_it_is_never_recreated_where_the_manifest_says_so(local: Site) -> None:
    with service(FIRST) as port:
        text = checked(port, more=", recreate_after: 0")
        local.deploy(text)
    for _ in range(4):
        look(local)
    assert state(local) == "failing"
    assert resurrect(local.ledger, "dep") is None
    assert local.plan(text).changes == ()


def test_when_many_fail_at_once_none_is_recreated_for_that(local: Site) -> None:
    """More likely the way to them is broken."""
    with service("0.0.0.0") as port:
        local.deploy(checked(port, 4))
    for _ in range(3):
        look(local)
    assert {node.state for node in local.nodes().values()} == {"failing"}
    assert resurrect(local.ledger, "dep") is None
    plan = local.plan(checked(port, 4))
    assert plan.changes == ()
    (note,) = plan.notes
    assert note.startswith("a/0, a/1, a/2, a/3: the health check fails, as that of so many in the cloud that")
    (asked,) = local.plan(checked(port, 4), recreate=True, nodes=("a/1",)).changes
    assert (asked.subject, asked.reason) == ("a/1", "asked for")
    believed = local.plan(checked(port, 4), meltdown=Look(meltdown_nodes=5)).changes
    assert [change.action for change in believed] == ["recreate"] * 4
    with service("0.0.0.0", port):
        assert resurrect(local.ledger, "dep", Look(meltdown_nodes=5)) is not None


def test_a_vm_that_runs_again_is_up_when_it_is_healthy(local: Site) -> None:
    with service(FIRST) as port:
        local.deploy(checked(port))
        cid = local.nodes()["a/0"].vm_cid
        with local.ledger.write() as tx:
            tx.exec_driver_sql("UPDATE nodes SET vm_cid = 'lost'")
        look(local)
        assert state(local) == "missing"
    with local.ledger.write() as tx:
        tx.exec_driver_sql(f"UPDATE nodes SET vm_cid = '{cid}'")
    look(local)
    assert state(local) == "failing"
    with service(FIRST, port):
        look(local)
    assert state(local) == "up"


def test_one_node_or_one_deployment_can_be_looked_at(local: Site) -> None:
    with service("0.0.0.0") as port:
        local.deploy(checked(port, 2))
    uuid = local.nodes()["a/1"].uuid
    task = look(local, Scope(node=uuid))
    assert {name: node.state for name, node in local.nodes().items()} == {"a/0": "up", "a/1": "failing"}
    for name in ("a/0", "a/1"):
        local.cpi().delete_vm(local.nodes()[name].vm_cid or "")
    task = look(local, Scope(node=uuid))
    assert {name: node.state for name, node in local.nodes().items()} == {"a/0": "up", "a/1": "missing"}
    assert "node.missing" in local.kinds(task)
    look(local, Scope(deployment="dep"))
    assert state(local, "a/0") == "missing"
    with pytest.raises(NotFound, match="deployment other has no nodes"):
        looks.look(local.ledger, None, Scope(deployment="other"))


def test_a_look_at_one_deployment_rings_the_alarm_too(local: Site) -> None:
    local.deploy(manifest(group("a", 4)))
    for node in local.nodes().values():
        local.cpi().delete_vm(node.vm_cid or "")
    assert "4 of 4 nodes vanished within one look" in local.story(look(local, Scope(deployment="dep")))
    assert resurrect(local.ledger, "dep") is None


def test_however_often_a_person_looks_that_recreates_no_node(local: Site) -> None:
    with service(FIRST) as port:
        local.deploy(checked(port))
    told = [local.kinds(look(local, Scope(deployment="dep"))).count("node.failing") for _ in range(5)]
    assert (state(local), told) == ("failing", [1, 0, 0, 0, 0])
    assert resurrect(local.ledger, "dep") is None
    assert local.plan(checked(port)).changes == ()
    for failures in (1, 2, 3):
        look(local)
        look(local, Scope())
        assert local.nodes()["a/0"].failed_checks == failures
    assert resurrect(local.ledger, "dep") is not None


def test_a_look_at_one_node_rings_the_alarm_of_its_cloud(local: Site) -> None:
    local.deploy(manifest(group("a", 4)))
    for node in local.nodes().values():
        local.cpi().delete_vm(node.vm_cid or "")
    task = look(local, Scope(node=local.nodes()["a/1"].uuid))
    assert "4 of 4 nodes vanished within one look" in local.story(task)
    assert [node.state for node in local.nodes().values()] == ["up", "missing", "up", "up"]
    assert resurrect(local.ledger, "dep") is None


def test_a_look_at_a_small_deployment_is_judged_by_the_whole_cloud(local: Site) -> None:
    """Where most of a cloud has vanished, that one deployment is only a small part of it proves nothing."""
    local.deploy(manifest(group("a", 12)))
    local.deploy(manifest(group("b", 2)).replace("name: dep", "name: small"))
    for node in [*local.nodes().values(), *local.nodes("small").values()]:
        local.cpi().delete_vm(node.vm_cid or "")
    task = look(local, Scope(deployment="small"))
    assert "14 of 14 nodes vanished within one look" in local.story(task)
    assert {node.state for node in local.nodes().values()} == {"up"}
    assert resurrect(local.ledger, "small") is None


def test_three_lost_nodes_of_a_large_cloud_are_no_meltdown(local: Site) -> None:
    local.deploy(manifest(group("a", 12)))
    local.deploy(manifest(group("b", 3)).replace("name: dep", "name: small"))
    for node in local.nodes("small").values():
        local.cpi().delete_vm(node.vm_cid or "")
    look(local, Scope(deployment="small"))
    assert {node.state for node in local.nodes("small").values()} == {"missing"}
    assert resurrect(local.ledger, "small") is not None


def test_a_look_leaves_out_a_cloud_without_a_conductor_and_says_so(here: Site) -> None:
    with service(FIRST) as port:
        here.deploy(checked(port))
        add_cloud(here, "far")
        for _ in range(2):
            task = look(here)
            assert steps_of(here, task) == ["look lab", "node.health lab"]
            assert "1 cloud, without far: no conductor is alive for it" in here.story(task)
    look(here, Scope())
    assert state(here) == "failing"


def test_a_look_at_a_cloud_without_a_conductor_is_refused(here: Site) -> None:
    here.deploy(manifest(group("a", 1)))
    here.conductor.drain(5.0)
    with pytest.raises(Refused, match="no conductor is alive"):
        looks.look(here.ledger, None, Scope(deployment="dep"))
    assert looks.look(here.ledger) is None, "the periodic look waits for the next period"


def test_a_look_that_waits_for_one_cloud_holds_up_no_other(here: Site) -> None:
    """Its conductor has died, and its lease goes on."""
    with service(FIRST) as port:
        here.deploy(checked(port))
    add_cloud(here, "far")
    with here.ledger.write() as tx:
        conductors.register(tx, "far", "1", group="", drivers=["elsewhere"], release="0.1.0")
    give_up = time.monotonic() + 30
    while here.nodes()["a/0"].failed_checks < 2:
        assert time.monotonic() < give_up
        looks.look(here.ledger)
        time.sleep(0.1)
    with here.ledger.read() as tx:
        assert "far" in {cloud for cloud, _ in step_rows.under_way(tx, LOOK.name)}, "it waits still"


def add_cloud(site: Site, name: str) -> None:
    """One whose driver no conductor has."""
    with site.ledger.write() as tx:
        columns, row = "name, driver, properties, conductor_group", f"'{name}', 'elsewhere', '{{}}', ''"
        tx.exec_driver_sql(f"INSERT INTO clouds ({columns}) VALUES ({row})")


def steps_of(site: Site, task: int) -> list[str]:
    with site.ledger.read() as tx:
        rows = tx.execute(sa.select(steps.c.flow, steps.c.subject).where(steps.c.task == task).order_by(steps.c.id))
        return [" ".join(row) for row in rows]
