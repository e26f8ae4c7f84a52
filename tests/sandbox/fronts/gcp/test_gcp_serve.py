"""`coterie sandbox serve --api gcp` as a user starts it: a client logs in with what it prints, and what was made is
still there after the next start."""

from __future__ import annotations

from pathlib import Path

from coterie.cpi.contract import Mark, Runtime
from coterie.cpi.drivers.gcp.driver import GcpCpi
from coterie.ids import Ids
from tests.sandbox.fronts.cloudstack.test_serve import ended, started, way_in

UUID = "8d8c4a1e-54c2-4f8e-9d53-1f0b6f2a7c10"


def test_a_driver_logs_in_and_its_disk_is_kept(tmp_path: Path) -> None:
    mark, cids = Mark(UUID, Ids().intent()), []
    for _ in range(2):
        process = started(tmp_path, "--api", "gcp", "-o", "json", "--set", "wait_s=0.05")
        shown = way_in(process)
        cpi = GcpCpi("served", shown["properties"], Runtime(UUID, None))  # type: ignore[arg-type] # not asked
        cids.append(cpi.create_disk(1024, {}, mark=mark))
        assert [one.cid for one in cpi.survey("disk", UUID).objects] == [cids[0]]
        assert ended(process) == 0
    assert cids[0] == cids[1]


def test_a_setting_that_is_not_known_is_named(tmp_path: Path) -> None:
    process = started(tmp_path, "--api", "gcp", "--set", "nonesuch=1")
    _, words = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "nonesuch" in words
    assert "operation_s" in words
