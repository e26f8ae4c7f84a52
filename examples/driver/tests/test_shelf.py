"""The shelf's driver against the conformance kit."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path

import pytest
from coterie_shelf.driver import ShelfCpi

from coterie.cpi.conformance.bed import TestBed
from coterie.cpi.conformance.kit import *  # noqa: F403 # the kit's tests become this file's
from coterie.cpi.contract import Cpi, Json, Networks, Reason, Runtime

_WHY = Reason("the shelf is one file without an operator's tools", "the shelf's cloud.py")


class ShelfBed(TestBed):
    driver = "shelf"
    azs = ("z1", "z2")
    director_uuid = "8d8c4a1e-54c2-4f8e-9d53-1f0b6f2a7c10"
    limits: Mapping[str, Reason] = dict.fromkeys(("operator", "faults", "expire", "hosts", "page_size"), _WHY)

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / "image").write_bytes(b"image")
        self._addresses = (f"127.30.0.{number}" for number in itertools.count(1))

    def open(self, director_uuid: str | None = None) -> Cpi:
        runtime = Runtime(director_uuid or self.director_uuid, None, self._folder)  # type: ignore[arg-type]
        return ShelfCpi("lab", {}, runtime)

    def image(self) -> tuple[str, Json]:
        return str(self._folder / "image"), {}

    def az_properties(self, az: str) -> Json:
        return {"zone": az}

    def vm_properties(self, az: str) -> Json:
        return {"cpu": 1, "ram_mb": 512, "disk_mb": 1024, "zone": az}

    def huge_vm_properties(self, az: str) -> Json:
        return {**self.vm_properties(az), "cpu": 1000}

    def address(self, az: str) -> str | None:
        return next(self._addresses)

    def networks(self, az: str, address: str | None) -> Networks:
        return {"default": {"type": "manual", "ip": address, "netmask": "255.0.0.0", "cloud_properties": {}}}


@pytest.fixture
def bed(tmp_path: Path) -> ShelfBed:
    return ShelfBed(tmp_path)
