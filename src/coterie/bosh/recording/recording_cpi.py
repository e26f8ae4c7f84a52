"""The driver with a record of its calls: creates are recorded before they are created, deletes before and after.

It has the methods of a driver. Modules that need the ledger are imported by the calls that need them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from coterie.bosh.config import Config
from coterie.bosh.core.call_context import CallContext, Caller
from coterie.bosh.recording.local_ledger import LocalLedger
from coterie.bosh.recording.marks import OwnMark
from coterie.cpi.contract import Cpi, DiskHint, GroupMetadata, Json, Mark, NetworkCreated, Networks, VmCreated


class RecordingCpi:
    """Methods that are not defined here go straight to the driver."""

    def __init__(
        self, driver: Cpi, local_ledger: LocalLedger, config: Config, caller: Caller, *, core: bool = False
    ) -> None:
        self.context = CallContext(driver, local_ledger, config, caller, core)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.context.driver, name)

    def info(self) -> Json:
        info, formats = self.context.driver.info(), self.context.config.stemcell_formats
        return {**info, "stemcell_formats": formats} if formats else info

    # -- creates --

    def create_stemcell(self, image_path: str, cloud_properties: Json, env: Json | None = None, *, mark: Mark) -> str:
        created: str = self._create("image", mark, "create_stemcell", image_path, cloud_properties, env)
        return created

    def create_disk(self, size_mb: int, cloud_properties: Json, vm_cid: str | None = None, *, mark: Mark) -> str:
        created: str = self._create("disk", mark, "create_disk", size_mb, cloud_properties, vm_cid)
        return created

    def snapshot_disk(self, disk_cid: str, metadata: Json, *, mark: Mark) -> str:
        created: str = self._create("snapshot", mark, "snapshot_disk", disk_cid, metadata)
        return created

    def create_network(self, subnet: Json, *, mark: Mark) -> NetworkCreated:
        created: NetworkCreated = self._create("network", mark, "create_network", subnet)
        return created

    def create_server_group(self, metadata: GroupMetadata, *, mark: Mark) -> str:
        created: str = self._create("server_group", mark, "create_server_group", metadata)
        return created

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
            create = self.context.driver.create_vm
            return create(agent_id, stemcell_cid, cloud_properties, networks, disk_cids, env, mark=mark)
        from coterie.bosh.core.create_vm import VmRequest, create_vm

        request = VmRequest(agent_id, stemcell_cid, cloud_properties, networks, tuple(disk_cids), env)
        created = create_vm(self.context, request)
        self.context.created.append(("vm", created.cid))
        return created

    def confirm_delivery(self) -> None:
        """The caller has the answer, so it knows from now on what the answer names."""
        if self.context.created:
            from coterie.bosh.recording.calls import record_delivered

            record_delivered(self.context)

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
        from coterie.bosh.recording.calls import record_replacement

        successor = self.context.driver.update_disk(disk_cid, new_size_mb, cloud_properties)
        if successor and successor != disk_cid:
            record_replacement(self.context, disk_cid, successor)
        return successor

    # -- disks, of which an agent without full user data reads in the registry --

    def attach_disk(self, vm_cid: str, disk_cid: str) -> DiskHint:
        hint = self.context.driver.attach_disk(vm_cid, disk_cid)
        if self.context.caller.stemcell_version == 1:
            from coterie.bosh.core.agent_settings import update_disk

            update_disk(self.context, vm_cid, disk_cid, hint)
        return hint

    def detach_disk(self, vm_cid: str, disk_cid: str) -> None:
        self.context.driver.detach_disk(vm_cid, disk_cid)
        if self.context.caller.stemcell_version == 1:
            from coterie.bosh.core.agent_settings import update_disk

            update_disk(self.context, vm_cid, disk_cid, None)

    def _create(self, kind: Any, mark: Mark, method: str, *arguments: Any) -> Any:
        call = getattr(self.context.driver, method)
        if not isinstance(mark, OwnMark):
            return call(*arguments, mark=mark)
        from coterie.bosh.recording.calls import cid_of, create_recorded

        plain = Mark(mark.director, mark.intent)  # drivers compare marks, and those of two classes differ
        created = create_recorded(self.context, kind, plain, lambda: call(*arguments, mark=plain))
        self.context.created.append((kind, cid_of(created)))
        return created

    def _delete(self, kind: Any, method: str, cid: str) -> None:
        from coterie.bosh.recording.calls import delete_recorded

        delete_recorded(self.context, kind, cid, lambda: getattr(self.context.driver, method)(cid))
