"""What the beds of foreign CPI programs share: a launcher without arguments, small VMs, static addresses."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from coterie.cpi.conformance.bed import TestBed
from coterie.cpi.contract import Cpi, Json, Networks, Reason, Runtime
from coterie.cpi.drivers.exec.driver import ExecCpi

HERE = Path(__file__).parent


def launcher(folder: Path, program: str, *arguments: str) -> str:
    """An executable that starts the program: a CPI gets no arguments and hardly any environment."""
    path = folder / f"{Path(program).stem}-cpi"
    words = " ".join(f"'{word}'" for word in (sys.executable, "-IS", str(HERE / program), *arguments))
    path.write_text(f"#!/bin/sh\nexec {words}\n")
    path.chmod(0o755)
    return str(path)


class SmallBed(TestBed):
    """Sizes and addresses that every simulated cloud here understands."""

    director_uuid = "8d8c4a1e-54c2-4f8e-9d53-1f0b6f2a7c10"
    azs = ("z1", "z2")
    limits: Mapping[str, Reason] = {
        "expire": Reason("its driver holds no session", "every call opens the state file anew")
    }

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.more: dict[str, Any] = {}  # properties of the cloud besides those that it needs
        self._image = folder / "image"
        self._image.write_bytes(b"image")
        # Loopback, so that even a mistaken connection would stay on this machine.
        self._addresses = (f"127.20.{number // 250}.{number % 250 + 1}" for number in itertools.count())

    def open_keeping(self, cid: str) -> Cpi:
        self.more["keep"] = [cid]
        return self.open()

    def image(self) -> tuple[str, Json]:
        return str(self._image), {}

    def az_properties(self, az: str) -> Json:
        return {"zone": az}

    def vm_properties(self, az: str) -> Json:
        return {"cpu": 1, "ram_mb": 512, "disk_mb": 1024, "zone": az}

    def huge_vm_properties(self, az: str) -> Json:
        return {"cpu": 1000, "ram_mb": 512, "disk_mb": 1024, "zone": az}

    def address(self, az: str) -> str | None:
        return next(self._addresses)

    def networks(self, az: str, address: str | None) -> Networks:
        return {"default": {"type": "manual", "ip": address, "netmask": "255.0.0.0", "cloud_properties": {}}}

    def close(self) -> None:
        """After the test."""


def exec_cpi(director_uuid: str, properties: dict[str, Any]) -> ExecCpi:
    runtime = Runtime(director_uuid, None, exec_paths=[properties["path"]])  # type: ignore[arg-type] # it submits nothing
    return ExecCpi("abroad", properties, runtime)
