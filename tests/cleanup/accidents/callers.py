"""Accidents of callers without our Director: they go through the CPI method `cleanup`, which has no task."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import pytest

from coterie.bosh.config import Config
from coterie.bosh.core.call_context import Caller
from coterie.bosh.recording.cleanup import cleanup
from coterie.bosh.recording.local_ledger import LocalLedger
from coterie.bosh.recording.marks import OwnMark
from coterie.bosh.recording.recording_cpi import RecordingCpi
from coterie.cpi.contract import InvalidCall
from coterie.ids import Ids
from tests.cleanup.accidents.ground import Ground
from tests.cleanup.accidents.listing import accident

AT_ONCE = {"dry_run": False, "grace_s": 0, "kinds": ["disk"]}


@accident(61, "A caller of the CPI sends an empty or short list", "It is not believed; nothing goes.")
def short_list(g: Ground) -> None:
    with recording(g, 4) as (cpi, disks):
        for known in ([], disks[:1], disks[:2]):
            report = cleanup(cpi.context, cpi.context.director, {"disk": known}, AT_ONCE)["disk"]
            assert "lacks" in report["stopped"] and report["deleted"] == []
        assert all(cpi.has_disk(disk) for disk in disks)


@accident(
    62,
    "A caller of the CPI sends no list, another Director's uuid, or no grace period",
    "Nothing goes; it is refused; new objects are *young*.",
)
def vague_calls(g: Ground) -> None:
    with recording(g, 2) as (cpi, disks):
        director = cpi.context.director
        assert cleanup(cpi.context, director, None, AT_ONCE)["disk"]["deleted"] == []
        with pytest.raises(InvalidCall, match="in the name of"):
            cleanup(cpi.context, str(uuid4()), {"disk": []}, AT_ONCE)
        careful = {"dry_run": False, "kinds": ["disk"]}
        found = cleanup(cpi.context, director, {"disk": disks[:1]}, careful)["disk"]["found"]
        assert {one["cid"]: one["verdict"] for one in found} == {disks[1]: "young"}
        assert all(cpi.has_disk(disk) for disk in disks)


@contextmanager
def recording(g: Ground, count: int) -> Iterator[tuple[Any, list[str]]]:
    """The program `coterie-cpi` in front of our cloud, with a ledger of its own and so many disks."""
    director, file = str(uuid4()), g.site.folder / f"bosh-{uuid4()}.db"
    ledger = LocalLedger(str(file), 30.0)
    config = Config("cpi.json", g.bed.driver, "lab", ledger=str(file))
    cpi = RecordingCpi(g.site.cpi(director=director), ledger, config, Caller(director, None))
    disks = [cpi.create_disk(1024, {}, mark=OwnMark(director, Ids().intent())) for _ in range(count)]
    cpi.confirm_delivery()  # as the program does when its answer is out
    try:
        yield cpi, disks
    finally:
        for disk in disks:
            cpi.delete_disk(disk)
        ledger.close()
