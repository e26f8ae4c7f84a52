"""A deletion and a cleanup whose conductors are killed again and again leave nothing, and touch nothing of others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from coterie.cleanup import start as cleaning
from coterie.cleanup.options import Options
from coterie.ledger.store import Ledger
from coterie.ledger.work import conductors
from coterie.requests import start
from coterie.requests.draft import accept_draft, draft_plan
from coterie.requests.operations import abandon
from tests.cleanup.yard import AT_ONCE, Yard
from tests.kill.storm import run_in_storm
from tests.requests.site import group, manifest, site

MORE = "persistent_disk: 64, placement: {policy: soft-anti-affinity}, security_groups: [guard]"
TEXT = manifest(group("a", 6, MORE))
KILLS, LONGEST_S = 5, 0.3
DATABASES = pytest.mark.parametrize(
    "database_url", ["postgresql", pytest.param("sqlite", marks=pytest.mark.full)], indirect=True
)


@pytest.fixture
def yard(database_url: str, tmp_path: Path) -> Iterator[Yard]:
    """With a deployment, and objects of others. No conductor runs when the test ends."""
    (tmp_path / "site").mkdir()
    ledger = Ledger.open(database_url)
    with site(ledger, tmp_path / "site") as made:
        made.deploy(TEXT)
        found = Yard(made)
        found.plant()
        yield found
    ledger.close()


@DATABASES
@pytest.mark.timeout(300)
def test_a_deletion(yard: Yard, database_url: str) -> None:
    foreign, here = yard.foreign(), yard.site
    draft = draft_plan(here.ledger, start.PlanRequest(deployment="dep", delete=True, delete_disks=True))
    here.conductor.drain(10.0)
    task = accept_draft(here.ledger, draft, "delete", None)
    assert run_in_storm(database_url, here.folder, task, kills=KILLS, longest_s=LONGEST_S)
    here.wait(task)
    assert (yard.held(), yard.foreign()) == ({}, foreign)


@DATABASES
@pytest.mark.timeout(300)
def test_a_cleanup(yard: Yard, database_url: str) -> None:
    foreign, here = yard.foreign(), yard.site
    here.conductor.drain(10.0)
    abandon(here.ledger, "dep")
    with here.ledger.write() as tx:  # a survey is begun only where a conductor is alive: this one dies at once
        conductors.register(tx, "died", "1", group="", drivers=["sandbox"], release="0.1.0", ttl_s=1.0)
    number, survey = cleaning.survey(here.ledger, Options.of_wire(AT_ONCE), "test")
    killed = run_in_storm(database_url, here.folder, survey, kills=KILLS, longest_s=LONGEST_S)
    here.wait(survey)
    plan = cleaning.read_plan(here.ledger, number)
    assert plan.stopped == ()
    sweep = cleaning.apply(here.ledger, number, plan.id, "test")
    killed += run_in_storm(database_url, here.folder, sweep, kills=KILLS, longest_s=LONGEST_S)
    here.wait(sweep)
    assert (yard.held(), yard.foreign()) == ({}, foreign)
    assert killed
