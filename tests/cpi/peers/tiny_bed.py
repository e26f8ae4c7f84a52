"""The bed of the tiny foreign program: version 2 only, and a good half of the methods missing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from coterie.cpi.conformance.bed import Inventory
from coterie.cpi.conformance.hands import Faults
from coterie.cpi.contract import Cpi
from peers.foreign import SmallBed, exec_cpi, launcher

LACKS = [
    "set_disk_metadata",
    "resize_disk",
    "update_disk",
    "snapshot_disk",
    "delete_snapshot",
    "create_network",
    "delete_network",
    "current_vm_id",
]


class TinyBed(SmallBed):
    driver = "exec-tiny"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._state = folder / "tiny.json"
        self._path = launcher(folder, "tiny_cpi.py")
        self.faults = _TinyFaults(self._state)

    def open(self, director_uuid: str | None = None) -> Cpi:
        properties = {"path": self._path, "properties": {"state": str(self._state)}, "lacks": LACKS}
        return exec_cpi(director_uuid or self.director_uuid, properties)

    def inventory(self) -> Inventory:
        state = _read(self._state)
        return frozenset((kind, cid) for kind in ("image", "vm", "disk") for cid in state[kind])


class _TinyFaults(Faults):
    def __init__(self, state: Path) -> None:
        self._state = state

    def fail(self, method: str) -> None:
        self._set({method: "fail"})

    def throttle(self, method: str) -> None:
        self._set({method: "fail"})

    def lose_answer(self, method: str) -> None:
        self._set({method: "lose"})

    def late(self, method: str) -> None:
        raise AssertionError("a cloud that cannot be searched has no late objects")

    def clear(self) -> None:
        self._set({})

    def _set(self, faults: dict[str, str]) -> None:
        self._state.write_text(json.dumps({**_read(self._state), "faults": faults}))


def _read(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {"image": {}, "vm": {}, "disk": {}, "faults": {}}
    state: dict[str, Any] = json.loads(path.read_text())
    return state
