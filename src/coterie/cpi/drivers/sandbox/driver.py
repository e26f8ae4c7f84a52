"""The driver of sandbox clouds, a simulated datacenter in one file; entry point `sandbox`. Each contract method is
delegated to a part, and each part names in its constructor what it may touch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

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
    Reason,
    Runtime,
    SurveyPage,
    VmCreated,
)
from coterie.cpi.contract import Networks as NetworksArgument
from coterie.cpi.drivers.sandbox.account import CloudAccount
from coterie.cpi.drivers.sandbox.checks import Checks
from coterie.cpi.drivers.sandbox.domains import Domains
from coterie.cpi.drivers.sandbox.errors import translate
from coterie.cpi.drivers.sandbox.group_records import GroupRecords
from coterie.cpi.drivers.sandbox.machines import Machines
from coterie.cpi.drivers.sandbox.membership import Membership, Writer
from coterie.cpi.drivers.sandbox.networks import Networks
from coterie.cpi.drivers.sandbox.objects import object_table
from coterie.cpi.drivers.sandbox.properties import CLOUD, DISK, NETWORK, VM, Settings, read_settings
from coterie.cpi.drivers.sandbox.security_groups import SecurityGroups
from coterie.cpi.drivers.sandbox.server_groups import ServerGroups
from coterie.cpi.drivers.sandbox.storage import Disks, Stemcells
from coterie.cpi.kit.call_limit import call_limit
from coterie.cpi.kit.calls import translate_errors
from coterie.cpi.kit.objects import ObjectTable
from coterie.cpi.kit.parts import Parts
from coterie.cpi.kit.profile import WITHOUT_CONFIGURE_NETWORKS, Profile, refuse_configure_networks
from coterie.sandbox.errors import SandboxError

_TOKENS = frozenset({"vm", "disk", "snapshot", "image", "network", "server_group"})
FORMATS = ("sandbox", "sandbox-light")


@translate_errors(SandboxError, translate)
class SandboxCpi(Cpi):
    """A simulated datacenter as a cloud. Its properties are those of `properties.Settings`."""

    forms: ClassVar[Forms] = {"cloud": CLOUD, "vm": VM, "disk": DISK, "network": NETWORK}

    def __init__(self, cloud: str, properties: Mapping[str, Any], runtime: Runtime) -> None:
        super().__init__(cloud, properties, runtime)
        self.settings = settings = read_settings(cloud, properties, runtime.state_folder)
        limit = call_limit(cloud, settings.max_parallel_calls, runtime.director_uuid)
        self._account = account = CloudAccount(settings, runtime.director_uuid, limit)
        records = GroupRecords(account, settings)
        writer = Writer(
            submit=lambda domain, change: runtime.coordinator.submit(self, domain, change),
            hold=lambda domain: runtime.coordinator.hold(domain),
            domain=lambda zone: f"{cloud}/{zone}",
        )
        security_groups = SecurityGroups(account, Parts(runtime.parts))
        self._membership = Membership(account, records, writer, single_writer=settings.single_writer)
        domains = Domains(account, settings)
        self._groups = ServerGroups(account, records, security_groups, self._membership, settings, domains)
        self._machines = Machines(account, settings, security_groups, self._membership, domains)
        self._stemcells = Stemcells(account)
        self._disks = Disks(account, settings)
        self._networks = Networks(account)
        self._objects = object_table(
            account,
            records,
            self._groups.delete,
            director_uuid=runtime.director_uuid,
            single_writer=settings.single_writer,
            with_snapshots=settings.snapshots,
            with_hosts=not domains.are_shown,
            limit=limit,
            keep=settings.keep,
            owns_security_group=security_groups.is_ours,
        )
        self._profile = Profile(FORMATS, _capabilities(settings, self._objects, domains))
        self._checks = Checks(account, self._groups, settings, self._objects.markings, domains)

    def capabilities(self) -> Capabilities:
        return self._profile.capabilities

    def info(self) -> Json:
        return self._profile.info()

    def ping(self) -> str:
        return self._profile.ping()

    def check(self, needs: Needs | None = None) -> list[CheckItem]:
        return self._checks.check(needs or Needs())

    def identity(self) -> str | None:
        return self._account.identity()

    def create_stemcell(self, image_path: str, cloud_properties: Json, env: Json | None = None, *, mark: Mark) -> str:
        return self._stemcells.create_stemcell(image_path, cloud_properties or {}, env or {}, mark)

    def delete_stemcell(self, stemcell_cid: str) -> None:
        self._stemcells.delete_stemcell(stemcell_cid)

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
        return self._machines.create_vm(
            agent_id, stemcell_cid, cloud_properties or {}, networks or {}, disk_cids or (), env or {}, mark
        )

    def delete_vm(self, vm_cid: str) -> None:
        self._machines.delete_vm(vm_cid)

    def has_vm(self, vm_cid: str) -> bool:
        return self._machines.has_vm(vm_cid)

    def vm_owner(self, vm_cid: str) -> str | None:
        return self._objects.vm_owner(vm_cid)

    def reboot_vm(self, vm_cid: str) -> None:
        self._machines.reboot_vm(vm_cid)

    def set_vm_metadata(self, vm_cid: str, metadata: Mapping[str, str]) -> None:
        self._machines.set_vm_metadata(vm_cid, metadata)

    def calculate_vm_cloud_properties(self, requirements: Mapping[str, int]) -> Json:
        return self._machines.calculate_vm_cloud_properties(requirements)

    def create_disk(self, size_mb: int, cloud_properties: Json, vm_cid: str | None = None, *, mark: Mark) -> str:
        return self._disks.create_disk(size_mb, cloud_properties or {}, vm_cid, mark)

    def delete_disk(self, disk_cid: str) -> None:
        self._disks.delete_disk(disk_cid)

    def has_disk(self, disk_cid: str) -> bool:
        return self._disks.has_disk(disk_cid)

    def attach_disk(self, vm_cid: str, disk_cid: str) -> DiskHint:
        return self._disks.attach_disk(vm_cid, disk_cid)

    def detach_disk(self, vm_cid: str, disk_cid: str) -> None:
        self._disks.detach_disk(vm_cid, disk_cid)

    def get_disks(self, vm_cid: str) -> list[str]:
        return self._disks.get_disks(vm_cid)

    def set_disk_metadata(self, disk_cid: str, metadata: Mapping[str, str]) -> None:
        self._disks.set_disk_metadata(disk_cid, metadata)

    def resize_disk(self, disk_cid: str, new_size_mb: int) -> None:
        self._disks.resize_disk(disk_cid, new_size_mb)

    def update_disk(self, disk_cid: str, new_size_mb: int, cloud_properties: Json) -> str | None:
        self._disks.resize_disk(disk_cid, new_size_mb, cloud_properties)
        return None

    def snapshot_disk(self, disk_cid: str, metadata: Mapping[str, Any], *, mark: Mark) -> str:
        return self._disks.snapshot_disk(disk_cid, metadata, mark)

    def delete_snapshot(self, snapshot_cid: str) -> None:
        self._disks.delete_snapshot(snapshot_cid)

    def create_network(self, subnet: Json, *, mark: Mark) -> NetworkCreated:
        return self._networks.create_network(subnet, mark)

    def delete_network(self, network_cid: str) -> None:
        self._networks.delete_network(network_cid)

    def current_vm_id(self) -> str:
        return self._machines.current_vm_id()

    def configure_networks(self, vm_cid: str, networks: NetworksArgument) -> None:
        refuse_configure_networks()

    def create_server_group(self, metadata: GroupMetadata, *, mark: Mark) -> str:
        return self._groups.create(metadata, mark)

    def update_server_group(self, cid: str, metadata: GroupMetadata) -> None:
        self._groups.update(cid, metadata)

    def delete_server_group(self, cid: str) -> None:
        self._groups.delete(cid)

    def inspect_server_group(self, cid: str) -> GroupView:
        return self._groups.inspect(cid)

    def find(self, kind: Kind, mark: Mark) -> CloudObject | None:
        return self._objects.find(kind, mark)

    def survey(self, kind: Kind, director_uuid: str, cursor: str | None = None) -> SurveyPage:
        return self._objects.survey(kind, director_uuid, cursor)

    def delete_object(self, kind: Kind, cid: str, expected: Expected) -> None:
        self._objects.delete_object(kind, cid, expected)

    def apply(self, domain: str, changes: Sequence[Json]) -> list[Json]:
        return self._membership.apply(domain, changes)


def _capabilities(settings: Settings, objects: ObjectTable, domains: Domains) -> Capabilities:
    return Capabilities(
        driver="sandbox",
        policies=settings.policies,
        kinds=objects.markings,
        filtered=objects.filtered,
        max_groups=settings.quotas.get("server_groups"),
        max_group_members=settings.quotas.get("server_group_members"),
        boots_per_soft_group=settings.boots_per_soft_group,
        resize_disk=settings.resize_disk,
        host_visibility=not domains.are_shown,
        group_limits=domains.limits,
        domains=domains.words,
        client_tokens=_TOKENS & objects.markings.keys() if settings.client_tokens else frozenset(),
        zone_property="zone",
        settle_s=settings.settle_s,
        max_parallel_calls=settings.max_parallel_calls,
        unsupported=_unsupported(settings),
    )


def _unsupported(settings: Settings) -> dict[str, Reason]:
    found, off = dict(WITHOUT_CONFIGURE_NETWORKS), "switched off in the properties of this cloud"
    if not settings.resize_disk:
        found |= dict.fromkeys(("resize_disk", "update_disk"), Reason(off, "properties.resize_disk"))
    if not settings.snapshots:
        found |= dict.fromkeys(("snapshot_disk", "delete_snapshot"), Reason(off, "properties.snapshots"))
    return found
