"""Opens the drivers of configured clouds, once each, with what surrounds them: our mark and the coordinator."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

from coterie.cpi.contract import Coordinator, Cpi, Runtime
from coterie.cpi.load import driver_class, driver_names, open_cloud
from coterie.engine.fence import FencedCpi, Lease, Observer
from coterie.engine.part_records import LedgerPartRecords
from coterie.engine.pin import Pin
from coterie.errors import CoterieError, KeyMissing, NotFound, Refused, UsageError
from coterie.ledger.errors import DatabaseError
from coterie.ledger.rows import clouds, events
from coterie.ledger.rows.clouds import CloudRow
from coterie.ledger.rows.events import Event
from coterie.ledger.store import Ledger, time
from coterie.redact import KNOWN, Redactor, hide_in_error
from coterie.seal.key import Key
from coterie.seal.keys import KeyFile
from coterie.seal.sealed import Purpose, boxes, seal, unseal
from coterie.telemetry.process import CPI_ERRORS, CPI_SECONDS

log = logging.getLogger(__name__)


class Clouds:
    """Drivers by cloud name; a changed configuration opens a new driver."""

    def __init__(
        self,
        ledger: Ledger,
        director_uuid: str,
        coordinator: Coordinator,
        lease: Lease,
        *,
        drivers_folder: Path,
        keys: KeyFile | None = None,
        exec_paths: Sequence[str] = (),
        credential_sources: Sequence[str] = (),
        observe: Observer | None = None,
    ) -> None:
        self._keys = keys
        self._ledger = ledger
        self._runtime = Runtime(
            director_uuid, coordinator, drivers_folder, lease.require, exec_paths, credential_sources
        )
        self._lease = lease
        self._observe = observe
        self._open: dict[str, tuple[CloudRow, Cpi, Pin]] = {}
        self._lock = threading.Lock()

    def get(self, name: str) -> Cpi:
        """The driver of this cloud, behind the fence. The configuration is read anew by `refresh` only."""
        with self._lock:
            if name not in self._open:
                self._open[name] = self._make(name)
            return self._open[name][1]

    def refresh(self, present: Mapping[str, CloudRow], pinned: Mapping[str, str | None]) -> None:
        """Drop drivers whose configuration or pin has changed."""
        with self._lock:
            self._open = {
                name: (row, cpi, pin)
                for name, (row, cpi, pin) in self._open.items()
                if present.get(name) == row and pin.agrees_with(pinned.get(name))
            }

    def _make(self, name: str) -> tuple[CloudRow, Cpi, Pin]:
        with self._ledger.read() as tx:
            row = clouds.get(tx, name)
        if row is None:
            raise NotFound(
                f"cloud {name!r} is no longer configured",
                remedy="put it back into the cloud config: coterie clouds set FILE",
            )
        opened: list[Cpi] = []
        pin = Pin(self._ledger, name, lambda: opened[0].identity())
        opened.append(self.open(name, row.driver, row.properties, pin))
        return row, opened[0], pin

    def open_unconfigured(self, name: str, driver: str, properties: Mapping[str, Any]) -> Cpi:
        """A driver for properties that came with a question. A conductor that has keys takes only sealed ones."""
        if properties and self._keys is not None and not boxes(properties):
            raise Refused(
                f"the properties of cloud {name} in a question are not sealed",
                why="this conductor has the key of its group, and takes nothing else",
                remedy="ask through a Director of this release, which seals them",
            )
        return self.open(name, driver, properties)

    def open(self, name: str, driver: str, properties: Mapping[str, Any], pin: Pin | None = None) -> Cpi:
        """A driver for these very properties; without a pin for questions only."""
        opened_up = unseal(self._key(name, properties), name, driver, properties) if boxes(properties) else properties
        hidden = _hidden_part(driver, opened_up)
        KNOWN.learn(hidden)
        try:
            records, report = LedgerPartRecords(lambda: self._ledger, name), partial(_report, self._ledger, name)
            runtime = replace(self._runtime, parts=records, report=report)
            opened = open_cloud(driver, name, opened_up, runtime)
        except CoterieError as error:
            hide_in_error(error, Redactor(opened_up, secret=[hidden], public=[name, driver]))
            raise
        about = {"coterie.cloud": name, "coterie.driver": driver}
        observe, require_pin = count_calls(driver, self._observe), pin.require if pin else lambda: None
        return cast(Cpi, FencedCpi(opened, self._lease, observe, about, hidden, require_pin))

    def reseal(self, cloud: CloudRow, group: str) -> dict[str, str]:
        """The same properties in a box for a group of the cloud, sealed to our newest key. The caller cannot choose the
        key."""
        newest = self._keys.newest() if self._keys else None
        if newest is None or not boxes(cloud.properties):
            raise UsageError(f"cloud {cloud.name} has no sealed properties", remedy="there is nothing to seal anew")
        plain = unseal(self._key(cloud.name, cloud.properties), cloud.name, cloud.driver, cloud.properties)
        return seal(newest.public, Purpose(cloud.name, cloud.driver, group), plain)

    def _key(self, name: str, properties: Mapping[str, Any]) -> Key:
        ids = [where.key_id for where in boxes(properties)]
        try:
            found = next((key for one in ids if (key := self._keys.find(one))), None) if self._keys else None
        except CoterieError as unreadable:  # a file that can be mended is as good as one that can be copied
            raise KeyMissing(_cannot_open(name), why=str(unreadable), remedy=unreadable.remedy) from unreadable
        if found is None:
            raise KeyMissing(
                _cannot_open(name),
                why=f"they are sealed to key {' or '.join(ids)} of another group, or of a key file that was not copied "
                "here",
                remedy="copy the key file from a conductor of its group, or set its properties in plain again: "
                "coterie clouds set FILE",
            )
        return found


def _report(ledger: Ledger, cloud: str, kind: str, body: str) -> None:
    """What a driver reports has happened already: without a database it stays in the log, and the call goes on."""
    log.warning("cloud %s: %s", cloud, body)
    try:
        with ledger.write() as tx:
            events.append(tx, [Event(None, kind, cloud, body)], time(tx))
    except DatabaseError:
        log.exception("the event %s of cloud %s could not be written", kind, cloud)


def _hidden_part(driver: str, properties: Mapping[str, Any]) -> Mapping[str, Any]:
    """Everything, unless the driver's form says which properties may be shown."""
    form = driver_class(driver).forms.get("cloud") if driver in driver_names() else None
    return form.hidden_part(properties) if form else properties


def _cannot_open(cloud: str) -> str:
    return f"this conductor cannot open the properties of cloud {cloud}"


def count_calls(driver: str, also: Observer | None) -> Observer:
    """An observer that counts by driver, method and code, and calls another one too."""

    def observe(method: str, seconds: float, problem: BaseException | None) -> None:
        CPI_SECONDS.observe(seconds, driver, method)
        if problem is not None:
            CPI_ERRORS.add(driver, method, _code(problem))
        if also is not None:
            also(method, seconds, problem)

    return observe


def _code(problem: BaseException) -> str:
    return str(getattr(problem, "code", None) or type(problem).__name__)


class Unopened:
    """Stands in for a driver that could not be opened: every call raises the error of the opening, so that a step which
    needs the cloud fails by its own flow."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def __getattr__(self, name: str) -> Any:
        raise self._error
