"""Persistent disks as custom volumes, and their snapshots. A volume of a local pool is on one member: a VM is put where
its disks are. One that is attached to a VM elsewhere is copied there first."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from coterie.cpi.contract import Changed, CpiError, DiskHint, InvalidCall, Json, Mark, NotSupported, Unavailable
from coterie.cpi.drivers.incus.client import Client, Refusal, Row, look_after
from coterie.cpi.drivers.incus.machines import Machines
from coterie.cpi.drivers.incus.marks import ATTACHED, COPY, MEMBER, mark_config, mark_of, of_mark, user_config
from coterie.cpi.drivers.incus.placement import Members, choose
from coterie.cpi.drivers.incus.properties import CONTAINER, MACHINE, read_disk_spec
from coterie.cpi.kit.create_once import Created, Hold, SingleWriter
from coterie.cpi.kit.disks import disk_missing, require_detached, require_size
from coterie.slotted import dataclass

# of virtual machines block devices, of containers directories
_CONTENT = {CONTAINER: "filesystem", MACHINE: "block"}
_BY_ID = "/dev/disk/by-id/scsi-0QEMU_QEMU_HARDDISK_"
_WHOLE = "whole"
STORE = "/var/vcap/store"
_SHARED = ("ceph", "cephfs", "lvmcluster", "linstor", "truenas", "powerflex", "pure", "alletra")
_MIB = {"": 1 / 2**20, "B": 1 / 2**20, "KiB": 1 / 1024, "MiB": 1, "GiB": 1024, "TiB": 2**20}


@dataclass(frozen=True, slots=True)
class Disks:
    client: Client
    members: Members
    machines: Machines
    writer: SingleWriter[Refusal]

    def create(self, size_mb: int, cloud_properties: Json, vm_cid: str | None, mark: Mark) -> str:
        spec = read_disk_spec(cloud_properties)
        require_size(size_mb)
        pool = spec.storage_pool or self.client.settings.storage_pool
        self._require_pool(pool)
        vm = self.machines.read(vm_cid) if vm_cid else None
        group = spec.cluster_group or (None if vm else self.client.settings.default_cluster_group)
        self.members.names_of(group)
        change = {
            "kind": "disk",
            "mark": mark.wire(),
            "pool": pool,
            "size": size_mb,
            "member": vm["location"] if vm else None,
            "group": group,
            "type": spec.type or (str(vm["type"]) if vm else self.client.settings.default_type),
        }
        return self.writer.submit("disk", mark.intent, change).cid

    def create_once(self, change: Json, hold: Hold) -> Created:
        """Applies a change of `create` alone: Incus takes one name on several members."""
        mark, pool = Mark.of_wire(change["mark"]), str(change["pool"])
        found = self.find(mark)
        if found:
            return Created(cid_of(found), False)
        pins = [change["member"]] if change["member"] else []
        places = self.members.places(0, 0, change["group"], pins, change["type"])
        member = choose(None, places, ())
        hold()
        config = {"size": f"{change['size']}MiB", **mark_config(mark)}
        self._create_volume(pool, mark.name(), member, config, _CONTENT[change["type"]])
        self.members.count_in(member)
        return Created(f"{pool}:{mark.name()}", True)

    def find(self, mark: Mark) -> Row | None:
        """The volume of a mark, in whichever pool; of two, that which was attached."""
        found = [row for pool in self.pools() for row in self.rows(pool, of_mark(mark)) if mark_of(row) == mark]
        return next(iter(sorted(found, key=_rank)), None)

    def pools(self) -> list[str]:
        return [str(row["name"]) for row in self.client.rows("list storage pools", "/storage-pools")]

    def rows(self, pool: str, wanted: Mapping[str, str] | None = None) -> list[Row]:
        """Volumes without snapshots, each with its pool."""
        return [row for row in self.all_rows(pool, wanted) if "/" not in row["name"]]

    def all_rows(self, pool: str, wanted: Mapping[str, str] | None = None) -> list[Row]:
        found = self.client.rows(f"list volumes of {pool}", _path(pool), wanted)
        return [{**row, "pool": pool} for row in found]

    def read(self, disk_cid: str) -> Row | None:
        return next(iter(self._copies(disk_cid)), None)

    def exists(self, disk_cid: str) -> bool:
        return self.read(disk_cid) is not None

    def require(self, disk_cid: str) -> Row:
        row = self.read(disk_cid)
        if row is None:
            raise disk_missing(disk_cid[:80])
        return row

    def delete(self, disk_cid: str) -> None:
        for row in self._copies(disk_cid):
            require_detached(disk_cid, users(row))
            if not is_at_home(row):
                raise Changed(
                    f"disk {disk_cid} is on {row['location']}, and was made on {row['config'][MEMBER]}",
                    why="others moved it, or it is a copy of one that is gone",
                    remedy=f"delete it in Incus, or set its {MEMBER} to {row['location']} and repeat",
                )
            if self.list_snapshots(row):
                raise CpiError(f"disk {disk_cid} has snapshots, which would go with it", remedy="delete them first")
            self._delete_volume(row)

    def attach(self, vm_cid: str, disk_cid: str) -> DiskHint:
        vm, copies = self.machines.require_read(vm_cid), self._copies(disk_cid)
        if not copies:
            raise disk_missing(disk_cid[:80])
        row = copies[0]
        _require_type(row, str(vm["type"]))
        if vm_cid not in users(row):
            require_detached(disk_cid, users(row))
            row = self._bring_to(row, copies, vm)
        self._note_attached(row)
        name, device = "", dict[str, str]()

        def attach(machine: Row) -> bool:
            nonlocal name, device
            devices = machine["devices"]
            known = next((one for one in devices if _is_of(devices[one], row)), None)
            name = known or _device_name(row)
            device = devices.setdefault(name, {"type": "disk", "pool": row["pool"], "source": row["name"]})
            if known is None and vm["type"] == CONTAINER:
                device["path"] = _free_path(devices)
            return known is None

        self._edit_vm(f"attach disk {disk_cid}", vm_cid, attach)
        volume = str(row["name"])
        if vm["type"] == CONTAINER:
            return {"path": device["path"], "id": volume, "volume_id": volume}
        serial = f"{self.members.brand()}_{name.replace('-', '--')}"  # as the server writes it
        return {"path": f"{_BY_ID}{serial}", "id": serial, "volume_id": volume}

    def detach(self, vm_cid: str, disk_cid: str) -> None:
        self.machines.require_read(vm_cid)
        row = self.require(disk_cid)

        def detach(machine: Row) -> bool:
            found = [name for name, one in machine["devices"].items() if _is_of(one, row)]
            for name in found:
                del machine["devices"][name]
            return bool(found)

        self._edit_vm(f"detach disk {disk_cid}", vm_cid, detach)

    def set_metadata(self, disk_cid: str, metadata: Mapping[str, str]) -> None:
        config = user_config(metadata)
        row = self.require(disk_cid)
        self._set(row, config)

    def update(self, disk_cid: str, new_size_mb: int, cloud_properties: Json | None = None) -> None:
        """In place; the pool stays."""
        spec, row = read_disk_spec(cloud_properties or {}), self.require(disk_cid)
        if spec.storage_pool not in (None, row["pool"]):
            raise NotSupported(f"disk {disk_cid} keeps its storage pool", remedy="copy it to a new disk")
        has = size_mib(row)
        if new_size_mb < has:
            raise NotSupported(f"disk {disk_cid} cannot shrink", remedy="copy it to a smaller one")
        if new_size_mb > has:
            self._set(row, {"size": f"{new_size_mb}MiB"})

    def snapshot(self, disk_cid: str, metadata: Mapping[str, Any], mark: Mark) -> str:
        row = self.require(disk_cid)
        name = mark.name()
        if name not in self.list_snapshots(row):
            words = ", ".join(f"{key}={value}" for key, value in sorted(user_config(metadata).items()))
            body = {"name": name, "description": words.replace("user.", "")}
            try:
                self.client.run(f"snapshot {disk_cid}", "POST", f"{_volume_path(row)}/snapshots", body, **_target(row))
            except Refusal as error:
                if name not in look_after(error, lambda: self.list_snapshots(row)):
                    raise
        return f"{cid_of(row)}/{name}"

    def delete_snapshot(self, snapshot_cid: str) -> None:
        disk, _, name = snapshot_cid.rpartition("/")
        row = self.read(disk) if disk else None
        if row is None:
            return
        try:
            path = f"{_volume_path(row)}/snapshots/{name}"
            self.client.run(f"delete snapshot {name}", "DELETE", path, **_target(row))
        except Refusal as error:
            if not error.is_missing and name in self.list_snapshots(row):
                raise

    def list_snapshots(self, row: Row) -> list[str]:
        found = self.client.ask("list snapshots", f"{_volume_path(row)}/snapshots", **_target(row)) or ()
        return [str(one).partition("?")[0].rpartition("/")[2] for one in found]

    def require_type(self, disk_cids: Sequence[str], type_: str) -> None:
        for cid in disk_cids:
            _require_type(self.require(cid), type_)

    def locations(self, disk_cids: Sequence[str]) -> list[str]:
        """Members that a VM with these disks must be on; empty disks come to it, shared ones are everywhere."""
        rows = [self.require(cid) for cid in disk_cids]
        return sorted({str(row["location"]) for row in rows if row.get("location") and not _is_empty(row)})

    def _copies(self, disk_cid: str) -> list[Row]:
        """The volume, or two where a move was interrupted: then first that which a VM has or had. What others copied
        to another member under the same name is none of ours."""
        pool, _, name = disk_cid.partition(":")
        if not name or "/" in disk_cid or not all(one.isalnum() or one in "-_." for one in pool + name):
            return []
        rows = sorted(self.rows(pool, {"name": name}), key=_rank) if pool in self.pools() else []
        return [row for row in rows if is_at_home(row)] or rows[:1]

    def _bring_to(self, row: Row, copies: Sequence[Row], vm: Row) -> Row:
        """On the VM's member, with data and snapshots; what is elsewhere goes once the copy is whole."""
        member = vm.get("location")
        new = row if not row.get("location") or row["location"] == member else self._copy(row, str(member))
        for one in copies:
            if one.get("location") != new.get("location"):
                self._delete_volume(one)
        return new

    def _copy(self, row: Row, member: str) -> Row:
        """A copy says that it is one, and by which call, until that call has seen its end: before, it may lack data. A
        whole one of a call that was interrupted is used; each attachment of the volume itself removes it first."""
        name, token = str(row["name"]), secrets.token_hex(8)
        for operation in self.client.running():
            used = (operation.get("resources") or {}).get("storage_volumes") or ()
            if any(str(one).partition("?")[0].rpartition("/")[2] == name for one in used):
                with suppress(CpiError):  # what an interrupted call began
                    self.client.wait(f"copy volume {name}", str(operation["id"]))
        for one in self._copies(cid_of(row)):
            if one["location"] == member and one["config"].get(COPY) == _WHOLE:
                return one
            if one["location"] == member:
                self._delete_volume(one)
        config = {key: value for key, value in row["config"].items() if not key.startswith("volatile.")}
        body = {
            "name": name,
            "type": "custom",
            "content_type": row["content_type"],
            "config": {**config, COPY: token, MEMBER: member},
            "source": {"type": "copy", "pool": row["pool"], "name": name, "location": row["location"]},
        }
        self.client.run(f"copy volume {name} to {member}", "POST", _path(str(row["pool"])), body, target=member)

        def end(volume: Row) -> bool:
            if volume["config"].get(COPY) != token:
                raise Unavailable(f"another call copies disk {cid_of(row)}", remedy="repeat", retryable=True)
            volume["config"][COPY] = _WHOLE
            return True

        copy = self.client.edit(f"end the copy of {name}", _volume_path(row), end, target=member)
        if copy is None:
            raise Unavailable(f"another call removed the copy of {cid_of(row)}", remedy="repeat", retryable=True)
        return {**row, "config": copy["config"], "location": member}

    def _create_volume(self, pool: str, name: str, member: str, config: Mapping[str, str], content: str) -> None:
        query = {"target": member} if self.members.is_clustered() and not self._is_shared(pool) else {}
        config = {**config, MEMBER: member} if query else config
        body = {"name": name, "type": "custom", "content_type": content, "config": config}
        try:
            self.client.run(f"create volume {name}", "POST", _path(pool), body, **query)
        except Refusal as error:
            if not look_after(error, lambda: self.rows(pool, {"name": name})):
                raise

    def _delete_volume(self, row: Row) -> None:
        try:
            self.client.run(f"delete volume {row['name']}", "DELETE", _volume_path(row), **_target(row))
        except Refusal as error:
            if not error.is_missing and any(one["location"] == row["location"] for one in self._copies(cid_of(row))):
                raise

    def _note_attached(self, row: Row) -> None:
        """Before the attachment, so that what holds data is never taken for empty, nor the only one for a copy. One
        that others moved is at home where a VM of ours gets it."""
        if _is_empty(row) or row["config"].get(COPY) or not is_at_home(row):
            self._set(row, {ATTACHED: "true", COPY: "", **({MEMBER: str(row["location"])} if _target(row) else {})})

    def _set(self, row: Row, config: Mapping[str, str]) -> None:
        self.client.run(
            f"change volume {row['name']}", "PATCH", _volume_path(row), {"config": dict(config)}, **_target(row)
        )

    def _edit_vm(self, what: str, vm_cid: str, change: Any) -> None:
        try:
            found = self.client.edit(what, f"/instances/{vm_cid}", change)
        except Refusal as error:
            if error.is_over:
                raise
            row = self.machines.require(vm_cid)
            if change(row):  # not done
                raise
            return
        if found is None:
            self.machines.require(vm_cid)

    def _is_shared(self, pool: str) -> bool:
        row = self._require_pool(pool)
        return row.get("driver") in _SHARED

    def _require_pool(self, pool: str) -> Row:
        def look() -> list[Row]:
            row = self.client.ask(f"read storage pool {pool}", f"/storage-pools/{pool}")
            return [row] if row else []

        found = self.members.cache.get(f"pool {pool}", look)
        if not found:
            raise InvalidCall(f"there is no storage pool {pool!r}", remedy=f"use one of: {', '.join(self.pools())}")
        return found[0]


