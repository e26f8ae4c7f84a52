"""A small datacenter for tests, with a clock that only moves on a sleep."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from coterie.sandbox import images, vms
from coterie.sandbox.accounts import open_account
from coterie.sandbox.datacenter import Account, Datacenter, open_datacenter
from coterie.sandbox.fit import Demand
from coterie.sandbox.store import Store
from coterie.sandbox.vm_shape import Vm

ONE_ZONE = {"zones": [{"name": "z1", "racks": 2, "hosts_per_rack": 2, "cpu": 8, "ram_mb": 8192, "disk_mb": 100_000}]}


@dataclass
class Clock:
    now: float = 1000.0
    slept: list[float] = field(default_factory=list)

    def time(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@dataclass
class World:
    datacenter: Datacenter
    account: Account
    image: str
    clock: Clock

    @property
    def store(self) -> Store:
        return self.datacenter.store

    def boot(self, name: str = "vm", **more: Any) -> Vm:
        size = more.pop("size", Demand(1, 1024, 1024, "z1"))
        return vms.create_vm(self.account, name=name, size=size, image=self.image, **more)


def begin(folder: Path, layout: dict[str, Any] | None = None, **account: Any) -> World:
    clock = Clock()
    datacenter = open_datacenter(folder / "state.db", layout or ONE_ZONE, clock=clock.time, sleep=clock.sleep)
    door = open_account(datacenter, "lab", **account)
    return World(datacenter, door, images.create_image(door, name="debian").id, clock)
