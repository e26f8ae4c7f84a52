"""Files on datastores: looked for, uploaded, deleted; folders made. Paths are `[datastore] folder/name`."""

from __future__ import annotations

import http.client
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from coterie.cpi.contract import CpiError, Unavailable
from coterie.cpi.drivers.vsphere import sdk
from coterie.cpi.drivers.vsphere.choice import Store
from coterie.cpi.drivers.vsphere.places import Places
from coterie.cpi.drivers.vsphere.refusals import Refusal, failure

_ABSENT = ("FileNotFound", "InvalidDatastorePath")


@dataclass(frozen=True, slots=True)
class File:
    store: str
    folder: str
    name: str
    size_mb: int | None
    changed_at: float | None

    @property
    def path(self) -> str:
        return f"[{self.store}] {self.folder}/{self.name}"

    @property
    def stem(self) -> str:
        return self.name.rpartition(".")[0]


class Files(Places):
    def disk_files(self, store: Store, folder: str, pattern: str = "*.vmdk") -> list[File]:
        """The disks in one folder of a datastore; none where the folder is missing."""
        browser = sdk.vim.host.DatastoreBrowser
        query = browser.VmDiskQuery(details=browser.VmDiskQuery.Details(capacityKb=True))
        flags = browser.FileInfo.Details(fileType=True, fileSize=False, modification=True, fileOwner=False)
        spec = browser.SearchSpec(matchPattern=[pattern], query=[query], details=flags)
        try:
            found = self.tasks.run(store.browser.SearchDatastore_Task, f"[{store.name}] {folder}", spec)
        except Refusal as refusal:
            if refusal.is_a(*_ABSENT):
                return []
            raise
        return [_file(store, folder, one) for one in found.file or ()]

    def made_directory(self, path: str) -> None:
        try:
            self.link.change(self.link.content.fileManager.MakeDirectory, path, self.datacenter.ref, True)
        except Refusal as refusal:
            if not refusal.is_a("FileAlreadyExists"):
                raise

    def deleted_file(self, path: str) -> None:
        """A file or a whole folder; gone already is fine."""
        try:
            self.tasks.run(self.link.content.fileManager.DeleteDatastoreFile_Task, path, self.datacenter.ref)
        except Refusal as refusal:
            if not refusal.is_a(*_ABSENT):
                raise

    def put_file(self, path: str, content: bytes) -> None:
        """Written whole; an older file of that name is replaced."""
        store, _, name = path.removeprefix("[").partition("] ")
        query = urlencode({"dcPath": self.datacenter.path, "dsName": store})
        status, reason = self._put(f"/folder/{quote(name)}?{query}", content)
        if status in (200, 201, 204):
            return
        if status in (502, 503, 429):
            raise Unavailable(f"{path} could not be written", why=f"{status} {reason}", remedy="repeat")
        raise CpiError(
            f"{path} could not be written",
            why=f"{status} {reason}",
            remedy="check the privilege Datastore.FileManagement and the datastore",
        )

    def _put(self, target: str, content: bytes) -> tuple[int, str]:
        connection = self.connection(urlsplit(self.settings.url).netloc)
        try:
            connection.request("PUT", target, content, {"Cookie": self.link.cookie})
            answer = connection.getresponse()
            answer.read()
            return answer.status, answer.reason
        except (OSError, http.client.HTTPException) as error:
            raise failure(error, changes=False) from None  # it may be repeated: the same bytes at the same place
        finally:
            connection.close()

    def connection(self, address: str) -> http.client.HTTPConnection:
        tls = self.link.tls()
        if tls is None:
            return http.client.HTTPConnection(address, timeout=self.settings.task_timeout)
        return http.client.HTTPSConnection(address, timeout=self.settings.task_timeout, context=tls)


def _file(store: Store, folder: str, one: Any) -> File:
    capacity = getattr(one, "capacityKb", None)
    changed = one.modification.timestamp() if one.modification else None
    return File(store.name, folder, str(one.path), int(capacity) // 1024 if capacity else None, changed)
