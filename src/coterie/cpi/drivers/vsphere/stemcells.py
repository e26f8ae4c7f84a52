"""Stemcells: an OVF package imported once per mark, or a copy of an operator's template, kept as a template that VMs
are cloned from; with a replica on every further datastore that needs one."""

from __future__ import annotations

import hashlib
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from coterie.cpi.contract import (
    CloudObject,
    Coordinator,
    CpiError,
    InvalidCall,
    Json,
    Mark,
    OutcomeUnknown,
    PartRecords,
    StemcellNotFound,
    revive,
)
from coterie.cpi.drivers.vsphere import sdk
from coterie.cpi.drivers.vsphere.client import Client, Row
from coterie.cpi.drivers.vsphere.inventory import OBJECT, Attributes, Inventory, created_at, instance_uuid, vm_mark
from coterie.cpi.drivers.vsphere.placement import Placement, Store, ZoneCluster
from coterie.cpi.drivers.vsphere.sdk import Refusal, contract_error, tolerate
from coterie.cpi.drivers.vsphere.settings import Settings
from coterie.cpi.kit.marking import read_mark_name
from coterie.cpi.kit.ovf_package import OvfPackage, open_package
from coterie.cpi.kit.waits import Waits
from coterie.slotted import dataclass

COPIES = "vsphere-copy:"  # of a domain: a copy of a template
_SNAPSHOT = "coterie"
_DEVICES = "config.hardware.device"
_TEMPLATE = ("name", "config.template", "datastore", "snapshot.currentSnapshot", _DEVICES)
_ON = "-on-"  # in the name of a replica
_TRIES = 3
_LEASE_WAIT = Waits(300.0, 0.05, 0.2, remedy="look for the template before repeating it")
_COPY_WAIT = Waits(1800.0, 0.05, 2.0, 1.5, "repeat; if it stays so, look at the vCenter's tasks")
_OTHER_MAKER_WAIT = Waits(900.0, 0.01, 2.0, 1.5, "repeat; if it stays so, delete that VM in the vCenter")


@dataclass(frozen=True, slots=True)
class Template:
    ref: Any
    name: str
    stores: tuple[str, ...]  # ids of the datastores that it lies on
    snapshot: Any | None
    devices: list[Any]


