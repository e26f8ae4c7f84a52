"""The driver of Incus clusters, put together from its parts; entry point `incus`."""

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
    Networks,
    NotSupported,
    Reason,
    Runtime,
    SurveyPage,
    VmCreated,
)
from coterie.cpi.drivers.incus.checks import Checks
from coterie.cpi.drivers.incus.client import Client, Refusal, translate
from coterie.cpi.drivers.incus.create_vm import VmFactory
from coterie.cpi.drivers.incus.disks import Disks
from coterie.cpi.drivers.incus.machines import Machines
from coterie.cpi.drivers.incus.objects import Objects
from coterie.cpi.drivers.incus.placement import Members, Seats
from coterie.cpi.drivers.incus.properties import CLOUD, DISK, NETWORK, VM, read_settings, read_vm_spec
from coterie.cpi.drivers.incus.reservations import Reservations
from coterie.cpi.drivers.incus.server_groups import Groups
from coterie.cpi.drivers.incus.stemcells import Stemcells
from coterie.cpi.kit.call_limit import call_limit
from coterie.cpi.kit.calls import translate_errors
from coterie.cpi.kit.create_once import Handler, SingleWriter
from coterie.cpi.kit.create_vm import CreateVmArgs, read_networks
from coterie.cpi.kit.parts import Parts
from coterie.cpi.kit.profile import WITHOUT_CONFIGURE_NETWORKS, Profile, refuse_configure_networks
from coterie.cpi.kit.waits import Waits

_FORMATS = ("incus-tar",)
_NETWORKS = Reason(
    "a bridge that Incus creates is local to each member, so machines on two members would not reach each other",
    "Incus documentation, How to configure networks for a cluster, "
    "https://linuxcontainers.org/incus/docs/main/howto/cluster_config_networks/",
)


