"""Everything of a kind that is a Director's, in one call per kind or per datastore; its mark proven or None."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from coterie.cpi.contract import CloudObject, Kind, Mark
from coterie.cpi.drivers.vsphere import sdk
from coterie.cpi.drivers.vsphere.disk_files import Shelf, cid_of
from coterie.cpi.drivers.vsphere.drs import ClusterView
from coterie.cpi.drivers.vsphere.files import File
from coterie.cpi.drivers.vsphere.holders import Holder
from coterie.cpi.drivers.vsphere.inspection import Inspection
from coterie.cpi.drivers.vsphere.marking import file_mark, group_mark, instance_uuid, vm_mark
from coterie.cpi.drivers.vsphere.places import Zone
from coterie.cpi.drivers.vsphere.reading import Row
from coterie.cpi.drivers.vsphere.snapshots import Snapshots
from coterie.cpi.drivers.vsphere.strays import Strays

VM = (
    "name",
    "config.instanceUuid",
    "config.createDate",
    "config.template",
    "runtime.powerState",
    "runtime.host",
    "resourcePool",
    "customValue",
)
_STATES = {"poweredOn": "running", "poweredOff": "stopped", "suspended": "stopped"}


class Listing(Inspection, Snapshots, Strays):
    def machines(self, kind: Kind, director_uuid: str) -> list[CloudObject]:
        folder = self.folder("vms" if kind == "vm" else "stemcells", director_uuid)
        rows = self.reader.below(folder, sdk.vim.VirtualMachine, *VM) if folder is not None else []
        found = self.machine_objects(kind, rows, director_uuid)
        if kind == "vm":
            return found
        # replicas share the intent of their template and go with it
        return list({(one.mark.intent if one.mark else one.cid): one for one in reversed(found)}.values())

    def machine_objects(self, kind: Kind, rows: list[Row], director_uuid: str) -> list[CloudObject]:
        hosts = self._host_names([row.get("runtime.host") for row in rows]) if kind == "vm" else {}
        zones = self._pools({row.get("resourcePool") for row in rows} - {None}) if kind == "vm" else {}
        return [self._machine(kind, row, director_uuid, hosts, zones) for row in rows]

    def files(self, kind: Kind, director_uuid: str) -> list[CloudObject]:
        shelf: Shelf = "disks" if kind == "disk" else "snapshots"
        users = self.disk_users()
        return [
            self._file(kind, file, director_uuid, users)
            for store in self.stores([], ("*",))
            for file in self.disk_files(store, self.shelf(shelf, director_uuid))
        ]

    def groups(self, director_uuid: str) -> list[CloudObject]:
        holders = self.holders(director_uuid)
        views = self.views() if holders else {}
        return [self.group_object(holder, views, director_uuid) for holder in holders]

    def group_object(self, holder: Holder, views: dict[str, ClusterView], director_uuid: str) -> CloudObject:
        having = [group for view in views.values() if (group := view.vm_group(holder.spec.name))]
        moids = sorted({moid for group in having for moid in group.members})
        users = tuple(one.vm_cid for one in self._members(moids).values())
        return CloudObject(
            "server_group",
            holder.cid,
            holder.spec.name,
            mark=group_mark(holder.cid, director_uuid),
            in_use_by=users,
            state="live" if having else "reserved",
        )

    def _machine(
        self, kind: Kind, row: Row, director_uuid: str, hosts: dict[Any, str], zones: dict[Any, str]
    ) -> CloudObject:
        name, found = str(row.get("name")), str(row.get("config.instanceUuid"))
        mark = vm_mark(name, found, director_uuid) or _replica_mark(name, director_uuid)
        created = row.get("config.createDate")
        thing = CloudObject(
            kind,
            instance_uuid(mark) if mark else found,
            name,
            created_at=created.timestamp() if created else None,
            mark=mark,
            in_use_by=() if kind == "vm" else None,
            tags=self.described(row.get("customValue")),
        )
        if kind == "image":
            return replace(thing, in_use_by=(), state="live" if row.get("config.template") else "building")
        return replace(
            thing,
            state=_STATES.get(str(row.get("runtime.powerState"))),
            host=hosts.get(row.get("runtime.host")),
            az=zones.get(row.get("resourcePool")),
        )

    def _pools(self, pools: set[Any]) -> dict[Any, str]:
        """Resource pool → zone."""
        owners = {
            row.ref: row.get("owner") for row in self.reader.several(list(pools), sdk.vim.ResourcePool, ["owner"])
        }
        zones: dict[Any, Zone] = {zone.cluster: zone for zone in self.zones().values()}
        return {pool: zones[owner].name for pool, owner in owners.items() if owner in zones}

    def _file(self, kind: Kind, file: File, director_uuid: str, users: dict[str, str]) -> CloudObject:
        user = users.get(file.path)
        return CloudObject(
            kind,
            cid_of(file),
            file.stem,
            mark=file_mark(file.stem, director_uuid),
            in_use_by=(user,) if user else (),
            state=("attached" if user else "detached") if kind == "disk" else None,
        )


def _replica_mark(name: str, director_uuid: str) -> Mark | None:
    """A replica cannot have the uuid of its template; that it lies in our folder must do."""
    return file_mark(name, director_uuid) if "-on-" in name else None


def by_mark(found: Iterator[CloudObject] | list[CloudObject], mark: Mark) -> CloudObject | None:
    return next((one for one in found if one.mark == mark), None)
