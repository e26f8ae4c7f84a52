"""A deletion and a cleanup on the real OpenStack whose conductors are killed again and again, at any moment: both end,
leave nothing, and touch nothing of others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from peers.openstack_bed import OpenstackBed
from peers.openstack_operator import until
from tests.cleanup.yard import AT_ONCE
from tests.cpi.drivers.openstack.killing import settled
from tests.cpi.drivers.openstack.place import Place, placed
from tests.kill.storm import run_in_storm
from tests.requests.site import group, manifest

from coterie.cleanup import start as cleaning
from coterie.cleanup.options import Options
from coterie.cpi.contract import KINDS
from coterie.ledger.work import conductors
from coterie.requests import start
from coterie.requests.draft import accept_draft, draft_plan
from coterie.requests.operations import abandon

pytestmark = pytest.mark.timeout(1800)
MORE = "persistent_disk: 1024, placement: {policy: soft-anti-affinity}, security_groups: [web]"
TEXT = manifest(group("a", 6, MORE, azs="z1"))
KILLS, LONGEST_S = 12, 4.0


class Storm:
    """A deployment, objects of others, and no conductor but those that are killed."""

    def __init__(self, bed: OpenstackBed, place: Place, folder: Path) -> None:
        self.place = place
        self._bed = bed
        self._url = f"sqlite:///{folder / 'ledger.db'}"
        self._before = bed.inventory()
        place.deploy(TEXT)
        ours = bed.inventory()
        self._theirs = [(kind, bed.operator.create(kind, "z1")) for kind in KINDS]
        self._foreign = bed.inventory() - ours

    def run(self, task: int) -> int:
        """How many conductors were killed before the task was done."""
        killed = run_in_storm(self._url, self.place.folder, task, kills=KILLS, longest_s=LONGEST_S, patience_s=900.0)
        self.place.wait(task)
        return killed

    def assert_only_others_are_left(self) -> None:
        until(lambda: settled(self._bed))
        left: Any = self._bed.inventory()
        assert left == self._before | self._foreign, sorted(left ^ (self._before | self._foreign))

    def close(self) -> None:
        for kind, cid in self._theirs:
            if cid:
                self._bed.operator.delete(kind, cid)


@pytest.fixture
def storm(bed: OpenstackBed, tmp_path: Path) -> Iterator[Storm]:
    bed.more["settle_s"] = 1
    with placed(tmp_path, bed) as place:
        made = Storm(bed, place, tmp_path)
        yield made
        made.close()


def test_a_deletion(storm: Storm) -> None:
    place = storm.place
    draft = draft_plan(place.ledger, start.PlanRequest(deployment="dep", delete=True, delete_disks=True))
    place.conductor.drain(10.0)
    assert storm.run(accept_draft(place.ledger, draft, "delete", None)) > 2
    storm.assert_only_others_are_left()


def test_a_cleanup(storm: Storm) -> None:
    place = storm.place
    place.conductor.drain(10.0)
    abandon(place.ledger, "dep")
    with place.ledger.write() as tx:  # a survey is begun only where a conductor is alive: this one dies at once
        conductors.register(tx, "died", "1", group="", drivers=["openstack"], release="0.1.0", ttl_s=1.0)
    number, survey = cleaning.survey(place.ledger, Options.of_wire(AT_ONCE), "test")
    killed = storm.run(survey)
    plan = cleaning.read_plan(place.ledger, number)
    assert plan.stopped == ()
    killed += storm.run(cleaning.apply(place.ledger, number, plan.id, "test"))
    storm.assert_only_others_are_left()
    assert killed > 2