@translate_errors(Refusal, translate)
class IncusCpi(Cpi):
    """Incus over its REST API. Its properties are those of `properties.Settings`."""

    forms: ClassVar[Forms] = {"cloud": CLOUD, "vm": VM, "disk": DISK, "network": NETWORK}

    def __init__(self, cloud: str, properties: Mapping[str, Any], runtime: Runtime) -> None:
        super().__init__(cloud, properties, runtime)
        settings, director = read_settings(properties), runtime.director_uuid
        limit = call_limit(cloud, settings.max_parallel_calls, director)
        self.client = client = Client(settings, director, limit, runtime.require_lease, runtime.credential_sources)
        waits = Waits(settings.state_timeout, settings.poll_s)
        self.writer = writer = SingleWriter(self, "incus", runtime.coordinator, settings.settle_s, Refusal, translate)
        members = Members(client)
        seats = Seats(cloud, client, runtime.parts)
        self.machines = machines = Machines(client, members, seats, waits)
        self.groups = groups = Groups(client, members, machines, Parts(runtime.parts))
        self.disks = disks = Disks(client, members, machines, writer)
        self.stemcells = stemcells = Stemcells(client)
        self.reservations = Reservations(client, members, groups.profiles, seats, writer)
        self.vm_factory = VmFactory(client, members, machines, groups, disks, stemcells, self.reservations)
        self.objects = Objects(client, groups, machines, disks, stemcells).table()
        self.checks = Checks(client, members, groups, disks, self.objects.markings)
        self.profile = Profile(
            _FORMATS,
            Capabilities(
                driver="incus",
                policies=settings.policies,
                kinds={kind: marking for kind, marking in self.objects.markings.items() if kind != "network"},
                filtered=self.objects.filtered,
                boots_per_soft_group=None,  # the writer of a group counts those that are on their way
                resize_disk=True,
                host_visibility=True,
                zone_property="cluster_group",
                settle_s=settings.settle_s,
                max_parallel_calls=settings.max_parallel_calls,
                group_changes=frozenset({"hosts"}),
                unsupported={
                    **WITHOUT_CONFIGURE_NETWORKS,
                    "create_network": _NETWORKS,
                    "delete_network": _NETWORKS,
                },
            ),
        )
        self.handlers: Mapping[str, Handler] = {"disk": disks.create_once}

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

    def create_stemcell(self, image_path: str, cloud_properties: Json, env: Json | None = None, *, mark: Mark) -> str:
        return self.stemcells.create(image_path, cloud_properties or {}, env or {}, mark)

    def delete_stemcell(self, stemcell_cid: str) -> None:
        self.stemcells.delete(stemcell_cid)

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
        spec, requests = read_vm_spec(cloud_properties), read_networks(networks, NETWORK)
        return self.vm_factory.create(
            CreateVmArgs(agent_id, stemcell_cid, spec, networks, requests, disk_cids, env, mark)
        )

    def delete_vm(self, vm_cid: str) -> None:
        self.machines.delete(vm_cid)

    def has_vm(self, vm_cid: str) -> bool:
        return self.machines.read(vm_cid) is not None

    def vm_owner(self, vm_cid: str) -> str | None:
        return self.objects.vm_owner(vm_cid)

    def reboot_vm(self, vm_cid: str) -> None:
        self.machines.reboot(vm_cid)

    def set_vm_metadata(self, vm_cid: str, metadata: Mapping[str, str]) -> None:
        self.machines.set_metadata(vm_cid, metadata)

    def calculate_vm_cloud_properties(self, requirements: Mapping[str, int]) -> Json:
        return self.machines.smallest_fit(requirements)

    def create_disk(self, size_mb: int, cloud_properties: Json, vm_cid: str | None = None, *, mark: Mark) -> str:
        return self.disks.create(size_mb, cloud_properties or {}, vm_cid, mark)

    def delete_disk(self, disk_cid: str) -> None:
        self.disks.delete(disk_cid)

    def has_disk(self, disk_cid: str) -> bool:
        return self.disks.read(disk_cid) is not None

    def attach_disk(self, vm_cid: str, disk_cid: str) -> DiskHint:
        return self.disks.attach(vm_cid, disk_cid)

    def detach_disk(self, vm_cid: str, disk_cid: str) -> None:
        self.disks.detach(vm_cid, disk_cid)

    def get_disks(self, vm_cid: str) -> list[str]:
        return self.disks.list_of(self.machines.require_read(vm_cid))

    def set_disk_metadata(self, disk_cid: str, metadata: Mapping[str, str]) -> None:
        self.disks.set_metadata(disk_cid, metadata)

    def resize_disk(self, disk_cid: str, new_size_mb: int) -> None:
        self.disks.update(disk_cid, new_size_mb)

    def update_disk(self, disk_cid: str, new_size_mb: int, cloud_properties: Json) -> str | None:
        self.disks.update(disk_cid, new_size_mb, cloud_properties)
        return None

    def snapshot_disk(self, disk_cid: str, metadata: Mapping[str, Any], *, mark: Mark) -> str:
        return self.disks.snapshot(disk_cid, metadata, mark)

    def delete_snapshot(self, snapshot_cid: str) -> None:
        self.disks.delete_snapshot(snapshot_cid)

    def create_network(self, subnet: Json, *, mark: Mark) -> NetworkCreated:
        raise NotSupported("this driver creates no networks", why=_NETWORKS.why, remedy="name one that is there")

    def delete_network(self, network_cid: str) -> None:
        raise NotSupported("this driver deletes no networks", why=_NETWORKS.why, remedy="have an operator do it")

    def current_vm_id(self) -> str:
        return self.machines.current_id()

    def configure_networks(self, vm_cid: str, networks: Networks) -> None:
        refuse_configure_networks()

    def create_server_group(self, metadata: GroupMetadata, *, mark: Mark) -> str:
        return self.groups.create(metadata, mark)

    def update_server_group(self, cid: str, metadata: GroupMetadata) -> None:
        self.groups.update(cid, metadata)

    def delete_server_group(self, cid: str) -> None:
        self.groups.server.delete(cid)

    def inspect_server_group(self, cid: str) -> GroupView:
        return self.groups.inspect(cid)

    def find(self, kind: Kind, mark: Mark) -> CloudObject | None:
        return self.objects.find(kind, mark)

    def survey(self, kind: Kind, director_uuid: str, cursor: str | None = None) -> SurveyPage:
        return self.objects.survey(kind, director_uuid, cursor)

    def delete_object(self, kind: Kind, cid: str, expected: Expected) -> None:
        self.objects.delete_object(kind, cid, expected)

    def apply(self, domain: str, changes: Sequence[Json]) -> list[Json]:
        if changes and changes[0]["kind"] == "vm":  # those of a domain are of one kind
            return self.writer.apply_together(self.reservations.place, changes)
        return self.writer.apply(self.handlers, domain, changes)
