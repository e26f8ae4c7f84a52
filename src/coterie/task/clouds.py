"""Opens the drivers of configured clouds, once each, with what surrounds them: our mark and the coordinator."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from coterie.cpi.contract import Coordinator, Cpi, Runtime
from coterie.cpi.load import open_cloud
from coterie.errors import NotFound
from coterie.ledger import clouds
from coterie.ledger.clouds import CloudRow
from coterie.ledger.store import Ledger
from coterie.task.fence import FencedCpi, Lease, Observer
from coterie.task.measure import measured


class Clouds:
    """Drivers by cloud name; a changed configuration opens a new driver."""

    def __init__(
        self,
        ledger: Ledger,
        director_uuid: str,
        coordinator: Coordinator,
        lease: Lease,
        *,
        state_folder: Path,
        observe: Observer | None = None,
    ) -> None:
        self._ledger = ledger
        self._runtime = Runtime(director_uuid, coordinator)
        self._lease = lease
        self._state_folder = state_folder
        self._observe = observe
        self._open: dict[str, tuple[CloudRow, Cpi]] = {}
        self._turn = threading.Lock()

    def get(self, name: str) -> Cpi:
        """The driver of this cloud, behind the fence. The configuration is read anew by `refresh` only."""
        with self._turn:
            if name not in self._open:
                self._open[name] = self._make(name)
            return self._open[name][1]

    def refresh(self) -> None:
        """Drop drivers whose configuration has changed."""
        with self._ledger.read() as tx:
            present = clouds.all_clouds(tx)
        with self._turn:
            self._open = {name: kept for name, kept in self._open.items() if present.get(name) == kept[0]}

    def _make(self, name: str) -> tuple[CloudRow, Cpi]:
        with self._ledger.read() as tx:
            row = clouds.get(tx, name)
        if row is None:
            raise NotFound(
                f"cloud {name!r} is no longer configured",
                remedy="put it back into the cloud config: coterie clouds set FILE",
            )
        return row, self.open(name, row.driver, row.properties)

    def open(self, name: str, driver: str, properties: Mapping[str, Any]) -> Cpi:
        """A driver for these very properties, which need not be configured yet."""
        complete = with_defaults(driver, properties, self._state_folder)
        opened = open_cloud(driver, name, complete, self._runtime)
        about = {"coterie.cloud": name, "coterie.driver": driver}
        return cast(Cpi, FencedCpi(opened, self._lease, measured(driver, self._observe), about))


def with_defaults(driver: str, properties: Mapping[str, Any], state_folder: Path) -> dict[str, Any]:
    """The sandbox keeps its datacenter beside our own state unless it is told otherwise."""
    if driver == "sandbox" and "state" not in properties:
        return {**properties, "state": str(state_folder / "sandbox.db")}
    return dict(properties)
