"""A driver composed of parts: `ComposedCpi` is the contract with each method handed to the part that it belongs to, and
the protocols say what a part must have. A driver's class builds its parts, and adds the methods that are its own:

    class AcmeCpi(ComposedCpi):
        def __init__(self, cloud, properties, runtime):
            ...
            super().__init__(cloud, properties, runtime, profile=Profile(...), machines=Machines(client), ...)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, Protocol

from coterie.cpi.contract import (
    Capabilities,
    CheckItem,
    CloudObject,
    Cpi,
    DiskHint,
    Expected,
    GroupMetadata,
    GroupView,
    Json,
    Kind,
    Mark,
    Needs,
    NetworkCreated,
    NotSupported,
    Reason,
    Runtime,
    SurveyPage,
    VmCreated,
)
from coterie.cpi.contract import Networks as NetworksArgument
from coterie.cpi.kit.create_once import Handler, SingleWriter
from coterie.cpi.kit.create_vm import CreateVmCall
from coterie.cpi.kit.objects import ObjectTable
from coterie.cpi.kit.profile import Profile, refuse_configure_networks
from coterie.slotted import dataclass


class Checks(Protocol):
    def run(self, needs: Needs) -> list[CheckItem]: ...

    def identity(self) -> str | None: ...


class Stemcells(Protocol):
    def create(self, image_path: str, cloud_properties: Json, env: Json, mark: Mark) -> str: ...

    def delete(self, cid: str) -> None: ...


class VmFactory(Protocol):
    def create(self, call: CreateVmCall) -> VmCreated: ...


class Machines(Protocol):
    def delete(self, cid: str) -> None: ...

    def exists(self, cid: str) -> bool: ...

    def reboot(self, cid: str) -> None: ...

    def set_metadata(self, cid: str, metadata: Mapping[str, str]) -> None: ...

    def smallest_fit(self, requirements: Mapping[str, int]) -> Json: ...

    def list_disks(self, cid: str) -> list[str]: ...

    def current_id(self) -> str: ...


class Disks(Protocol):
    def create(self, size_mb: int, cloud_properties: Json, vm_cid: str | None, mark: Mark) -> str: ...

    def delete(self, cid: str) -> None: ...

    def exists(self, cid: str) -> bool: ...

    def attach(self, vm_cid: str, cid: str) -> DiskHint: ...

    def detach(self, vm_cid: str, cid: str) -> None: ...

    def set_metadata(self, cid: str, metadata: Mapping[str, str]) -> None: ...

    def update(self, cid: str, new_size_mb: int, cloud_properties: Json) -> None: ...

    def snapshot(self, cid: str, metadata: Mapping[str, Any], mark: Mark) -> str: ...

    def delete_snapshot(self, cid: str) -> None: ...


class Networks(Protocol):
    def create(self, subnet: Json, mark: Mark) -> NetworkCreated: ...

    def delete(self, cid: str) -> None: ...


@dataclass(frozen=True, slots=True)
class NoNetworks:
    """Networks of a cloud whose administrator alone makes them. `remedy`: what to do instead of creating one."""

    reason: Reason
    remedy: str

    @property
    def unsupported(self) -> Mapping[str, Reason]:
        return {"create_network": self.reason, "delete_network": self.reason}

    def create(self, subnet: Json, mark: Mark) -> NoReturn:
        raise NotSupported("this driver creates no networks", why=self.reason.why, remedy=self.remedy)

    def delete(self, cid: str) -> NoReturn:
        raise NotSupported(
            "this driver deletes no networks", why=self.reason.why, remedy="have the cloud's administrator do it"
        )


class Groups(Protocol):
    """Server groups."""

    def create(self, metadata: GroupMetadata, mark: Mark) -> str: ...

    def update(self, cid: str, metadata: GroupMetadata) -> None: ...

    def delete(self, cid: str) -> None: ...

    def inspect(self, cid: str) -> GroupView: ...


class ComposedCpi(Cpi):
    """`writer` and `handlers`: of a driver with single-writer domains."""

    def __init__(
        self,
        cloud: str,
        properties: Mapping[str, Any],
        runtime: Runtime,
        *,
        profile: Profile,
        checks: Checks,
        stemcells: Stemcells,
        vm_factory: VmFactory,
        machines: Machines,
        disks: Disks,
        networks: Networks,
        groups: Groups,
        objects: ObjectTable,
        writer: SingleWriter[Any] | None = None,
        handlers: Mapping[str, Handler] | None = None,
    ) -> None:
        super().__init__(cloud, properties, runtime)
        self.profile = profile
        self.checks = checks
        self.stemcells = stemcells
        self.vm_factory = vm_factory
        self.machines = machines
        self.disks = disks
        self.networks = networks
        self.groups = groups
        self.objects = objects
        self.writer = writer
        self.handlers = handlers or {}

    # -- what it is --

    def capabilities(self) -> Capabilities:
        return self.profile.capabilities

    def info(self) -> Json:
        return self.profile.info()

    def ping(self) -> str:
        return self.profile.ping()

    def check(self, needs: Needs | None = None) -> list[CheckItem]:
        return self.checks.run(needs or Needs())

    def identity(self) -> str | None:
        return self.checks.identity()

    # -- stemcells --

    def create_stemcell(self, image_path: str, cloud_properties: Json, env: Json | None = None, *, mark: Mark) -> str:
        return self.stemcells.create(image_path, cloud_properties or {}, env or {}, mark)

    def delete_stemcell(self, stemcell_cid: str) -> None:
        self.stemcells.delete(stemcell_cid)

    # -- machines --

    def create_vm(
        self,
        agent_id: str,
        stemcell_cid: str,
        cloud_properties: Json,
        networks: NetworksArgument,
        disk_cids: Sequence[str],
        env: Json,
        *,
        mark: Mark,
    ) -> VmCreated:
        return self.vm_factory.create(
            CreateVmCall(
                agent_id, stemcell_cid, cloud_properties or {}, networks or {}, disk_cids or (), env or {}, mark
            )
        )

    def delete_vm(self, vm_cid: str) -> None:
        self.machines.delete(vm_cid)

    def has_vm(self, vm_cid: str) -> bool:
        return self.machines.exists(vm_cid)

    def vm_owner(self, vm_cid: str) -> str | None:
        return self.objects.vm_owner(vm_cid)

    def reboot_vm(self, vm_cid: str) -> None:
        self.machines.reboot(vm_cid)

    def set_vm_metadata(self, vm_cid: str, metadata: Mapping[str, str]) -> None:
        self.machines.set_metadata(vm_cid, metadata)

    def calculate_vm_cloud_properties(self, requirements: Mapping[str, int]) -> Json:
        return self.machines.smallest_fit(requirements)

    def current_vm_id(self) -> str:
        return self.machines.current_id()

    # -- disks --

    def create_disk(self, size_mb: int, cloud_properties: Json, vm_cid: str | None = None, *, mark: Mark) -> str:
        return self.disks.create(size_mb, cloud_properties or {}, vm_cid, mark)

    def delete_disk(self, disk_cid: str) -> None:
        self.disks.delete(disk_cid)

    def has_disk(self, disk_cid: str) -> bool:
        return self.disks.exists(disk_cid)

    def attach_disk(self, vm_cid: str, disk_cid: str) -> DiskHint:
        return self.disks.attach(vm_cid, disk_cid)

    def detach_disk(self, vm_cid: str, disk_cid: str) -> None:
        self.disks.detach(vm_cid, disk_cid)

    def get_disks(self, vm_cid: str) -> list[str]:
        return self.machines.list_disks(vm_cid)

    def set_disk_metadata(self, disk_cid: str, metadata: Mapping[str, str]) -> None:
        self.disks.set_metadata(disk_cid, metadata)

    def resize_disk(self, disk_cid: str, new_size_mb: int) -> None:
        self.disks.update(disk_cid, new_size_mb, {})

    def update_disk(self, disk_cid: str, new_size_mb: int, cloud_properties: Json) -> str | None:
        self.disks.update(disk_cid, new_size_mb, cloud_properties or {})
        return None

    def snapshot_disk(self, disk_cid: str, metadata: Mapping[str, Any], *, mark: Mark) -> str:
        return self.disks.snapshot(disk_cid, metadata, mark)

    def delete_snapshot(self, snapshot_cid: str) -> None:
        self.disks.delete_snapshot(snapshot_cid)

    # -- networks --

    def create_network(self, subnet: Json, *, mark: Mark) -> NetworkCreated:
        return self.networks.create(subnet, mark)

    def delete_network(self, network_cid: str) -> None:
        self.networks.delete(network_cid)

    def configure_networks(self, vm_cid: str, networks: NetworksArgument) -> None:
        refuse_configure_networks()

    # -- server groups --

    def create_server_group(self, metadata: GroupMetadata, *, mark: Mark) -> str:
        return self.groups.create(metadata, mark)

    def update_server_group(self, cid: str, metadata: GroupMetadata) -> None:
        self.groups.update(cid, metadata)

    def delete_server_group(self, cid: str) -> None:
        self.groups.delete(cid)

    def inspect_server_group(self, cid: str) -> GroupView:
        return self.groups.inspect(cid)

    # -- what is there --

    def find(self, kind: Kind, mark: Mark) -> CloudObject | None:
        return self.objects.find(kind, mark)

    def survey(self, kind: Kind, director_uuid: str, cursor: str | None = None) -> SurveyPage:
        return self.objects.survey(kind, director_uuid, cursor)

    def delete_object(self, kind: Kind, cid: str, expected: Expected) -> None:
        self.objects.delete_object(kind, cid, expected)

    # -- single-writer domains --

    def apply(self, domain: str, changes: Sequence[Json]) -> list[Json]:
        if self.writer is None:
            return super().apply(domain, changes)
        return self.writer.apply(self.handlers, domain, changes)
