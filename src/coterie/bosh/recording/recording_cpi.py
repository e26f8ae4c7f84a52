"""The driver with our book around it: creates are recorded before they are called, deletes before and after.

It has the methods of a driver. The rooms that need the ledger are imported by the calls that need them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from coterie.bosh.config import Config
from coterie.bosh.core.call_context import Desk
from coterie.bosh.overrides import Caller
from coterie.bosh.recording.local_ledger import Book
from coterie.bosh.recording.marks import OwnMark
from coterie.cpi.contract import Cpi, DiskHint, GroupMetadata, Json, Mark, NetworkCreated, Networks, VmCreated


class Booked:
    """What is not written out here goes straight to the driver."""

    def __init__(self, driver: Cpi, book: Book, config: Config, who: Caller, *, core: bool = False) -> None:
        self.desk = Desk(driver, book, config, who, core)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.desk.driver, name)

    def info(self) -> Json:
        told, formats = self.desk.driver.info(), self.desk.config.stemcell_formats
        return {**told, "stemcell_formats": formats} if formats else told

    # -- creates --

    def create_stemcell(self, image_path: str, cloud_properties: Json, env: Json | None = None, *, mark: Mark) -> str:
        made: str = self._create("image", mark, "create_stemcell", image_path, cloud_properties, env)
        return made

    def create_disk(self, size_mb: int, cloud_properties: Json, vm_cid: str | None = None, *, mark: Mark) -> str:
        made: str = self._create("disk", mark, "create_disk", size_mb, cloud_properties, vm_cid)
        return made

    def snapshot_disk(self, disk_cid: str, metadata: Json, *, mark: Mark) -> str:
        made: str = self._create("snapshot", mark, "snapshot_disk", disk_cid, metadata)
        return made

    def create_network(self, subnet: Json, *, mark: Mark) -> NetworkCreated:
        made: NetworkCreated = self._create("network", mark, "create_network", subnet)
        return made

    def create_server_group(self, metadata: GroupMetadata, *, mark: Mark) -> str:
        made: str = self._create("server_group", mark, "create_server_group", metadata)
        return made

    def create_vm(
        self,
        agent_id: str,
        stemcell_cid: str,
        cloud_properties: Json,
        networks: Networks,
        disk_cids: Sequence[str],
        env: Json,
        *,
        mark: Mark,
    ) -> VmCreated:
        if not isinstance(mark, OwnMark):
            create = self.desk.driver.create_vm
            return create(agent_id, stemcell_cid, cloud_properties, networks, disk_cids, env, mark=mark)
        from coterie.bosh.core.machines import Order, create_vm

        order = Order(agent_id, stemcell_cid, cloud_properties, networks, tuple(disk_cids), env)
        return create_vm(self.desk, order)

    # -- deletes --

    def delete_vm(self, vm_cid: str) -> None:
        self._delete("vm", "delete_vm", vm_cid)

    def delete_disk(self, disk_cid: str) -> None:
        self._delete("disk", "delete_disk", disk_cid)

    def delete_snapshot(self, snapshot_cid: str) -> None:
        self._delete("snapshot", "delete_snapshot", snapshot_cid)

    def delete_stemcell(self, stemcell_cid: str) -> None:
        self._delete("image", "delete_stemcell", stemcell_cid)

    def delete_network(self, network_cid: str) -> None:
        self._delete("network", "delete_network", network_cid)

    def delete_server_group(self, cid: str) -> None:
        self._delete("server_group", "delete_server_group", cid)

    def update_disk(self, disk_cid: str, new_size_mb: int, cloud_properties: Json) -> str | None:
        from coterie.bosh.recording.removals import replaced

        successor = self.desk.driver.update_disk(disk_cid, new_size_mb, cloud_properties)
        if successor and successor != disk_cid:
            replaced(self.desk, disk_cid, successor)
        return successor

    # -- what an agent without full user data is told --

    def attach_disk(self, vm_cid: str, disk_cid: str) -> DiskHint:
        hint = self.desk.driver.attach_disk(vm_cid, disk_cid)
        if self.desk.who.stemcell_version == 1:
            from coterie.bosh.core.agent_settings import attached

            attached(self.desk, vm_cid, disk_cid, hint)
        return hint

    def detach_disk(self, vm_cid: str, disk_cid: str) -> None:
        self.desk.driver.detach_disk(vm_cid, disk_cid)
        if self.desk.who.stemcell_version == 1:
            from coterie.bosh.core.agent_settings import attached

            attached(self.desk, vm_cid, disk_cid, None)

    def _create(self, kind: Any, mark: Mark, method: str, *arguments: Any) -> Any:
        call = getattr(self.desk.driver, method)
        if not isinstance(mark, OwnMark):
            return call(*arguments, mark=mark)
        from coterie.bosh.recording.creates import create

        return create(self.desk, kind, mark, lambda: call(*arguments, mark=mark))

    def _delete(self, kind: Any, method: str, cid: str) -> None:
        from coterie.bosh.recording.removals import remove

        remove(self.desk, kind, cid, lambda: getattr(self.desk.driver, method)(cid))