def cid_of(row: Row) -> str:
    return f"{row['pool']}:{row['name']}"


def users(row: Row) -> tuple[str, ...]:
    """VMs that have it."""
    used = [one.partition("?")[0] for one in row.get("used_by") or ()]
    return tuple(one.rpartition("/")[2] for one in used if "/instances/" in one)


def size_mib(row: Row) -> float:
    text = str(row["config"].get("size") or "0")
    digits = text.rstrip("BKMGTi")
    return float(digits or 0) * _MIB.get(text[len(digits) :], 1 / 2**20)


def is_at_home(row: Row) -> bool:
    """Whether it is on the member that this driver made it on; where members share a pool, always."""
    return not _target(row) or row["config"].get(MEMBER, row["location"]) == row["location"]


def _rank(row: Row) -> tuple[bool, bool, bool, str]:
    """Of two with one name, the disk is that which a VM has, or that which is no copy."""
    return not is_at_home(row), not users(row), bool(row["config"].get(COPY)), str(row.get("created_at"))


def _is_empty(row: Row) -> bool:
    return ATTACHED not in row["config"] and not users(row)


def _is_of(device: Mapping[str, Any], row: Row) -> bool:
    return (device.get("type"), device.get("pool"), device.get("source")) == ("disk", row["pool"], row["name"])


