"""The datacenter as a whole: beginning and opening its file, and the accounts through which it is used."""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from coterie.errors import NotFound
from coterie.ids import Ids
from coterie.sandbox.errors import StateUnreadable
from coterie.sandbox.layout import DEFAULT_LAYOUT, Layout, read_layout
from coterie.sandbox.schema import TABLES, VERSION
from coterie.sandbox.store import Store, create_file
from coterie.slotted import dataclass, field

_open: dict[Path, Store] = {}
_opening = threading.Lock()
_NO_LIMIT = nullcontext()


@dataclass(frozen=True, slots=True)
class Datacenter:
    store: Store
    clock: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep
    ids: Ids = field(default_factory=Ids)

    def layout(self) -> dict[str, Any]:
        """The layout that the file was begun with."""
        with self.store.reading() as db:
            found: dict[str, Any] = json.loads(db.execute("SELECT value FROM meta WHERE key = 'layout'").fetchone()[0])
        return found

    def uuid(self) -> str:
        """Given once; a file of an earlier release gets it at the first question."""
        with self.store.writing() as db:
            db.execute("INSERT OR IGNORE INTO meta VALUES ('uuid', ?)", (self.ids.uuid(),))
            return str(db.execute("SELECT value FROM meta WHERE key = 'uuid'").fetchone()[0])


@dataclass(frozen=True, slots=True)
class Account:
    """A tenant's access. As `operator` the same calls work, but without faults and without the call log.

    `slot`: gives what is held during a call, by its name, so that a tenant can limit how many it makes at a time.
    """

    datacenter: Datacenter
    name: str
    operator: bool = False
    slot: Callable[[str], AbstractContextManager[object]] = lambda method: _NO_LIMIT


def open_datacenter(
    path: str | Path, layout: Mapping[str, Any] | None = None, *, create: bool = True, **injected: Any
) -> Datacenter:
    """The datacenter in this file; a file that is not there is begun with `layout`, which is not read later.

    `injected`: clock, sleep, ids.
    """
    file = Path(path).expanduser().absolute()
    try:
        if not file.exists():
            _begin(file, layout, create)
        return Datacenter(_store(file), **injected)
    except (OSError, sqlite3.Error) as error:
        raise StateUnreadable(
            f"no sandbox can be had at {file}",
            why=str(error),
            remedy="name a file in a folder that can be written, on a disk with free space",
        ) from error


def _store(file: Path) -> Store:
    """One store per file and process; a file that was replaced gets a new one."""
    with _opening:
        store = _open.get(file)
        if store is None or store.inode != file.stat().st_ino:
            store = _open[file] = _check_schema(Store(file))
    return store


def _begin(file: Path, layout: Mapping[str, Any] | None, create: bool) -> None:
    if not create:
        raise NotFound(
            f"there is no sandbox at {file}", remedy="deploy something to it first, or name its file with --state"
        )
    document = DEFAULT_LAYOUT if layout is None else dict(layout)
    shape = read_layout(document)

    def begin(db: sqlite3.Connection) -> None:
        for statement in TABLES.split(";"):
            db.execute(statement)
        db.execute("INSERT INTO meta VALUES ('schema', ?)", (str(VERSION),))
        fill(db, document, shape)

    create_file(file, begin)


def fill(db: sqlite3.Connection, document: Mapping[str, Any], shape: Layout) -> None:
    """Write the hosts of the layout into empty tables."""
    db.execute("INSERT OR REPLACE INTO meta VALUES ('layout', ?)", (json.dumps(document),))
    db.execute("INSERT OR REPLACE INTO meta VALUES ('networks', ?)", (json.dumps(shape.networks),))
    db.executemany(
        "INSERT INTO hosts (name, zone, rack, cpu, ram_mb, disk_mb) VALUES (?,?,?,?,?,?)",
        [(h.name, h.zone, h.rack, h.cpu, h.ram_mb, h.disk_mb) for h in shape.hosts],
    )


def _check_schema(store: Store) -> Store:
    with store.reading() as db:
        row = db.execute("SELECT value FROM meta WHERE key = 'schema'").fetchone()
    version = int(row[0]) if row else 0
    if version != VERSION:
        raise StateUnreadable(
            f"the sandbox state {store.path} has format {version}, this release reads {VERSION}",
            remedy="use the release that wrote it, or another file",
        )
    return store
