"""Persistent disks and their copies: files of their own in our folders of a datastore, so that they outlive every VM:
`[datastore] FOLDER/DIRECTOR/{disks,snapshots}/MARK.vmdk`.

A cid names the mark and, as a hint, the datastore; a disk that was moved to another one is still found. On a VM a disk
is known by its uuid, which is written into the VM's configuration when it is attached: vSAN shows its file under
another folder, and Storage vMotion under another name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from coterie.cpi.contract import CloudObject, CpiError, DiskNotFound, InvalidCall, Json, Mark, NotSupported, read_name
from coterie.cpi.drivers.vsphere import devices, sdk
from coterie.cpi.drivers.vsphere.client import Client, Row
from coterie.cpi.drivers.vsphere.inventory import Inventory
from coterie.cpi.drivers.vsphere.placement import Placement, Store
from coterie.cpi.drivers.vsphere.sdk import Refusal, tolerate
from coterie.cpi.drivers.vsphere.settings import Settings, read_disk_properties
from coterie.cpi.kit.marking import read_mark_name
from coterie.slotted import dataclass

FileKind = Literal["disk", "snapshot"]
_FOLDERS: dict[FileKind, str] = {"disk": "disks", "snapshot": "snapshots"}
_DEVICES = "config.hardware.device"
_RECORD = "coterie.disk."  # and the stem: the key under which a VM's configuration has the uuid of an attached disk
_RECORDS = "config.extraConfig"
_DISK_TYPES = {"thick": "preallocated"}


@dataclass(frozen=True, slots=True)
class File:
    store: str
    folder: str
    name: str
    size_mb: int | None = None

    @property
    def path(self) -> str:
        return f"[{self.store}] {self.folder}/{self.name}"

    @property
    def stem(self) -> str:
        return self.name.rpartition(".")[0]

    @property
    def cid(self) -> str:
        return f"{self.stem}@{self.store}"


@dataclass(frozen=True, slots=True)
class Attached:
    """A disk on a VM. `stem`: that of a persistent disk of ours, wherever its file lies now; None: any other disk."""

    device: Any
    stem: str | None

    @property
    def cid(self) -> str:
        return f"{self.stem}@{_file_at(devices.disk_path(self.device)).store}"


@dataclass(frozen=True, slots=True)
class Disks:
    client: Client
    inventory: Inventory
    placement: Placement
    settings: Settings
    director_uuid: str

    def create(self, size_mb: int, cloud_properties: Json, vm_cid: str | None, mark: Mark) -> str:
        wanted = read_disk_properties(cloud_properties)
        if isinstance(size_mb, bool) or not isinstance(size_mb, int) or size_mb < 1:
            raise InvalidCall(f"size_mb is {size_mb!r}", remedy="give a whole number above 0")
        found = self._find("disk", mark.name())
        if found is not None:
            return found.cid
        clusters = self.placement.of_vm(self.inventory.require_vm(vm_cid)) if vm_cid else []
        clusters = self.placement.in_zone(wanted.zone) if wanted.zone else clusters
        store = self.placement.choose_store(clusters, wanted.datastores, True, mark.intent, size_mb)
        file = self._file(store.name, "disk", mark.name())
        self._create_file(file, size_mb, wanted.type)
        return file.cid

    def exists(self, cid: str) -> bool:
        return self._find("disk", cid) is not None or cid.partition("@")[0] in self._list_moved(self.director_uuid)

    def resize(self, cid: str, new_size_mb: int) -> None:
        found = self._require(cid)
        if found.size_mb is not None and new_size_mb < found.size_mb:
            raise NotSupported(
                f"disk {cid} has {found.size_mb} MB and cannot shrink", remedy="copy the data to a smaller disk"
            )
        if found.size_mb == new_size_mb:
            return
        if self._find_user(found) is not None:
            raise CpiError(f"disk {cid} is attached", remedy="detach it before it is resized")
        extend, datacenter = self._manager.ExtendVirtualDisk_Task, self.inventory.datacenter.ref
        self.client.run(extend, found.path, datacenter, new_size_mb * 1024, False)

    def update(self, cid: str, new_size_mb: int, cloud_properties: Json) -> None:
        """In place; the way a disk is provisioned is fixed for its life."""
        wanted = read_disk_properties(cloud_properties)
        if "type" in cloud_properties and wanted.type != "thin":
            raise NotSupported("a disk keeps its type for life", remedy="make a new disk and copy the data")
        self.resize(cid, new_size_mb)

    def attach(self, vm_cid: str, cid: str) -> str:
        """The unit number on the VM's SCSI controller, as BOSH's agents want it."""
        machine, stem = self.inventory.require_vm(vm_cid), cid.partition("@")[0]
        for one in self.read_attached(machine):
            if one.stem == stem:
                return str(one.device.unitNumber)
        disk, present = self._require(cid), self.client.get(machine, _DEVICES) or []
        query, datacenter = self._manager.QueryVirtualDiskUuid, self.inventory.datacenter.ref
        uuid = devices.plain_uuid(self.client.query(query, disk.path, datacenter))
        for one in devices.disks(present):
            if uuid and devices.disk_uuid(one) == uuid:
                return str(one.unitNumber)
        user = self._find_user(disk)
        if user is not None:
            raise CpiError(f"disk {cid} is attached to VM {user}", remedy="detach it there first")
        unit = devices.free_unit(present)
        add = devices.attach(disk.path, disk.size_mb or 0, present, unit)
        self._reconfigure(machine, [add], {f"{_RECORD}{disk.stem}": uuid})
        for one in self.read_attached(machine):
            if one.stem == disk.stem:
                return str(one.device.unitNumber)
        raise CpiError(f"disk {cid} was attached and does not show on VM {vm_cid}", remedy="repeat", retryable=True)

    def detach(self, vm_cid: str, cid: str) -> None:
        """Not attached to that VM is success, unless it may be there under another name. A disk that moved with the VM
        goes back to where it is looked for."""
        machine, stem = self.inventory.require_vm(vm_cid), cid.partition("@")[0]
        attached = self.read_attached(machine)
        wanted = [one for one in attached if one.stem == stem]
        if not wanted and not self._move_home(machine):
            self._require_elsewhere(vm_cid, cid, attached)
        self._take_out(machine, wanted)
        if any(one.stem == stem for one in self.read_attached(machine)):
            raise CpiError(f"disk {cid} is still attached to VM {vm_cid}", remedy="repeat", retryable=True)

    def set_metadata(self, cid: str, metadata: Mapping[str, str]) -> None:
        raise NotSupported("a disk is a file and carries no metadata", remedy="look at the VM's metadata")

    def list_attached(self, vm_cid: str) -> list[str]:
        return [one.cid for one in self.read_attached(self.inventory.require_vm(vm_cid)) if one.stem]

    def read_attached(self, machine: Any) -> list[Attached]:
        return self._attached(self.client.read(machine, _DEVICES, _RECORDS))

    def detach_persistent(self, machine: Any) -> None:
        """All disks but the VM's own, so that destroying it does not destroy them."""
        attached = self.read_attached(machine)
        self._take_out(machine, [one for one in attached if one.stem or not devices.is_own_disk(one.device)])
        self._move_home(machine)

    def snapshot(self, cid: str, metadata: Mapping[str, Any], mark: Mark) -> str:
        """A whole copy beside the disk. vSphere snapshots VMs, and our disks are independent of those on purpose, so a
        disk can be copied only while no running VM writes to it. The copy gets its name once it is whole."""
        made = self._find("snapshot", mark.name())
        if made is not None:
            return made.cid
        disk, datacenter = self._require(cid), self.inventory.datacenter.ref
        self._require_idle(disk, cid)
        part, whole = (self._file(disk.store, "snapshot", f"{mark.name()}{end}") for end in ("-part", ""))
        self._ensure_directory(whole)
        self._delete_file(part)  # what a process that died has copied of it
        self.client.run(self._manager.CopyVirtualDisk_Task, disk.path, datacenter, part.path, datacenter, None, False)
        self._move(part.path, whole)
        if self._find("snapshot", mark.name()) is None:
            raise CpiError(
                f"the copy of disk {cid} was taken away before it was whole",
                why="another call made it under the same mark, or a cleanup deleted it",
                remedy="try again",
                retryable=True,
            )
        return whole.cid

    def list_objects(self, kind: FileKind, director_uuid: str) -> list[CloudObject]:
        """All of a Director, on every datastore; the folder that a file lies in proves the mark in its name."""
        users = self._list_users()
        files = [
            file
            for store in self.placement.list_stores([], ("*",))
            for file in self._list_files(store, self._folder(kind, director_uuid))
        ]
        found = [_object(kind, file.cid, director_uuid, users.get((file.store, file.stem))) for file in files]
        moved = self._moved_objects(director_uuid, {file.stem for file in files}) if kind == "disk" else []
        return [*found, *moved]

    def find_object(self, kind: FileKind, cid: str, director_uuid: str) -> CloudObject | None:
        file = self._find(kind, cid, director_uuid)
        if file is None and kind == "disk":
            stem = cid.partition("@")[0]
            return next((one for one in self._moved_objects(director_uuid, set()) if one.name == stem), None)
        return _object(kind, file.cid, director_uuid, self._find_user(file)) if file else None

    def delete(self, cid: str) -> None:
        self.delete_object("disk", cid)

    def delete_snapshot(self, cid: str) -> None:
        self.delete_object("snapshot", cid)

    def delete_object(self, kind: FileKind, cid: str) -> None:
        found = self._find(kind, cid)
        if found is not None:
            user = self._find_user(found)
        else:  # Storage vMotion may have moved it with its VM
            moved = self._list_moved(self.director_uuid) if kind == "disk" else {}
            user = moved[cid.partition("@")[0]][1] if cid.partition("@")[0] in moved else None
        if user is not None:  # an operator may have restored a snapshot by attaching it to a VM
            raise CpiError(f"{kind} {cid} is attached to VM {user}", remedy="detach it first")
        if found is not None:
            self._delete_file(found)

    @property
    def _manager(self) -> Any:
        return self.client.content.virtualDiskManager

    def _create_file(self, file: File, size_mb: int, disk_type: str) -> None:
        spec = sdk.vim.VirtualDiskManager.FileBackedVirtualDiskSpec(
            diskType=_DISK_TYPES.get(disk_type, disk_type), adapterType="lsiLogic", capacityKb=size_mb * 1024
        )
        create = self._manager.CreateVirtualDisk_Task
        with tolerate("FileAlreadyExists"):  # another call with the same mark was faster
            try:
                self.client.run(create, file.path, self.inventory.datacenter.ref, spec)
            except Refusal as refusal:
                if not refusal.is_a("FileNotFound", "CannotCreateFile"):
                    raise
                self._ensure_directory(file)
                self.client.run(create, file.path, self.inventory.datacenter.ref, spec)

    def _delete_file(self, file: File) -> None:
        with tolerate("FileNotFound"):
            self.client.run(self._manager.DeleteVirtualDisk_Task, file.path, self.inventory.datacenter.ref)

    def _move(self, path: str, target: File) -> None:
        """Done already by another process, or by one that died, is fine."""
        move, datacenter = self._manager.MoveVirtualDisk_Task, self.inventory.datacenter.ref
        with tolerate("FileNotFound"):
            self.client.run(move, path, datacenter, target.path, datacenter, False)

    def _ensure_directory(self, file: File) -> None:
        make, path = self.client.content.fileManager.MakeDirectory, f"[{file.store}] {file.folder}"
        with tolerate("FileAlreadyExists"):
            self.client.change(make, path, self.inventory.datacenter.ref, True)

    def _attached(self, row: Row) -> list[Attached]:
        stems = {value.partition(" ")[0]: stem for stem, value in _records(row).items()}
        return [
            Attached(one, stems.get(devices.disk_uuid(one)) or self._stem(devices.disk_path(one)))
            for one in devices.disks(row.get(_DEVICES) or [])
        ]

    def _take_out(self, machine: Any, leaving: list[Attached]) -> None:
        """A disk whose file is not where it is looked for leaves its path on the VM, until the file is moved back."""
        records = {}
        for one in leaving:
            if one.stem:
                moved = read_mark_name(one.stem, self.director_uuid) and self._find("disk", one.stem) is None
                path = devices.disk_path(one.device)
                records[f"{_RECORD}{one.stem}"] = f"{devices.disk_uuid(one.device)} {path}" if moved else ""
        self._reconfigure(machine, [devices.detach(one.device) for one in leaving], records)
        if any(records.values()):
            self._move_home(machine)

    def _move_home(self, machine: Any) -> bool:
        """Files of disks that were taken out of this VM and lie beside it, where Storage vMotion has put them. Whether
        there were any."""
        found = False
        for stem, value in _records(self.client.read(machine, _RECORDS)).items():
            path = value.partition(" ")[2]
            if path:
                found, home = True, self._file(_file_at(path).store, "disk", stem)
                self._ensure_directory(home)
                self._move(path, home)
                self._reconfigure(machine, [], {f"{_RECORD}{stem}": ""})
        return found

    def _list_moved(self, director_uuid: str) -> dict[str, tuple[str, str]]:
        """Attached disks of a Director whose file lies elsewhere: stem → its path, and the VM."""
        folder, found = self._folder("disk", director_uuid), {}
        for row in self.inventory.list_machines("vms", director_uuid, "config.instanceUuid", _DEVICES, _RECORDS):
            for one in self._attached(row):
                path = devices.disk_path(one.device)
                if one.stem and _file_at(path).folder != folder:
                    found[one.stem] = (path, str(row.get("config.instanceUuid")))
        return found

    def _moved_objects(self, director_uuid: str, known: set[str]) -> list[CloudObject]:
        return [
            _object("disk", f"{stem}@{_file_at(path).store}", director_uuid, user)
            for stem, (path, user) in self._list_moved(director_uuid).items()
            if stem not in known and read_mark_name(stem, director_uuid)
        ]

    def _require_elsewhere(self, vm_cid: str, cid: str, attached: list[Attached]) -> None:
        """A disk whose file is not where it should be may be one that cannot be recognised on this VM."""
        others = [one.device for one in attached if not one.stem and not devices.is_own_disk(one.device)]
        strange = [devices.disk_path(one) for one in others]
        if strange and self._find("disk", cid) is None:
            stem, _, store = cid.partition("@")
            raise CpiError(
                f"disk {cid} cannot be told from others on VM {vm_cid}",
                why=f"its file is not in our folder, and the VM has {', '.join(strange)}, which were moved there",
                remedy=f"stop the VM, detach that disk and move its file to {self._file(store, 'disk', stem).path}",
            )

    def _require_idle(self, disk: File, cid: str) -> None:
        user = self._find_user(disk)
        if user is None:
            return
        if self.client.get(self.inventory.require_vm(user), "runtime.powerState") != "poweredOff":
            raise CpiError(
                f"disk {cid} cannot be copied while VM {user} runs",
                why="its file is locked, and an independent disk takes no part in the VM's snapshots",
                remedy="stop the VM or detach the disk first",
            )

    def _reconfigure(self, machine: Any, changes: list[Any], records: Mapping[str, str] | None = None) -> None:
        if changes or records:
            spec = sdk.vim.vm.ConfigSpec(deviceChange=changes, extraConfig=devices.extra_config(records or {}))
            self.client.run(machine.ReconfigVM_Task, spec)

    def _stem(self, path: str) -> str | None:
        """The stem of a persistent disk's file, of any Director; None for a VM's own disk."""
        file = _file_at(path)
        inside = file.folder.startswith(f"{self.settings.folder.strip('/')}/") and file.folder.endswith("/disks")
        return file.stem if inside or (read_name(file.stem) and file.folder.endswith("/disks")) else None

    def _find_user(self, disk: File) -> str | None:
        """Any VM of the datacenter that has the disk: an operator may attach a disk of ours to a VM of their own."""
        return self._list_users().get((disk.store, disk.stem))

    def _list_users(self) -> dict[tuple[str, str], str]:
        """Datastore and stem of each attached disk's file → its VM, by the layout, which is far smaller than the
        devices. A stem has our mark and is the same under every name that a datastore gives to the folder; a copy has
        it on another datastore."""
        place = self.inventory.datacenter
        rows = self.client.list_vms(place.ref, place.vm_folder, "config.instanceUuid", "layout.disk")
        return {
            (file.store, file.stem): str(row.get("config.instanceUuid") or row.ref._moId)
            for row in rows
            for one in row.get("layout.disk") or ()
            for file in map(_file_at, one.diskFile)
        }

    def _require(self, cid: str) -> File:
        found = self._find("disk", cid)
        if found is None:
            raise DiskNotFound(f"there is no disk {cid}", remedy="check the datastores of this cloud")
        return found

    def _find(self, kind: FileKind, cid: str, director_uuid: str | None = None) -> File | None:
        """On any datastore of the datacenter; the one in the CID is looked at first. Only a file with the Director's
        mark counts: any other in our folder is left alone."""
        director = director_uuid or self.director_uuid
        stem, _, hint = cid.partition("@")
        if read_mark_name(stem, director) is None:
            return None
        stores = self.placement.list_stores([], ("*",))
        for store in sorted(stores, key=lambda one: (one.name != hint, one.name)):
            for found in self._list_files(store, self._folder(kind, director), f"{stem}.vmdk"):
                if found.stem == stem:  # the datastore takes a name for a pattern
                    return found
        return None

    def _list_files(self, store: Store, folder: str, pattern: str = "*.vmdk") -> list[File]:
        """The disks in one folder of a datastore; none where the folder is missing."""
        browser = sdk.vim.host.DatastoreBrowser
        query = browser.VmDiskQuery(details=browser.VmDiskQuery.Details(capacityKb=True))
        flags = browser.FileInfo.Details(fileType=True, fileSize=False, modification=False, fileOwner=False)
        spec = browser.SearchSpec(matchPattern=[pattern], query=[query], details=flags)
        with tolerate("FileNotFound", "InvalidDatastorePath"):
            found = self.client.run(store.browser.SearchDatastore_Task, f"[{store.name}] {folder}", spec)
            return [File(store.name, folder, str(one.path), _size_mb(one)) for one in found.file or ()]
        return []

    def _file(self, store: str, kind: FileKind, stem: str) -> File:
        return File(store, self._folder(kind, self.director_uuid), f"{stem}.vmdk")

    def _folder(self, kind: FileKind, director_uuid: str) -> str:
        return f"{self.settings.folder.strip('/')}/{director_uuid}/{_FOLDERS[kind]}"


def _object(kind: FileKind, cid: str, director_uuid: str, user: str | None) -> CloudObject:
    stem = cid.partition("@")[0]
    return CloudObject(
        kind,
        cid,
        stem,
        mark=read_mark_name(stem, director_uuid),
        in_use_by=(user,) if user else (),
        state=("attached" if user else "detached") if kind == "disk" else None,
    )


def _records(row: Row) -> dict[str, str]:
    """By stem: the uuid of a disk that was attached to this VM, and its path while it leaves."""
    values = {str(one.key): str(one.value or "") for one in row.get(_RECORDS) or ()}
    return {key.removeprefix(_RECORD): value for key, value in values.items() if key.startswith(_RECORD) and value}


def _file_at(path: str) -> File:
    store, _, rest = path.removeprefix("[").partition("] ")
    folder, _, name = rest.rpartition("/")
    return File(store, folder, name)


def _size_mb(info: Any) -> int | None:
    capacity = getattr(info, "capacityKb", None)
    return int(capacity) // 1024 if capacity else None
