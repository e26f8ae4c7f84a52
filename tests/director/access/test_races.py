"""Two teams deploy under one new name: the first accepted deploy gets it, however far the other one has planned."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from coterie.conductor.process import Conductor
from coterie.director.context import AppContext
from coterie.ledger.rows import ownerships
from coterie.ledger.rows.deployments import get
from coterie.requests import draft, start
from tests.cli.conftest import CLOUD, MANIFEST
from tests.director.access.conftest import Make
from tests.ledger.views import rows

WISH = {"manifest": MANIFEST, "manifest_file": "web.yml"}


@pytest.fixture
def working(context: AppContext, person: Make) -> Iterator[AppContext]:
    conductor = Conductor(context.ledger, "test", state_folder=context.state_folder.path, workers=1)
    conductor.start()
    admin = person("admin", name="a")
    light = {"name": "debian-12", "version": "1.1", "cloud_properties": {"image": "x"}}
    assert admin.send("POST", "/v1/stemcells", light).status == 201
    start.set_cloud_config(context.ledger, CLOUD, "cloud.yml")
    yield context
    conductor.drain(10)


@pytest.mark.parametrize("team", ["red", None])
def test_a_name_that_is_taken_while_one_plans_is_refused(
    working: AppContext, person: Make, monkeypatch: pytest.MonkeyPatch, team: str | None
) -> None:
    read = draft.read

    def overtaken(*arguments: object) -> object:
        """Everything of the other's first deploy comes after our first look, and before our planning."""
        rows.deployment(working.ledger, "web")
        with working.ledger.write() as tx:
            ownerships.assign(tx, "web", team)
        return read(*arguments)  # type: ignore[arg-type]  # passed on as they are

    monkeypatch.setattr(draft, "read", overtaken)
    given = person("operator", "blue").send("PUT", "/v1/deployments/web", WISH)
    assert (given.status, given.json["code"]) == (403, "forbidden"), given.text
    with working.ledger.read() as tx:
        assert ownerships.team_of(tx, "web") == team
        assert (found := get(tx, "web")) is not None and found.manifest != MANIFEST


def test_a_deployment_is_its_team_s_from_the_moment_it_is_accepted(working: AppContext, person: Make) -> None:
    given = person("operator", "blue").send("PUT", "/v1/deployments/web", WISH)
    assert given.status == 202, given.text
    with working.ledger.read() as tx:
        assert ownerships.team_of(tx, "web") == "blue"
    late = person("operator", "red", name="r").send("PUT", "/v1/deployments/web", WISH)
    assert late.status == 403


def test_a_deploy_that_is_not_accepted_takes_no_name(working: AppContext, person: Make) -> None:
    given = person("operator", "blue").send("PUT", "/v1/deployments/web", {**WISH, "plan": "another"})
    assert given.status == 412, given.text
    with working.ledger.read() as tx:
        assert ownerships.is_unused(tx, "web")


def test_a_deployment_that_went_to_another_team_while_one_plans_is_not_deleted(
    working: AppContext, person: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows.deployment(working.ledger, "web")
    with working.ledger.write() as tx:
        ownerships.assign(tx, "web", "blue")
    read = draft.read

    def moved(*arguments: object) -> object:
        with working.ledger.write() as tx:
            ownerships.assign(tx, "web", "red")
        return read(*arguments)  # type: ignore[arg-type]  # passed on as they are

    monkeypatch.setattr(draft, "read", moved)
    assert person("operator", "blue").send("DELETE", "/v1/deployments/web").status == 403
