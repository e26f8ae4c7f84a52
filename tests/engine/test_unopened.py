"""A cloud whose driver cannot be opened: its steps fail as steps do, and their nodes say so and can be mended."""

from __future__ import annotations

import pytest

from coterie.cpi.drivers.sandbox.driver import SandboxCpi
from coterie.ledger.store import Tx
from coterie.ledger.tables import clouds
from coterie.requests import start
from coterie.requests.request import PlanRequest
from tests.requests.site import Site, group, manifest

MANIFEST = manifest(group("a", 2, azs="z1"))


def spoil(tx: Tx) -> None:
    """After the planning, which would be refused, and before the first step."""
    tx.execute(clouds.update().values(properties={"no_such_property": 1}))


def mend(site: Site) -> None:
    with site.ledger.write() as tx:
        tx.execute(clouds.update().values(properties={"settle_s": 0.1}))


def broken(site: Site, **fields: object) -> int:
    request = PlanRequest(**fields)  # type: ignore[arg-type] # as the tests write it
    task = start.deploy(site.ledger, request, None, "test", permit=spoil)
    site.wait(task, "failed")
    assert "no_such_property" in site.story(task)
    return task


def test_nodes_that_were_to_be_made_are_failing_and_are_made_by_the_next_deploy(local: Site) -> None:
    local.deploy(manifest(group("b", 1, azs="z1")))  # the image is there, so nodes come first
    broken(local, manifest=MANIFEST)
    left = [node for name, node in local.nodes().items() if name == "a/0"]
    assert [(node.state, node.problem["code"]) for node in left if node.problem] == [("failing", "invalid_call")]
    mend(local)
    local.deploy(MANIFEST)
    assert {node.state for node in local.nodes().values()} == {"up"}


def test_nodes_that_were_to_be_changed_or_removed_are_failing_and_go_in_the_end(local: Site) -> None:
    local.deploy(MANIFEST)
    broken(local, manifest=manifest(group("a", 2, "persistent_disk: 1024", azs="z1")))
    assert local.nodes()["a/0"].state == "failing"
    mend(local)
    local.deploy(MANIFEST)
    broken(local, deployment="dep", delete=True)
    assert {node.state for node in local.nodes().values()} == {"failing"}
    mend(local)
    local.delete()
    assert local.nodes() == {}
    assert local.held("vm") == []


def test_a_driver_that_breaks_when_it_is_opened_is_told_as_a_defect(
    local: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    local.deploy(manifest(group("b", 1, azs="z1")))

    def breaks(self: SandboxCpi, *arguments: object) -> None:
        raise RuntimeError("as no driver should")

    def spoil_too(tx: Tx) -> None:
        tx.execute(clouds.update().values(properties={"settle_s": 0.2}))  # so that it is opened anew
        monkeypatch.setattr(SandboxCpi, "__init__", breaks)

    task = start.deploy(local.ledger, PlanRequest(manifest=MANIFEST), None, "test", permit=spoil_too)
    local.wait(task, "failed")
    assert "unexpected RuntimeError" in local.story(task)
    assert local.nodes()["a/0"].state == "failing"
    monkeypatch.undo()
    local.deploy(MANIFEST)
