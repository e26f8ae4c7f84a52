"""A whole foreign CPI program, started anew for every call, as a Director starts it."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from coterie.cpi.contract import Mark, NotSupported, Runtime
from coterie.cpi.drivers.exec.driver import ExecCpi
from coterie.ids import Ids

DIRECTOR = "6f0d5a52-9a3c-4c55-b7a1-0c6b6d1f2e11"
ROOT = Path(__file__).parents[4]


@pytest.mark.parametrize("version", [2, 3])
def test_a_vm_with_a_disk_comes_and_goes(version: int, tmp_path: Path) -> None:
    words = [sys.executable, "-IS", str(ROOT / "tests/cpi/peers/sandbox_cpi.py"), str(ROOT / "src")]
    program = tmp_path / "cpi"
    program.write_text(f"#!/bin/sh\nexec {shlex.join([*words, str(tmp_path / 'lab.db'), 'kit', str(version)])}\n")
    program.chmod(0o755)
    image = tmp_path / "image"
    image.write_bytes(b"image")
    runtime = Runtime(DIRECTOR, None, exec_paths=[str(program)])  # type: ignore[arg-type] # it submits nothing
    cpi = ExecCpi("abroad", {"path": str(program)}, runtime)

    assert cpi.info()["api_version"] == version
    stemcell = cpi.create_stemcell(str(image), {}, {"tags": {"a": "b"}}, mark=_mark())
    networks = {"default": {"type": "manual", "ip": "127.20.0.2", "cloud_properties": {}}}
    vm = cpi.create_vm("agent", stemcell, {"cpu": 1, "ram_mb": 512, "zone": "z1"}, networks, [], {}, mark=_mark()).cid
    disk = cpi.create_disk(1024, {}, vm, mark=_mark())
    assert cpi.attach_disk(vm, disk)
    assert cpi.get_disks(vm) == [disk]
    with pytest.raises(NotSupported):
        cpi.resize_disk(disk, 512)
    cpi.delete_vm(vm)
    assert cpi.has_vm(vm) is False
    assert cpi.has_disk(disk) is True


def _mark() -> Mark:
    return Mark(DIRECTOR, Ids().intent())
