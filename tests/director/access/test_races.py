"""Two teams want one new name: whoever is accepted first has it, however far the other one has planned."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from coterie.conductor.process import Conductor
from coterie.director.context import Office
from coterie.ledger.rows import ownerships
from coterie.ledger.rows.deployments import get
from coterie.requests import draft, start
from tests.cli.conftest import CLOUD, MANIFEST
from tests.director.access.conftest import Make
from tests.ledger.views import rows

WISH = {"manifest": MANIFEST, "manifest_file": "web.yml"}


@pytest.fixture
def working(office: Office, person: Make) -> Iterator[Office]:
    conductor = Conductor(office.ledger, "test", state_folder=office.home.folder, workers=1)
    conductor.start()
    admin = person("admin", name="a")
    light = {"name": "debian-12", "version": "1.1", "cloud_properties": {"image": "x"}}
    assert admin.send("POST", "/v1/stemcells", light).status == 201
    start.set_cloud_config(office.ledger, CLOUD, "cloud.yml")
    yield office
    conductor.drain(10)


@pytest.mark.parametrize("team", ["red", None])
def test_a_name_that_is_taken_while_one_plans_is_refused(
    working: Office, person: Make, monkeypatch: pytest.MonkeyPatch, team: str | None
) -> None:
    read = draft.read

    def overtaken(*arguments: object) -> object:
        """Everything of the other's first deploy comes after our first look, and before our planning."""
        rows.deployment(working.ledger, "web")
        with working.ledger.write() as tx:
            ownerships.assign(tx, "web", team)
        return read(*arguments)  # type: ignore[arg-type]  # passed on as they are

    monkeypatch.setattr(draft, "read", overtaken)
    told = person("operator", "blue").send("PUT", "/v1/deployments/web", WISH)
    assert (told.status, told.json["code"]) == (403, "forbidden"), told.text
    with working.ledger.read() as tx:
        assert ownerships.team_of(tx, "web") == team
        assert (found := get(tx, "web")) is not None and found.manifest != MANIFEST


def test_a_deployment_is_its_team_s_from_the_moment_it_is_accepted(working: Office, person: Make) -> None:
    told = person("operator", "blue").send("PUT", "/v1/deployments/web", WISH)
    assert told.status == 202, told.text
    with working.ledger.read() as tx:
        assert ownerships.team_of(tx, "web") == "blue"
    late = person("operator", "red", name="r").send("PUT", "/v1/deployments/web", WISH)
    assert late.status == 403


def test_a_deploy_that_is_not_accepted_takes_no_name(working: Office, person: Make) -> None:
    told = person("operator", "blue").send("PUT", "/v1/deployments/web", {**WISH, "plan": "another"})
    assert told.status == 412, told.text
    with working.ledger.read() as tx:
        assert ownerships.is_unused(tx, "web")


def test_a_deployment_that_went_to_another_team_while_one_plans_is_not_deleted(
    working: Office, person: Make, monkeypatch: pytest.MonkeyPatch
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
