"""The cloud: images, VMs and disks in one JSON file. It stands for a vendor's API and knows nothing of Coterie."""

from __future__ import annotations

import fcntl
import json
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

Row = dict[str, Any]


class Refused(Exception):
    """What this cloud answers to a request that it does not carry out."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


class Shelf:
    """Every call is one transaction. `create` with a token that was used before answers the first object."""

    def __init__(self, path: Path, cpus: int) -> None:
        self._path = path
        self._cpus = cpus

    def create(self, kind: str, token: str, tags: Mapping[str, str], **fields: Any) -> Row:
        with self._transaction() as rows:
            for row in rows.values():
                if row["kind"] == kind and row["token"] == token:
                    return row
            if kind == "vm":
                self._require_host(rows, fields)
            row = {"id": f"{kind}-{uuid.uuid4()}", "kind": kind, "token": token, "created": time.time()}
            rows[row["id"]] = row | {"tags": dict(tags), **fields}
            return rows[row["id"]]

    def get(self, kind: str, wanted: str) -> Row:
        with self._transaction() as rows:
            return _require(rows, kind, wanted)

    def list(self, kind: str, tag: str, value: str) -> list[Row]:
        with self._transaction() as rows:
            return [row for row in rows.values() if row["kind"] == kind and row["tags"].get(tag) == value]

    def tag(self, kind: str, wanted: str, tags: Mapping[str, str]) -> None:
        with self._transaction() as rows:
            _require(rows, kind, wanted)["tags"].update(tags)

    def attach(self, disk: str, vm: str) -> None:
        with self._transaction() as rows:
            _require(rows, "vm", vm)
            row = _require(rows, "disk", disk)
            if row["vm"] not in (None, vm):
                raise Refused("in_use", f"disk {disk} is attached to {row['vm']}")
            row["vm"] = vm

    def detach(self, disk: str, vm: str) -> None:
        with self._transaction() as rows:
            _require(rows, "vm", vm)
            row = _require(rows, "disk", disk)
            row["vm"] = None if row["vm"] == vm else row["vm"]

    def disks_of(self, vm: str) -> list[str]:
        with self._transaction() as rows:
            _require(rows, "vm", vm)
            return [row["id"] for row in rows.values() if row["kind"] == "disk" and row["vm"] == vm]

    def delete(self, kind: str, wanted: str) -> None:
        with self._transaction() as rows:
            row = _require(rows, kind, wanted)
            if row.get("vm"):
                raise Refused("in_use", f"{kind} {wanted} is attached to {row['vm']}")
            for other in rows.values():
                if other.get("vm") == wanted:
                    other["vm"] = None
            del rows[wanted]

    def _require_host(self, rows: Mapping[str, Row], fields: Mapping[str, Any]) -> None:
        if fields["image"] not in rows:
            raise Refused("no_image", f"there is no image {fields['image']}")
        if fields["cpu"] > self._cpus:
            raise Refused("no_host", f"the largest host has {self._cpus} cpus, not {fields['cpu']}")
        taken = {ip for row in rows.values() if row["kind"] == "vm" for ip in row["ips"]}
        if taken & set(fields["ips"]):
            raise Refused("address_taken", f"{', '.join(sorted(taken & set(fields['ips'])))} is in use")

    @contextmanager
    def _transaction(self) -> Iterator[dict[str, Row]]:
        with self._path.open("a+", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            before = file.read()
            rows: dict[str, Row] = json.loads(before or "{}")
            yield rows
            after = json.dumps(rows)
            if after != before:
                file.truncate(0)
                file.write(after)


def _require(rows: Mapping[str, Row], kind: str, wanted: str) -> Row:
    row = rows.get(wanted)
    if row is None or row["kind"] != kind:
        raise Refused(f"no_{kind}", f"there is no {kind} {wanted}")
    return row
