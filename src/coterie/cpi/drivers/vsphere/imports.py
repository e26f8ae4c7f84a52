"""Puts an OVF package into the inventory: a lease from the vCenter, the disks uploaded to where it says."""

from __future__ import annotations

import http.client
import time
from typing import IO, Any
from urllib.parse import urlsplit

from coterie.cpi.contract import CpiError, InvalidCall, Mark, OutcomeUnknown, Unavailable
from coterie.cpi.drivers.vsphere import sdk
from coterie.cpi.drivers.vsphere.choice import Store
from coterie.cpi.drivers.vsphere.files import Files
from coterie.cpi.drivers.vsphere.marking import instance_uuid
from coterie.cpi.drivers.vsphere.ovf import Package
from coterie.cpi.drivers.vsphere.places import Zone
from coterie.cpi.drivers.vsphere.refusals import Refusal

_PIECE = 16 * 1024 * 1024  # after each one the lease is told that we are alive
_LEASE_LIMIT_S = 300.0


class Imports(Files):
    def imported(self, package: Package, name: str, mark: Mark, zone: Zone, store: Store) -> Any:
        """The VM that came of the package. Refused with DuplicateName where one of that name is there already."""
        wanted = self._spec(package, name, zone, store)
        wanted.importSpec.configSpec.instanceUuid = instance_uuid(mark)
        lease = self.link.change(zone.pool.ImportVApp, wanted.importSpec, self.made_folder("stemcells"))
        try:
            entity = self._filled(lease, package, wanted.fileItem or ())
            self.link.change(lease.HttpNfcLeaseComplete)
            return entity
        except Exception:
            self._given_up(lease)
            raise

    def _spec(self, package: Package, name: str, zone: Zone, store: Store) -> Any:
        parameters = sdk.vim.OvfManager.CreateImportSpecParams(entityName=name, diskProvisioning="thin")
        manager = self.link.content.ovfManager
        spec = self.link.ask(manager.CreateImportSpec, package.description(), zone.pool, store.ref, parameters)
        if spec.error or spec.importSpec is None:
            why = "; ".join(str(one.msg) for one in spec.error or ()) or "no reason given"
            raise InvalidCall("vCenter cannot use the image's description", why=why, remedy="use another stemcell")
        return spec

    def _filled(self, lease: Any, package: Package, items: Any) -> Any:
        info = self._ready(lease)
        places = {one.importKey: one.url for one in info.deviceUrl or ()}
        for item in items:
            file, size = package.open(item.path)
            if item.deviceId not in places:
                raise CpiError(f"vCenter names no place for {item.path}", remedy="use another stemcell")
            self._upload(lease, places[item.deviceId], file, size)
        return info.entity

    def _ready(self, lease: Any) -> Any:
        give_up = time.monotonic() + _LEASE_LIMIT_S
        while time.monotonic() < give_up:
            row = self.reader.one(lease, "state", "error", "info")
            if row.get("state") == "ready":
                return row.get("info")
            if row.get("state") == "error":
                raise Refusal(row.get("error"))
            time.sleep(0.2)
        raise OutcomeUnknown("the import was not made ready", remedy="look for the template before repeating it")

    def _upload(self, lease: Any, url: str, file: IO[bytes], size: int) -> None:
        where = urlsplit(url)
        own = urlsplit(self.settings.url)
        # the vCenter writes * for itself
        connection = self.connection(
            own.netloc if where.hostname in (None, "*") or where.netloc == "*" else where.netloc
        )
        try:
            connection.putrequest("POST", where.path)
            connection.putheader("Content-Length", str(size))
            connection.putheader("Content-Type", "application/x-vnd.vmware-streamVmdk")
            connection.endheaders()
            sent = 0
            while piece := file.read(_PIECE):
                connection.send(piece)
                sent += len(piece)
                self.link.ask(lease.HttpNfcLeaseProgress, min(99, sent * 100 // max(size, 1)))
            answer = connection.getresponse()
            answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise Unavailable("the upload of the image broke off", why=str(error), remedy="repeat") from error
        finally:
            connection.close()
        if answer.status not in (200, 201):
            raise CpiError("the image was not taken", why=f"{answer.status} {answer.reason}", remedy="repeat")

    def _given_up(self, lease: Any) -> None:
        """What was imported half-way goes with its lease; where that cannot be told, the lease ends by itself."""
        try:
            entity = self.reader.one(lease, "info").get("info")
            self.link.change(lease.HttpNfcLeaseAbort)
            if entity is not None:
                self.tasks.run(entity.entity.Destroy_Task)
        except (CpiError, Refusal):
            return
