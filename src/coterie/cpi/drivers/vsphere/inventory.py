"""The vCenter's inventory as this driver uses it: how marks are written and read, machines by their id, our folders
`FOLDER/DIRECTOR/{vms,stemcells,groups}`, and the custom attributes of VMs.

A mark is a structured name, an instance uuid that follows from the whole mark, and a folder named by the Director's
uuid. Name and uuid are set by the creating call.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal

from coterie.cpi.contract import CpiError, Mark, VMNotFound, read_group_cid, read_keep_words, read_name
from coterie.cpi.drivers.vsphere import sdk
from coterie.cpi.drivers.vsphere.client import Client, Row
from coterie.cpi.drivers.vsphere.sdk import Refusal, tolerate
from coterie.cpi.drivers.vsphere.settings import Settings
from coterie.cpi.kit.marking import GROUP, RESERVED, read_mark_name
from coterie.slotted import dataclass

NAME_LIMIT = 80
ZONE = f"{RESERVED}zone-group"  # the attribute with the CID of the group of the zone that a VM is in
OBJECT = (  # properties of a VM or template that its description needs
    "name",
    "config.instanceUuid",
    "config.createDate",
    "config.template",
    "runtime.powerState",
    "runtime.host",
    "resourcePool",
    "customValue",
    "config.annotation",
)
Subfolder = Literal["vms", "stemcells", "groups"]
_NAMESPACE = uuid.UUID("6f6a5c4c-7b0f-5c58-9b0a-3c5f7f8a2d11")
_UUID = re.compile(r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
_TRIES = 5


def instance_uuid(mark: Mark) -> str:
    """The id of the VM or template with this mark: found by one search, and not to be guessed without the mark."""
    return str(uuid.uuid5(_NAMESPACE, f"{mark.director}/{mark.intent}"))


def is_uuid(text: str) -> bool:
    return _UUID.match(text) is not None


def vm_mark(name: str, found_uuid: str, director_uuid: str) -> Mark | None:
    """The mark of a VM, if this Director has set it: it is read from the name, and the uuid proves it."""
    mark = read_mark_name(name, director_uuid)
    return mark if mark and instance_uuid(mark) == found_uuid else None


def owner_of(path: Sequence[str], attributes: Mapping[str, str], director_uuid: str) -> str | None:
    """The Director that has left a mark on a VM. `path`: its name and those of its folders, innermost first."""
    name, folder, above = (*path, "", "", "")[:3]
    if folder == "vms" and is_uuid(above):
        return above
    read = read_name(name) or read_group_cid(attributes.get(GROUP, ""))
    return read.owner(director_uuid) if read else None


def created_at(row: Row) -> float | None:
    created = row.get("config.createDate")
    return float(created.timestamp()) if created else None


@dataclass(frozen=True, slots=True)
class Datacenter:
    ref: Any
    path: str
    vm_folder: Any
    host_folder: Any


class Inventory:
    def __init__(self, client: Client, settings: Settings, director_uuid: str) -> None:
        self._client = client
        self._settings = settings
        self._director_uuid = director_uuid
        self._datacenter: Datacenter | None = None

    @property
    def datacenter(self) -> Datacenter:
        if self._datacenter is None:
            path = self._settings.datacenter.strip("/")
            ref = self._client.query(self._client.content.searchIndex.FindByInventoryPath, path)
            if ref is None:
                raise CpiError(f"there is no datacenter {path!r}", remedy="check properties.datacenter")
            row = self._client.read(ref, "vmFolder", "hostFolder")
            self._datacenter = Datacenter(ref, path, row.get("vmFolder"), row.get("hostFolder"))
        return self._datacenter

    def find_machine(self, cid: str, *, by_instance: bool = True) -> Any | None:
        """The VM or template with this instance uuid, or with this uuid of its board."""
        if by_instance and not is_uuid(cid):
            return None
        return self._client.query(self._client.content.searchIndex.FindByUuid, None, cid, True, by_instance)

    def find_vm(self, cid: str) -> Any | None:
        """The VM with this id; a template is none."""
        found = self.find_machine(cid)
        return None if found is None or self._client.get(found, "config.template") else found

    def require_vm(self, cid: str) -> Any:
        found = self.find_vm(cid)
        if found is None:
            raise VMNotFound(f"there is no VM {cid[:64]}", remedy="deploy again, which makes it anew")
        return found

    def cluster_of(self, machine: Any) -> Any | None:
        pool = self._client.get(machine, "resourcePool")
        return self._client.get(pool, "owner") if pool is not None else None

    def host_names(self, refs: Sequence[Any]) -> dict[Any, str]:
        unique = list({ref._moId: ref for ref in refs if ref is not None}.values())
        return {row.ref: str(row.get("name")) for row in self._client.read_all(unique, sdk.vim.HostSystem, ["name"])}

    def path(self, subfolder: Subfolder, director_uuid: str | None = None) -> tuple[str, ...]:
        """Of a Director's folder, below the datacenter's VM folder."""
        return (*self._settings.folder.strip("/").split("/"), director_uuid or self._director_uuid, subfolder)

    def find(self, *path: str) -> Any | None:
        """What lies at this path below the datacenter's VM folder."""
        whole = "/".join((self.datacenter.path, "vm", *path))
        return self._client.query(self._client.content.searchIndex.FindByInventoryPath, whole)

    def find_folder(self, subfolder: Subfolder, director_uuid: str | None = None) -> Any | None:
        return self.find(*self.path(subfolder, director_uuid))

    def ensure_folder(self, subfolder: Subfolder) -> Any:
        found = self.find_folder(subfolder)
        if found is not None:
            return found
        folder = self.datacenter.vm_folder
        for name in self.path(subfolder):
            folder = self.ensure_child(folder, name)
        return folder

    def ensure_child(self, parent: Any, name: str) -> Any:
        """The child folder of this name: found, or created by this call or by another at the same time."""
        for left in reversed(range(_TRIES)):
            try:
                return self._client.change(parent.CreateFolder, name)
            except Refusal as refusal:
                if not refusal.is_a("DuplicateName"):
                    raise
                found = self._client.query(self._client.content.searchIndex.FindChild, parent, name)
                if found is not None:
                    return found
                if not left:  # not renamed or removed between the two calls, but hidden from this user
                    raise
        return None

    def list_occupants(self, folder: Any) -> list[str]:
        """Names of the VMs and vApps in a folder and in its folders; none if it is gone."""
        with tolerate("ManagedObjectNotFound"):
            rows = self._client.list_below(folder, sdk.vim.ManagedEntity, "name")
            return [str(row.get("name")) for row in rows if not isinstance(row.ref, sdk.vim.Folder)]
        return []

    def list_machines(self, subfolder: Subfolder, director_uuid: str | None, *paths: str) -> list[Any]:
        """Rows of the VMs or templates in a folder of ours; none if the folder is not there."""
        folder = self.find_folder(subfolder, director_uuid)
        return self._client.list_below(folder, sdk.vim.VirtualMachine, *paths) if folder is not None else []

    def remove_empty_folders(self, subfolder: Subfolder) -> None:
        """A folder of ours that holds nothing, and the one above it.

        It is renamed first, so that no other process finds it any more, and looked into again. A VM that enters it
        between would be unregistered, not destroyed; the process that created it notices and removes it. A process
        that dies in between leaves a renamed folder, which the next call removes.
        """
        path = self.path(subfolder)
        for depth in (len(path), len(path) - 1):
            with suppress(Refusal):
                self._remove_if_empty(path[:depth])

    def is_complete(self, subfolder: Subfolder | None, director_uuid: str) -> bool:
        """Whether what lies below our folder is all there is. A folder that is absent was never made, or was renamed,
        or the `folder` property was changed: VMs with our mark elsewhere tell. `subfolder` None: the one above."""
        path = self.path(subfolder, director_uuid) if subfolder else self.path("vms", director_uuid)[:-1]
        return self.find(*path) is not None or not self._has_strays(director_uuid)

    def _remove_if_empty(self, path: tuple[str, ...]) -> None:
        folder = self.find(*path)
        if folder is not None and self._client.get(folder, "childEntity"):
            return
        if folder is not None:
            self._client.run(folder.Rename_Task, f"{path[-1]}-{uuid.uuid4().hex[:8]}")
        for renamed in self._list_renamed(path):
            if not self._client.get(renamed, "childEntity"):
                self._client.run(renamed.UnregisterAndDestroy_Task)
            elif self.find(*path) is None:
                self._client.run(renamed.Rename_Task, path[-1])

    def _list_renamed(self, path: tuple[str, ...]) -> list[Any]:
        """Folders that are being removed: by this process, or by one that died."""
        above = self.find(*path[:-1]) if path[:-1] else self.datacenter.vm_folder
        rows = self._client.list_children(above, sdk.vim.Folder, "name") if above is not None else []
        pattern = re.compile(rf"{re.escape(path[-1])}-[0-9a-f]{{8}}")
        return [row.ref for row in rows if pattern.fullmatch(str(row.get("name")))]

    def _has_strays(self, director_uuid: str) -> bool:
        """VMs and templates with this Director's mark that lie in none of its folders."""
        place = self.datacenter
        marked = {
            row.ref
            for row in self._client.list_vms(place.ref, place.vm_folder, "name", "config.instanceUuid")
            if vm_mark(str(row.get("name")), str(row.get("config.instanceUuid")), director_uuid)
        }
        for subfolder in ("vms", "stemcells"):
            marked -= {row.ref for row in self.list_machines(subfolder, director_uuid, "name")}
        return bool(marked)


