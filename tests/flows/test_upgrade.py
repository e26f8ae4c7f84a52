"""A task that release 0.1.0 began goes on after an upgrade, whichever label its steps have come to.

`release_0_1_0.tar.xz` holds what that release's own conductor wrote, on a sandbox cloud: its ledger and the cloud, as
SQL, right after the commit that first brought some step to a label (`FLOW.LABEL.sql`) or let it wait there.
"""

from __future__ import annotations

import json
import sqlite3
import tarfile
from pathlib import Path

import pytest
import sqlalchemy as sa

from coterie.conductor.process import FLOWS
from coterie.engine.stored import VERSION
from coterie.ledger.rows.clouds import CloudRow
from coterie.ledger.store import Ledger
from coterie.ledger.tables import objects
from coterie.ledger.work import steps, tasks
from tests.requests.site import Site, site

ARCHIVE = Path(__file__).with_name("release_0_1_0.tar.xz")
BETWEEN = "-- sandbox --"
# The sandbox has no rights to grant. The flow has one label, and two plain fields.
# The others came after it.
NOT_RECORDED = {"cloud.grant", "cloud.prove", "node.health", "node.stop", "node.restart", "disk.attach"}
_CLOUD = CloudRow("lab", "sandbox", {}, "")


def _recordings() -> dict[str, str]:
    with tarfile.open(ARCHIVE) as archive:
        members = {member.name: archive.extractfile(member) for member in archive.getmembers()}
        return {name.removesuffix(".sql"): file.read().decode() for name, file in members.items() if file}


RECORDINGS = _recordings()


@pytest.mark.parametrize("name", sorted(RECORDINGS))
def test_a_task_of_release_0_1_0_goes_on(name: str, tmp_path: Path) -> None:
    _restore(RECORDINGS[name], tmp_path)
    ledger = Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}")
    with ledger.write() as tx:
        unfinished = tasks.unfinished(tx)
        steps.hand_back_orphans(tx)
    assert unfinished
    with site(ledger, tmp_path) as here:
        for task in unfinished:
            here.wait(task)
        if not name.startswith("cleanup.survey"):  # which only notes what is lost
            assert _held(here, "vm") == _recorded(here, "vm")
            assert _held(here, "disk") == _recorded(here, "disk")
    ledger.close()


def test_every_flow_of_release_0_1_0_was_recorded() -> None:
    assert {name.rpartition(".")[0].removesuffix(".begin") for name in RECORDINGS} | NOT_RECORDED >= FLOWS.keys()


def test_what_that_release_stored_has_no_version_and_is_stored_with_one() -> None:
    seen = set()
    for text in RECORDINGS.values():
        database = sqlite3.connect(":memory:")
        database.executescript(text.split(BETWEEN)[0])
        for flow, label, data in database.execute("SELECT flow, label, data FROM steps"):
            old = json.loads(data)
            assert "version" not in old
            params, progress = FLOWS[flow].read(old, old)
            new = FLOWS[flow].step(params, "subject", _CLOUD, progress=progress).data
            assert new["version"] == VERSION
            assert FLOWS[flow].read(new, new) == (params, progress)
            # A conductor of that release, which works beside ours during an upgrade, finds what it wrote.
            assert {key: new[key] for key in old.keys() & new.keys()} == {
                key: old[key] for key in old.keys() & new.keys()
            }
            seen.add((flow, label))
    assert len(seen) > 40


def _restore(text: str, folder: Path) -> None:
    for file, script in zip(("ledger.db", "sandbox.db"), text.split(BETWEEN), strict=True):
        database = sqlite3.connect(folder / file)
        database.executescript(script)
        if file == "ledger.db":
            # The recording conductor has ended, and the deadlines of its steps are not what this is about.
            database.executescript("DELETE FROM conductors; UPDATE steps SET deadline = NULL;")
        database.close()


def _held(here: Site, kind: str) -> set[str]:
    return {one.cid for one in here.held(kind)}


def _recorded(here: Site, kind: str) -> set[str]:
    query = sa.select(objects.c.cid).where(objects.c.kind == kind, objects.c.state.in_(("live", "kept")))
    with here.ledger.read() as tx:
        return set(tx.execute(query).scalars())
