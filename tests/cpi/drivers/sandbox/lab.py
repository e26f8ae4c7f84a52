"""A sandbox cloud for the driver's tests: marks, groups, VMs, and what an operator sees behind the driver's back."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from coterie.cpi.contract import Cpi, GroupMetadata, Json, Mark, Runtime, SecurityGroup
from coterie.cpi.drivers.sandbox.driver import SandboxCpi
from coterie.ids import Ids
from coterie.sandbox import faults
from coterie.sandbox.accounts import open_account
from coterie.sandbox.datacenter import Account, open_datacenter

DIRECTOR = "11111111-2222-3333-4444-555555555555"
LAYOUT = {
    "zones": [
        {"name": zone, "racks": 2, "hosts_per_rack": 2, "cpu": 16, "ram_mb": 32_768, "disk_mb": 500_000}
        for zone in ("z1", "z2")
    ]
}


class OneAtATime:
    """A coordinator within one process: changes that wait for the writer go with the next batch."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[tuple[Json, list[Json]]]] = {}
        self._lock = threading.Lock()
        self._writer = threading.Lock()
        self.batches: list[int] = []

    def submit(self, cpi: Cpi, domain: str, change: Json) -> Json:
        mine: tuple[Json, list[Json]] = (change, [])
        with self._lock:
            self._waiting.setdefault(domain, []).append(mine)
        with self._writer:
            if not mine[1]:
                self._serve(cpi, domain)
        return mine[1][0]

    def hold(self, domain: str) -> None:
        """There is no other process that could hold it."""

    def _serve(self, cpi: Cpi, domain: str) -> None:
        with self._lock:
            batch, self._waiting[domain] = self._waiting[domain], []
        self.batches.append(len(batch))
        outcomes = cpi.apply(domain, [change for change, _ in batch])
        for (_, answer), outcome in zip(batch, outcomes, strict=True):
            answer.append(outcome)


@dataclass
class Lab:
    """One cloud. `more` are its properties beyond state and layout."""

    folder: Path
    more: dict[str, Any] = field(default_factory=dict)
    director: str = DIRECTOR
    coordinator: Any = field(default_factory=OneAtATime)

    def __post_init__(self) -> None:
        self.ids = Ids()
        self.cpi = self.open()
        self.stemcell = self.cpi.create_stemcell("", {"name": "debian-12", "version": "1.1"}, mark=self.mark())
        self._addresses = (f"127.9.{number // 250}.{number % 250 + 1}" for number in itertools.count())

    @property
    def state(self) -> Path:
        return self.folder / "sandbox.db"

    def open(self, director: str | None = None) -> SandboxCpi:
        """Another driver object on the same cloud, for the same Director or another."""
        properties = {"state": str(self.state), "layout": LAYOUT, **self.more}
        return SandboxCpi("lab", properties, Runtime(director or self.director, self.coordinator))

    @property
    def operator(self) -> Account:
        return open_account(open_datacenter(self.state), "lab", operator=True)

    def fault(self, method: str, mode: str, **more: Any) -> None:
        faults.add(open_datacenter(self.state).store, method, mode, **more)

    def clear(self) -> None:
        faults.clear(open_datacenter(self.state).store)

    def mark(self) -> Mark:
        return Mark(self.director, self.ids.intent())

    def metadata(
        self, policy: str | None = "soft-anti-affinity", security_group_names: Sequence[str] = (), **options: Any
    ) -> Any:
        groups = tuple(SecurityGroup(name) for name in security_group_names)
        return GroupMetadata(
            {"name": "d", "uuid": self.director}, "kafka", "broker", ("z1", "z2"), groups, policy, options
        )

    def group(
        self, policy: str | None = "soft-anti-affinity", security_group_names: Sequence[str] = (), **options: Any
    ) -> str:
        return self.cpi.create_server_group(self.metadata(policy, security_group_names, **options), mark=self.mark())

    def vm(self, group: str | None = None, mark: Mark | None = None, cpi: SandboxCpi | None = None, **more: Any) -> str:
        arguments: dict[str, Any] = {
            "agent_id": "agent",
            "stemcell_cid": self.stemcell,
            "cloud_properties": {"cpu": 1, "ram_mb": 1024, "zone": more.pop("zone", "z1"), **more.pop("size", {})},
            "networks": {"default": {"type": "manual", "ip": next(self._addresses), "cloud_properties": {}}},
            "disk_cids": [],
            "env": {"bosh": {"server_group_cid": group}} if group else {},
            **more,
        }
        return (cpi or self.cpi).create_vm(**arguments, mark=mark or self.mark()).cid