@dataclass(frozen=True, slots=True)
class Stemcells:
    client: Client
    inventory: Inventory
    placement: Placement
    attributes: Attributes
    settings: Settings
    director_uuid: str
    parts: PartRecords
    coordinator: Coordinator
    submit: Callable[[str, Json], Json]

    def create(self, image_path: str, cloud_properties: Json, env: Json, mark: Mark) -> str:
        """From a file, or (a light stemcell) from a template that an operator keeps, named by its inventory path."""
        source = (cloud_properties or {}).get("template")
        if not source and not (image_path and Path(image_path).is_file()):
            raise InvalidCall(
                f"image_path {image_path!r} is no file", remedy="give the image, or cloud_properties.template"
            )
        for _ in range(_TRIES):
            if self._create_once(image_path, source, mark):
                return instance_uuid(mark)
        raise CpiError(
            f"template {mark.name()} is there and cannot be used",
            why="another object of the vCenter has that name",
            remedy="rename or remove it, then repeat",
        )

    def delete(self, cid: str) -> None:
        """With all its replicas, which go first."""
        for row in reversed(self._list_rows(cid, self.director_uuid)):
            with tolerate("ManagedObjectNotFound"):
                self.client.run(row.ref.Destroy_Task)
        self.inventory.remove_empty_folders("stemcells")

    def list_objects(self, director_uuid: str) -> list[CloudObject]:
        """Each stemcell once: replicas share the intent of their template and go with it."""
        rows = self._list_rows(None, director_uuid)
        users = self._list_users(rows) if rows else {}
        first = {_cid(row, director_uuid): row for row in reversed(rows)}
        return [self._image(row, director_uuid, users) for row in first.values()]

    def find_object(self, cid: str, director_uuid: str) -> CloudObject | None:
        """State *live*; *building* while it is not whole, and where only replicas are left of it."""
        rows = self._list_rows(cid, director_uuid)
        return self._image(rows[0], director_uuid, self._list_users(rows)) if rows else None

    def require_template(self, cid: str) -> Template:
        ref = self.inventory.find_machine(cid)
        row = self.client.read(ref, *_TEMPLATE) if ref is not None else None
        if row is None or not row.get("config.template"):
            raise StemcellNotFound(f"there is no stemcell {cid}", remedy="upload the stemcell again")
        return _template(row)

    def ensure_replica(self, template: Template, cluster: ZoneCluster, store: Store) -> Template:
        """The template itself if it lies on this datastore, or its replica there, created if it is missing."""
        if store.ref._moId in template.stores:
            return template
        name = f"{_replica_prefix(template.name)}{hashlib.sha256(store.name.encode()).hexdigest()[:10]}"
        found = self._find_replica(name)
        if found is None:
            change = {"template": template.ref._moId, "base": template.name, "name": name, "store": store.ref._moId}
            change |= {"cluster": cluster.ref._moId, "zone": cluster.zone}
            vcenter = self.client.content.about.instanceUuid
            try:
                outcome = self.submit(f"{COPIES}{vcenter}/{name}", change)
            except OutcomeUnknown as error:
                raise _without_doubt(error) from error
            if not outcome.get("ok"):
                raise revive(outcome.get("error") or {})
            found = self._find_replica(name)
        if found is None:
            raise CpiError(f"template {name} was copied and does not show", remedy="repeat", retryable=True)
        return found

    def apply(self, domain: str, changes: Sequence[Json]) -> list[Json]:
        """Copy a template to one datastore, for all that wait for it. Only the coordinator calls this: no other process
        makes this copy, so one that is there and not whole was left by a process that died, and is finished."""
        try:
            self._copy(domain, changes[0])
            return [{"ok": True} for _ in changes]
        except (CpiError, Refusal) as error:
            known = contract_error(error) if isinstance(error, Refusal) else error
            return [{"ok": False, "error": _without_doubt(known).facts()} for _ in changes]

    def _copy(self, domain: str, change: Json) -> None:
        name, mark = str(change["name"]), read_mark_name(str(change["base"]), self.director_uuid)
        if mark is None:
            raise CpiError(f"template {change['base']} is not ours", remedy="upload the stemcell again")
        path, source = (*self.inventory.path("stemcells"), name), sdk.vim.VirtualMachine
        template = self.client.reference(source, change["template"])

        def look() -> bool | None:
            self.coordinator.hold(domain)
            return None if self.inventory.find(*path) is None and self.client.is_busy(template) else True

        _COPY_WAIT.until(f"template {name}, which a process that died copies,", look, verb="become whole")
        copy = self.inventory.find(*path) or self._clone_recorded(domain, change, template, mark)
        if self._find_replica(name) is None:
            self.coordinator.hold(domain)
            self._seal(copy)

    def _clone_recorded(self, domain: str, change: Json, template: Any, mark: Mark) -> Any:
        """With a row in the ledger. A lost answer is settled by looking for the copy's name."""
        name = str(change["name"])
        clusters = self.placement.clusters.values()
        cluster = next(one for one in clusters if (one.ref._moId, one.zone) == (change["cluster"], change["zone"]))
        store = self.client.reference(sdk.vim.Datastore, change["store"])
        self.coordinator.hold(domain)
        self.parts.intend(mark, "image", name)
        try:
            copy = self._clone(template, name, cluster, datastore=store, between=lambda: self.coordinator.hold(domain))
        except OutcomeUnknown:
            copy = _lost_answer_wait(self.settings.settle_s).until(
                f"template {name}, whose answer was lost,",
                lambda: self.inventory.find(*self.inventory.path("stemcells"), name),
                verb="show",
            )
        except (CpiError, Refusal):
            self.parts.withdraw(mark, "image", name)
            raise
        self.parts.record(mark, "image", name, str(self.client.get(copy, "config.instanceUuid")))
        return copy

    def _find_replica(self, name: str) -> Template | None:
        """The copy of this name, if it is whole."""
        ref = self.inventory.find(*self.inventory.path("stemcells"), name)
        row = self.client.read(ref, *_TEMPLATE) if ref is not None else None
        is_whole = row is not None and row.get("config.template") and row.get("snapshot.currentSnapshot")
        return _template(row) if row is not None and is_whole else None

    def _list_rows(self, cid: str | None, director_uuid: str) -> list[Row]:
        """Templates before their replicas, of one stemcell or of all; one that an administrator has moved, too."""
        rows = self.inventory.list_machines("stemcells", director_uuid, *OBJECT, _DEVICES)
        found = [row for row in rows if cid in (None, _cid(row, director_uuid))]
        ref = self.inventory.find_machine(cid) if cid else None
        if ref is not None and ref not in [row.ref for row in found] and self.client.get(ref, "config.template"):
            found.append(self.client.read(ref, *OBJECT, _DEVICES))
        return sorted(found, key=lambda row: _ON in str(row.get("name")))

    def _list_users(self, templates: Sequence[Row]) -> dict[str, tuple[str, ...]]:
        """The ids of VMs that grow from the disks of these templates and replicas, by `_base_name`: linked clones, also
        those of people. A full copy shares no file, and needs the template no more."""
        owners = {
            file: _base_name(str(row.get("name"))) for row in templates for chain in disk_chains(row) for file in chain
        }
        own, place = {row.ref for row in templates}, self.inventory.datacenter
        found: dict[str, set[str]] = defaultdict(set)
        for row in self.client.list_vms(place.ref, place.vm_folder, "config.instanceUuid", _DEVICES):
            parents = {file for chain in disk_chains(row) for file in chain[1:]}
            for file in parents & owners.keys() if row.ref not in own else ():
                found[owners[file]].add(str(row.get("config.instanceUuid")))
        return {name: tuple(sorted(users)) for name, users in found.items()}

    def _create_once(self, image_path: str, source: str | None, mark: Mark) -> bool:
        """False where another call's attempt under this mark came to nothing, so that it must be tried again."""
        try:
            made = self._copy_template(source, mark) if source else self._import_file(image_path, mark)
        except Refusal as refusal:
            if not refusal.is_a("DuplicateName"):
                raise
            return self._await_other_maker(mark, source)
        try:
            self._seal(made)
        except Refusal:
            with suppress(CpiError, Refusal):
                self.client.run(made.Destroy_Task)
            raise
        return True

    def _copy_template(self, path: str, mark: Mark) -> Any:
        found = self.inventory.find(*path.strip("/").split("/"))
        if found is None:
            raise StemcellNotFound(f"there is no template {path!r}", remedy="give its path below the VM folder")
        config = sdk.vim.vm.ConfigSpec(instanceUuid=instance_uuid(mark))
        return self._clone(found, mark.name(), self._first_cluster(), config=config)

    def _clone(
        self,
        source: Any,
        name: str,
        cluster: ZoneCluster,
        datastore: Any = None,
        config: Any = None,
        between: Callable[[], Any] | None = None,
    ) -> Any:
        location = sdk.vim.vm.RelocateSpec(
            datastore=datastore,
            pool=cluster.pool,
            host=self.placement.host_without_drs(cluster, name),
            diskMoveType="moveAllDiskBackingsAndDisallowSharing",
        )
        spec = sdk.vim.vm.CloneSpec(location=location, powerOn=False, template=False, config=config)
        folder = self.inventory.ensure_folder("stemcells")
        return self.client.run(source.CloneVM_Task, folder, name, spec, between=between)

    def _import_file(self, image_path: str, mark: Mark) -> Any:
        """The VM that came of the package. Refused with DuplicateName where one of that name is there already."""
        cluster = self._first_cluster()
        need_mb = Path(image_path).stat().st_size // (1024 * 1024) + 1
        store = self.placement.choose_store([cluster], (), False, mark.intent, need_mb)
        with open_package(image_path) as package:
            spec = self._import_spec(package, mark.name(), cluster, store)
            spec.importSpec.configSpec.instanceUuid = instance_uuid(mark)
            folder = self.inventory.ensure_folder("stemcells")
            host = self.placement.host_without_drs(cluster, mark.intent)
            lease = self.client.change(cluster.pool.ImportVApp, spec.importSpec, folder, host)
            try:
                entity = self._upload_files(lease, package, spec.fileItem or ())
                self.client.change(lease.HttpNfcLeaseComplete)
                return entity
            except Exception:
                self._abort(lease)
                raise

    def _import_spec(self, package: OvfPackage, name: str, cluster: ZoneCluster, store: Store) -> Any:
        parameters = sdk.vim.OvfManager.CreateImportSpecParams(entityName=name, diskProvisioning="thin")
        create, text = self.client.content.ovfManager.CreateImportSpec, package.description()
        spec = self.client.query(create, text, cluster.pool, store.ref, parameters)
        if spec.error or spec.importSpec is None:
            why = "; ".join(str(one.msg) for one in spec.error or ()) or "no reason given"
            raise InvalidCall("vCenter cannot use the image's description", why=why, remedy="use another stemcell")
        return spec

    def _upload_files(self, lease: Any, package: OvfPackage, items: Any) -> Any:
        info = self._await_lease(lease)
        urls = {one.importKey: one.url for one in info.deviceUrl or ()}
        for item in items:
            file, size = package.open(item.path)
            if item.deviceId not in urls:
                raise CpiError(f"vCenter names no place for {item.path}", remedy="use another stemcell")
            self.client.post_file(urls[item.deviceId], file, size, lease.HttpNfcLeaseProgress)
        return info.entity

    def _await_lease(self, lease: Any) -> Any:
        def look() -> Any:
            row = self.client.read(lease, "state", "error", "info")
            if row.get("state") == "error":
                raise Refusal(row.get("error"))
            return row.get("info") if row.get("state") == "ready" else None

        return _LEASE_WAIT.until("the import", look, verb="become ready")

    def _abort(self, lease: Any) -> None:
        """The half-imported VM goes with its lease; where that cannot be read, the lease ends by itself."""
        try:
            info = self.client.get(lease, "info")
            self.client.change(lease.HttpNfcLeaseAbort)
            if info is not None:
                self.client.run(info.entity.Destroy_Task)
        except (CpiError, Refusal):
            return

    def _seal(self, machine: Any) -> None:
        """From an imported VM to a template: its snapshot is the base of linked clones."""
        if not self.client.get(machine, "snapshot.currentSnapshot"):
            self.client.run(machine.CreateSnapshot_Task, _SNAPSHOT, "base of linked clones", False, False)
        self.client.change(machine.MarkAsTemplate)

    def _await_other_maker(self, mark: Mark, source: str | None) -> bool:
        """Whether the template that another call makes under this mark came to something. One that rests was left by a
        process that died: a clone is whole, an import is once it has its snapshot, and is removed before."""
        quiet = time.monotonic() + self.settings.settle_s

        def look() -> bool | None:
            nonlocal quiet
            found = self.inventory.find_machine(instance_uuid(mark))
            if found is None:
                return False
            row = self.client.read(found, "config.template", "snapshot.currentSnapshot")
            if row.get("config.template"):
                return True
            if self.client.is_busy(found):
                quiet = time.monotonic() + self.settings.settle_s
            if time.monotonic() < quiet:
                return None
            if source or row.get("snapshot.currentSnapshot"):
                self._seal(found)
                return True
            with tolerate("TaskInProgress", "ResourceInUse", "InvalidState"):  # its upload goes on
                self.client.run(found.Destroy_Task)
                return False
            return None

        return _OTHER_MAKER_WAIT.until(f"template {mark.name()}, which another call makes,", look, verb="become whole")

    def _image(self, row: Row, director_uuid: str, users: Mapping[str, tuple[str, ...]]) -> CloudObject:
        name, mark = str(row.get("name")), _mark(row, director_uuid)
        is_whole = row.get("config.template") and _ON not in name
        return CloudObject(
            "image",
            _cid(row, director_uuid),
            name,
            created_at=created_at(row),
            mark=mark,
            in_use_by=users.get(_base_name(name), ()),
            state="live" if is_whole else "building",
            tags=self.attributes.written_on(row),
        )

    def _first_cluster(self) -> ZoneCluster:
        return next(iter(self.placement.clusters.values()))


