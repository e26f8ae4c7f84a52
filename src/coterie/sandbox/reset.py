"""Beginning anew in the same file, so that processes which have it open see it empty too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from coterie.sandbox import networks
from coterie.sandbox.datacenter import Datacenter, fill
from coterie.sandbox.layout import read_layout
from coterie.sandbox.schema import ROWS
from coterie.sandbox.twist import Tx

_KEPT = {"accounts", "usage"}


def reset(datacenter: Datacenter, layout: Mapping[str, Any] | None = None) -> None:
    """Empty the datacenter; accounts stay open, with their quotas and the networks that they began with."""
    document = datacenter.layout() if layout is None else dict(layout)
    shape = read_layout(document)
    with datacenter.store.writing() as db:
        for table in ROWS:
            if table not in _KEPT:
                db.execute(f"DELETE FROM {table}")
        db.execute("UPDATE usage SET used = 0")
        db.execute("UPDATE switches SET log = 0, faults = 0")
        fill(db, document, shape)
        for row in db.execute("SELECT name FROM accounts").fetchall():
            networks.furnish(Tx(db, row[0], datacenter.clock(), datacenter.ids))