class Attributes:
    """Custom attributes of VMs: what people see of a VM's metadata, and which group it belongs to."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._keys: Mapping[str, int] = {}

    def write(self, machine: Any, attributes: Mapping[str, str]) -> None:
        """Set these; a definition that is missing is created."""
        for name, value in attributes.items():
            self._client.change(self._client.content.customFieldsManager.SetField, machine, self._key(name), value)

    def read(self, machine: Any) -> dict[str, str]:
        return self.by_name(self._client.get(machine, "customValue"))

    def by_name(self, values: Any) -> dict[str, str]:
        """The attributes in a `customValue`, by name."""
        found = {int(one.key): str(one.value) for one in values or ()}
        if not set(found) <= set(self._keys.values()):
            self._read_keys()
        names = {key: name for name, key in self._keys.items()}
        return {names[key]: value for key, value in found.items() if key in names}

    def written_on(self, row: Row) -> dict[str, str]:
        """What people may write on a VM or template: custom attributes, and words of its notes."""
        notes = str(row.get("config.annotation") or "").split()
        return {**read_keep_words(notes), **self.by_name(row.get("customValue"))}

    def _key(self, name: str) -> int:
        if name not in self._keys:
            self._read_keys()
        if name not in self._keys:
            with tolerate("DuplicateName"):
                # without a type the definition would be for every kind of object, and need a wider privilege
                define = self._client.content.customFieldsManager.AddCustomFieldDef
                self._client.change(define, name, sdk.vim.VirtualMachine)
            self._read_keys()
        if name not in self._keys:
            raise CpiError(
                f"the custom attribute {name!r} cannot be written on VMs",
                why="the vCenter has an attribute of that name for another kind of object",
                remedy="have the administrator rename that attribute, or define it for all kinds of objects",
            )
        return self._keys[name]

    def _read_keys(self) -> None:
        fields = self._client.get(self._client.content.customFieldsManager, "field") or ()
        self._keys = {str(one.name): int(one.key) for one in fields if _is_for_vms(one)}


def _is_for_vms(definition: Any) -> bool:
    kind = definition.managedObjectType
    return kind is None or "VirtualMachine" in str(getattr(kind, "__name__", kind))