def _without_doubt(error: CpiError) -> CpiError:
    """Whatever became of a copy, it is found by its name; no VM was made."""
    if not isinstance(error, OutcomeUnknown):
        return error
    return CpiError(error.what, why=error.why, remedy="repeat; it is finished or made then", retryable=True)


def _lost_answer_wait(seconds: float) -> Waits:
    return Waits(seconds, 0.05, 1.0, 1.5, "repeat; it is finished or made then")


def disk_chains(row: Row) -> list[list[str]]:
    """The files of each disk of a VM: its own, then those that it grows from."""
    chains = []
    for device in row.get(_DEVICES) or ():
        backing, files = getattr(device, "backing", None), list[str]()
        while isinstance(device, sdk.vim.vm.device.VirtualDisk) and backing is not None:
            files.append(str(getattr(backing, "fileName", "")))
            backing = getattr(backing, "parent", None)
        if files:
            chains.append(files)
    return chains


def _template(row: Row) -> Template:
    stores = tuple(one._moId for one in row.get("datastore") or ())
    return Template(
        row.ref, str(row.get("name")), stores, row.get("snapshot.currentSnapshot"), list(row.get(_DEVICES) or ())
    )


def _mark(row: Row, director_uuid: str) -> Mark | None:
    """A replica has a uuid of its own; that it lies in our folder must do."""
    name = str(row.get("name"))
    found = vm_mark(name, str(row.get("config.instanceUuid")), director_uuid)
    return found or (read_mark_name(name, director_uuid) if _ON in name else None)


def _cid(row: Row, director_uuid: str) -> str:
    mark = _mark(row, director_uuid)
    return instance_uuid(mark) if mark else str(row.get("config.instanceUuid"))


def _replica_prefix(template: str) -> str:
    """Replicas have a name of the same mark, one per datastore."""
    return f"{_base_name(template)}{_ON}"


def _base_name(name: str) -> str:
    """What the names of a template and of its replicas have in common."""
    return name.partition(_ON)[0][:60]
