"""A cloud whose list of VMs is incomplete, as while one of its hosts is silent: what the list lacks is looked for by
itself, and nothing is concluded from what cannot be looked for."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from coterie.cpi.contract import CloudObject, Kind, Mark, SurveyPage, Unavailable
from coterie.cpi.drivers.sandbox.driver import SandboxCpi
from coterie.flows import look as looking
from coterie.flows.look import Look
from coterie.ledger.rows import alarms
from coterie.requests import looks
from coterie.slotted import replace
from tests.requests.site import Site, group, manifest


@dataclass(slots=True)
class Cloud:
    """How the sandbox answers. `hidden`: VMs that an incomplete list lacks; `silent`: one that cannot be looked for."""

    is_complete: bool = True
    hidden: tuple[str | None, ...] = ()
    silent: str | None = None


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch) -> Cloud:
    made, survey, find = Cloud(), SandboxCpi.survey, SandboxCpi.find

    def survey_some(self: SandboxCpi, kind: Kind, director_uuid: str, cursor: str | None = None) -> SurveyPage:
        page = survey(self, kind, director_uuid, cursor)
        kept = tuple(one for one in page.objects if one.cid not in made.hidden)
        return replace(page, objects=kept, complete=made.is_complete or kind != "vm")

    def find_unless_silent(self: SandboxCpi, kind: Kind, mark: Mark) -> CloudObject | None:
        if mark.intent == made.silent:
            raise Unavailable("its host is silent", remedy="bring it back")
        return find(self, kind, mark)

    monkeypatch.setattr(SandboxCpi, "survey", survey_some)
    monkeypatch.setattr(SandboxCpi, "find", find_unless_silent)
    return made


def look(site: Site, how: Look | None = None) -> str:
    """What the look says."""
    task = looks.look(site.ledger, how) or 0
    site.wait(task)
    return site.story(task)


def states(site: Site) -> dict[str, str]:
    return {name: node.state for name, node in site.nodes().items()}


def test_a_vm_that_is_gone_is_noticed_while_the_list_is_incomplete(local: Site, cloud: Cloud) -> None:
    local.deploy(manifest(group("a", 3)))
    gone, unlisted = (local.nodes()[name].vm_cid for name in ("a/0", "a/1"))
    local.cpi().delete_vm(gone or "")
    cloud.is_complete, cloud.hidden = False, (unlisted,)
    look(local)
    assert states(local) == {"a/0": "missing", "a/1": "up", "a/2": "up"}


def test_what_cannot_be_looked_for_stays_as_it_was(local: Site, cloud: Cloud) -> None:
    local.deploy(manifest(group("a", 2)))
    node = local.nodes()["a/0"]
    cloud.is_complete, cloud.hidden, cloud.silent = False, (node.vm_cid,), node.vm_intent
    assert "of a/0 nothing is known: its host is silent" in look(local)
    assert states(local) == {"a/0": "up", "a/1": "up"}


def test_of_many_that_an_incomplete_list_lacks_nothing_is_concluded(
    local: Site, cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(looking, "_FEW", 2)
    local.deploy(manifest(group("a", 4)))
    for name in ("a/0", "a/1", "a/2"):
        local.cpi().delete_vm(local.nodes()[name].vm_cid or "")
    cloud.is_complete = False
    assert "of 3 nodes nothing is concluded" in look(local)
    assert set(states(local).values()) == {"up"}


def test_what_came_late_is_noted_from_a_whole_list_only(
    local: Site, cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy of a VM may be listed while the VM itself is not."""
    noted: list[set[str]] = []
    monkeypatch.setattr(looking, "_note_arrivals", lambda work, seen: noted.append(set(seen)))
    local.deploy(manifest(group("a", 2)))
    cloud.is_complete = False
    look(local)
    assert noted == []
    cloud.is_complete = True
    look(local)
    assert noted == [{node.vm_cid for node in local.nodes().values()}]


def test_an_incomplete_list_ends_no_alarm(local: Site, cloud: Cloud) -> None:
    local.deploy(manifest(group("a", 3)))
    for name in ("a/0", "a/1"):
        local.cpi().delete_vm(local.nodes()[name].vm_cid or "")
    look(local, Look(meltdown_nodes=2))
    cloud.is_complete = False
    look(local)
    assert rung(local) == [alarms.MELTDOWN]
    cloud.is_complete = True
    look(local)
    assert rung(local) == []


def rung(site: Site) -> list[str]:
    with site.ledger.read() as tx:
        return [one.kind for one in alarms.of_clouds(tx).get("lab", [])]