def _require_type(row: Row, type_: str) -> None:
    content = str(row.get("content_type"))
    if content != _CONTENT[type_]:
        raise CpiError(
            f"disk {cid_of(row)} has content {content}, and a {type_} takes {_CONTENT[type_]} only",
            remedy="create the disk for a VM of its type, or set `type` in the disk's cloud_properties",
        )


def _device_name(row: Row) -> str:
    """Short: Incus makes the disk's serial in a virtual machine from it, and hashes what is too long for one."""
    return f"d-{hashlib.sha256(str(row['name']).encode()).hexdigest()[:12]}"


def _free_path(devices: Mapping[str, Mapping[str, Any]]) -> str:
    """The first disk is the store; a second one, while data is copied, is beside it."""
    taken = {str(one.get("path")) for one in devices.values()}
    return next(path for n in range(1, 1000) if (path := STORE if n == 1 else f"{STORE}-{n}") not in taken)


def _path(pool: str) -> str:
    return f"/storage-pools/{pool}/volumes/custom"


def _volume_path(row: Row) -> str:
    return f"{_path(row['pool'])}/{row['name']}"


def _target(row: Row) -> dict[str, str]:
    """Where two members have the name during a move, the member says which is meant."""
    return {"target": str(row["location"])} if row.get("location") not in (None, "", "none") else {}
