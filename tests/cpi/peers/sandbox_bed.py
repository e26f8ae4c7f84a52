"""Beds on the sandbox: its driver in both models of groups, and the same driver served as a foreign program."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import pytest

from coterie.cpi.conformance.bed import Inventory
from coterie.cpi.contract import Cpi, Runtime
from coterie.cpi.drivers.sandbox.driver import SandboxCpi
from coterie.cpi.drivers.sandbox.machines import SELF
from coterie.engine.coordinator import LedgerCoordinator
from coterie.engine.part_records import LedgerPartRecords
from coterie.ledger.store import Ledger
from coterie.sandbox import disks, images, labels, networks, security_groups, server_groups, snapshots, vm_shape
from coterie.sandbox.accounts import open_account
from coterie.sandbox.datacenter import Account, open_datacenter
from coterie.sandbox.layout import SIZES
from coterie.sandbox.pages import EVERYTHING, PAGE_LIMIT
from peers.foreign import SmallBed, exec_cpi
from peers.sandbox_cpi import respond
from peers.sandbox_operator import SandboxFaults, SandboxOperator
from peers.warm import WarmCore, thin_client

ACCOUNT = "kit"
LISTS: dict[str, Callable[..., Any]] = {
    "vm": vm_shape.list_vms,
    "disk": disks.list_disks,
    "snapshot": snapshots.list_snapshots,
    "image": images.list_images,
    "network": networks.list_networks,
    "security_group": security_groups.list_security_groups,
    "server_group": server_groups.list_server_groups,
    "label": labels.list_labels,
}


@cache
def _ledger() -> Ledger:
    """One for the whole run: the coordinator keeps nothing there that outlives a call."""
    folder = tempfile.mkdtemp(prefix="coterie-kit-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Ledger.open(f"sqlite:///{folder}/ledger.db")


def list_account(account: Account) -> Inventory:
    """All objects of the account, marked or not."""
    found = set()
    for kind, listing in LISTS.items():
        after: str | None = None
        while True:
            page = listing(account, EVERYTHING, after)
            found |= {(kind, item.id) for item in page.items}
            after = page.next
            if after is None:
                break
    return frozenset(found)


class SandboxBed(SmallBed):
    driver = "sandbox"
    groups = "direct"
    own: ClassVar[dict[str, Any]] = {}  # properties of the cloud
    page_size = PAGE_LIMIT
    hosts = SIZES["racks"] * SIZES["hosts_per_rack"]

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._state = folder / "sandbox.db"
        self._coordinator = LedgerCoordinator(_ledger(), "kit")
        self._datacenter = open_datacenter(self._state)
        self.open().has_vm("none")  # opens the account, as its first user would
        self._account = open_account(self._datacenter, ACCOUNT, operator=True)
        single = self.groups == "single-writer"
        self.operator = SandboxOperator(self._account, single)
        self.faults = SandboxFaults(self._datacenter.store, "create_label" if single else "create_server_group")

    def open(self, director_uuid: str | None = None) -> Cpi:
        properties: dict[str, Any] = {"state": str(self._state), "account": ACCOUNT, "groups": self.groups}
        properties |= {**self.own, **self.more}
        parts = LedgerPartRecords(_ledger, "lab")
        runtime = Runtime(director_uuid or self.director_uuid, self._coordinator, parts=parts)
        return SandboxCpi("lab", properties, runtime)

    @contextmanager
    def inside(self, vm_cid: str) -> Iterator[bool]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(SELF, vm_cid)
            yield True

    def inventory(self) -> Inventory:
        return list_account(self._account)


class SingleWriterBed(SandboxBed):
    driver = "sandbox-single-writer"
    groups = "single-writer"


class DomainsBed(SandboxBed):
    """A cloud that shows failure domains in place of hosts, and takes tokens with its creating calls."""

    driver = "sandbox-domains"
    own: ClassVar[dict[str, Any]] = {"domains": 2, "client_tokens": True}


class ServedBed(SandboxBed):
    """The exec driver, running the sandbox driver as a foreign program of one version."""

    version = 3

    def __init__(self, folder: Path) -> None:
        self.driver = f"exec-v{self.version}"
        state = str(folder / "sandbox.db")
        self._core = WarmCore(lambda raw: respond(raw, state, ACCOUNT, self.version))
        self._path = thin_client(folder, self._core.port)
        super().__init__(folder)

    def open(self, director_uuid: str | None = None) -> Cpi:
        return exec_cpi(director_uuid or self.director_uuid, {"path": self._path})

    def close(self) -> None:
        self._core.close()


class ServedV2Bed(ServedBed):
    version = 2
