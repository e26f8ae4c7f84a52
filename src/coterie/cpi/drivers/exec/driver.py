"""The driver of clouds that a foreign CPI program serves; entry point `exec`. Each of BOSH's methods is a call of the
program; what no such program has, and what this one lacks, is refused with the reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NoReturn, TypeVar

from coterie.cpi.contract import (
    Capabilities,
    CheckItem,
    CloudObject,
    Cpi,
    DiskHint,
    Expected,
    Forms,
    GroupMetadata,
    GroupView,
    Json,
    Kind,
    Mark,
    Needs,
    NetworkCreated,
    Networks,
    NotSupported,
    Runtime,
    SurveyPage,
    VmCreated,
)
from coterie.cpi.drivers.exec.limits import UNSUPPORTED, lacking
from coterie.cpi.drivers.exec.look import look
from coterie.cpi.drivers.exec.program import Program
from coterie.cpi.drivers.exec.settings import CLOUD, read_settings
from coterie.cpi.kit.call_limit import call_limit
from coterie.cpi.wire import Method, table

T = TypeVar("T")


class ExecCpi(Cpi):
    forms: ClassVar[Forms] = {"cloud": CLOUD}

    def __init__(self, cloud: str, properties: Mapping[str, Any], runtime: Runtime) -> None:
        super().__init__(cloud, properties, runtime)
        self._settings = read_settings(properties)
        limit = call_limit(cloud, self._settings.max_parallel_calls, runtime.director_uuid)
        self._program = Program(cloud, self._settings, runtime.director_uuid, limit, runtime.exec_paths)
        self._unsupported = {**UNSUPPORTED, **{name: lacking(cloud) for name in self._settings.lacks}}

    def capabilities(self) -> Capabilities:
        return Capabilities(
            driver="exec",
            kinds=dict.fromkeys(self._kinds(), "none"),
            resize_disk="resize_disk" not in self._unsupported,
            max_parallel_calls=self._settings.max_parallel_calls,
            unsupported=self._unsupported,
        )

    def info(self) -> Json:
        return self._program.info()

    def ping(self) -> str:
        """Few programs know `ping`; every one knows `info`."""
        return f"api_version {self._program.info()['api_version']}"

    def check(self, needs: Needs | None = None) -> list[CheckItem]:
        return look(self._settings.path, self._program, needs)

    def create_stemcell(self, image_path: str, cloud_properties: Json, env: Json | None = None, *, mark: Mark) -> str:
        return self._ask(table.CREATE_STEMCELL, image_path, cloud_properties, env or {}, mark=mark)

    def delete_stemcell(self, stemcell_cid: str) -> None:
        self._ask(table.DELETE_STEMCELL, stemcell_cid)

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
        arguments = (agent_id, stemcell_cid, cloud_properties, networks, list(disk_cids), env)
        return self._ask(table.CREATE_VM, *arguments, mark=mark)

    def delete_vm(self, vm_cid: str) -> None:
        self._ask(table.DELETE_VM, vm_cid)

    def has_vm(self, vm_cid: str) -> bool:
        return self._ask(table.HAS_VM, vm_cid)

    def reboot_vm(self, vm_cid: str) -> None:
        self._ask(table.REBOOT_VM, vm_cid)

    def set_vm_metadata(self, vm_cid: str, metadata: Mapping[str, str]) -> None:
        self._ask(table.SET_VM_METADATA, vm_cid, metadata)

    def calculate_vm_cloud_properties(self, requirements: Mapping[str, int]) -> Json:
        return self._ask(table.CALCULATE_VM_CLOUD_PROPERTIES, requirements)

    def create_disk(self, size_mb: int, cloud_properties: Json, vm_cid: str | None = None, *, mark: Mark) -> str:
        return self._ask(table.CREATE_DISK, size_mb, cloud_properties, vm_cid, mark=mark)

    def delete_disk(self, disk_cid: str) -> None:
        self._ask(table.DELETE_DISK, disk_cid)

    def has_disk(self, disk_cid: str) -> bool:
        return self._ask(table.HAS_DISK, disk_cid)

    def attach_disk(self, vm_cid: str, disk_cid: str) -> DiskHint:
        return self._ask(table.ATTACH_DISK, vm_cid, disk_cid)

    def detach_disk(self, vm_cid: str, disk_cid: str) -> None:
        self._ask(table.DETACH_DISK, vm_cid, disk_cid)

    def get_disks(self, vm_cid: str) -> list[str]:
        return self._ask(table.GET_DISKS, vm_cid)

    def set_disk_metadata(self, disk_cid: str, metadata: Mapping[str, str]) -> None:
        self._ask(table.SET_DISK_METADATA, disk_cid, metadata)

    def resize_disk(self, disk_cid: str, new_size_mb: int) -> None:
        self._ask(table.RESIZE_DISK, disk_cid, new_size_mb)

    def update_disk(self, disk_cid: str, new_size_mb: int, cloud_properties: Json) -> str | None:
        return self._ask(table.UPDATE_DISK, disk_cid, new_size_mb, cloud_properties)

    def snapshot_disk(self, disk_cid: str, metadata: Mapping[str, Any], *, mark: Mark) -> str:
        return self._ask(table.SNAPSHOT_DISK, disk_cid, dict(metadata), mark=mark)

    def delete_snapshot(self, snapshot_cid: str) -> None:
        self._ask(table.DELETE_SNAPSHOT, snapshot_cid)

    def create_network(self, subnet: Json, *, mark: Mark) -> NetworkCreated:
        return self._ask(table.CREATE_NETWORK, subnet, mark=mark)

    def delete_network(self, network_cid: str) -> None:
        self._ask(table.DELETE_NETWORK, network_cid)

    def current_vm_id(self) -> str:
        return self._ask(table.CURRENT_VM_ID)

    def configure_networks(self, vm_cid: str, networks: Networks) -> None:
        self._refuse("configure_networks")

    def vm_owner(self, vm_cid: str) -> str | None:
        self._refuse("vm_owner")

    def create_server_group(self, metadata: GroupMetadata, *, mark: Mark) -> str:
        self._refuse("create_server_group")

    def update_server_group(self, cid: str, metadata: GroupMetadata) -> None:
        self._refuse("update_server_group")

    def delete_server_group(self, cid: str) -> None:
        self._refuse("delete_server_group")

    def inspect_server_group(self, cid: str) -> GroupView:
        self._refuse("inspect_server_group")

    def find(self, kind: Kind, mark: Mark) -> CloudObject | None:
        self._refuse("find")

    def survey(self, kind: Kind, director_uuid: str, cursor: str | None = None) -> SurveyPage:
        self._refuse("survey")

    def delete_object(self, kind: Kind, cid: str, expected: Expected) -> None:
        self._refuse("delete_object")

    def _kinds(self) -> list[Kind]:
        return [one.marks for one in table.METHODS.values() if one.marks and one.name not in self._unsupported]

    def _ask(self, method: Method[T], *arguments: Any, mark: Mark | None = None) -> T:
        if method.name in self._unsupported:
            self._refuse(method.name)
        return self._program.ask(method, *arguments, mark=mark)

    def _refuse(self, method: str) -> NoReturn:
        reason = self._unsupported[method]
        raise NotSupported(
            f"cloud {self.cloud!r} cannot {method}",
            why=reason.why,
            remedy=f"use a driver that is not `exec` where this is needed ({reason.citation})",
        )
