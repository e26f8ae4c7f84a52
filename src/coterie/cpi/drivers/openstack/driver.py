"""The driver of OpenStack clouds: composed from its parts, each contract method handed to one of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
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
    Runtime,
    SurveyPage,
    VmCreated,
)
from coterie.cpi.drivers.openstack.checks import Checks
from coterie.cpi.drivers.openstack.client import Client, Refusal, translate
from coterie.cpi.drivers.openstack.create_vm import Boots, VmFactory
from coterie.cpi.drivers.openstack.disks import Disks, Volumes
from coterie.cpi.drivers.openstack.lookups import Lookups
from coterie.cpi.drivers.openstack.machines import Machines, NovaKeyPairs, Servers
from coterie.cpi.drivers.openstack.networks import FloatingIps, ManagedNetworks, Ports
from coterie.cpi.drivers.openstack.objects import Delete, Objects
from coterie.cpi.drivers.openstack.properties import CLOUD, DISK, NETWORK, VM, Settings, read_settings, read_vm_spec
from coterie.cpi.drivers.openstack.rows import Rows
from coterie.cpi.drivers.openstack.server_groups import Groups
from coterie.cpi.drivers.openstack.stemcells import Stemcells
from coterie.cpi.kit.call_limit import call_limit
from coterie.cpi.kit.calls import translate_errors
from coterie.cpi.kit.create_once import Handler, SingleWriter
from coterie.cpi.kit.create_vm import CreateVmArgs, read_networks
from coterie.cpi.kit.key_pairs import KeyPairs
from coterie.cpi.kit.objects import ObjectTable
from coterie.cpi.kit.parts import Parts
from coterie.cpi.kit.profile import WITHOUT_CONFIGURE_NETWORKS, Profile, refuse_configure_networks
from coterie.cpi.kit.waits import Waits

_FORMATS = ("openstack-qcow2", "openstack-raw", "openstack-vmdk", "openstack-light")


@translate_errors(Refusal, translate)
class OpenstackCpi(Cpi):
    """OpenStack: Keystone v3, Nova, Neutron, Glance and Cinder. Its properties are those of `properties.Settings`."""

    forms: ClassVar[Forms] = {"cloud": CLOUD, "vm": VM, "disk": DISK, "network": NETWORK}

    def __init__(self, cloud: str, properties: Mapping[str, Any], runtime: Runtime) -> None:
        super().__init__(cloud, properties, runtime)
        settings, director = read_settings(properties), runtime.director_uuid
        limit = call_limit(cloud, settings.max_parallel_calls, director)
        client = Client(settings, director, limit, runtime.require_lease, runtime.credential_sources)
        parts = Parts(runtime.parts)
        rows = Rows(client, parts)
        waits = Waits(settings.state_timeout, settings.poll_s)
        writer = SingleWriter(self, "openstack", runtime.coordinator, settings.settle_s, Refusal, translate)
        lookups = Lookups(client, rows)
        volumes = Volumes(client, rows, lookups, waits)
        ports = Ports(client, rows, lookups, writer)
        floating_ips = FloatingIps(client, rows, lookups)
        nova_keys = NovaKeyPairs(client, rows)
        key_pairs = KeyPairs(nova_keys, settings.default_key_name, parts)
        servers = Servers(client, rows, waits)
        groups = Groups(client, rows, ports, writer)
        boots = Boots(client, rows, servers, groups.nova, waits, writer)
        machines = Machines(client, rows, servers, ports, floating_ips, volumes, key_pairs)
        stemcells = Stemcells(client, rows, lookups, waits)
        disks = Disks(client, rows, lookups, volumes, waits, writer)
        deletes: Mapping[Kind, Delete] = {
            "vm": machines.delete,
            "disk": disks.delete,
            "snapshot": volumes.delete_snapshot,
            "image": stemcells.delete_image,
            "server_group": groups.server.delete,
            "security_group": groups.security.delete,
            "keypair": nova_keys.delete,
            "port": partial(rows.delete, "port"),
            "ip": partial(rows.delete, "ip"),
        }
        self.client = client
        self.lookups = lookups
        self.groups = groups.server
        self.volumes = volumes
        self.disks = disks
        self.machines = machines
        self.stemcells = stemcells
        self.writer = writer
        self.networks = ManagedNetworks(client, rows, writer)
        self.vm_factory = VmFactory(
            client, rows, lookups, volumes, groups, ports, floating_ips, key_pairs, nova_keys, machines, boots
        )
        self.objects = Objects(client, rows, servers, groups, nova_keys, deletes).table()
        self.checks = Checks(client, lookups, groups.server)
        self.profile = Profile(_FORMATS, _capabilities(settings, self.objects))
        self.handlers: Mapping[str, Handler] = {
            **dict.fromkeys(("disk", "snapshot", "network", "server_group"), rows.apply_create),
            "port": ports.create_free_once,
            "security_group": groups.neutron.apply_create,
            "vm": boots.start_once,
        }

    def capabilities(self) -> Capabilities:
        return self.profile.capabilities

    def info(self) -> Json:
        return self.profile.info()

    def ping(self) -> str:
        return self.profile.ping()

    def check(self, needs: Needs | None = None) -> list[CheckItem]:
        return self.checks.run(needs or Needs())

    def identity(self) -> str | None:
        """Regions that share a Keystone have the same projects, and each its own servers."""
        region = self.client.region
        return f"project {self.client.project}" + (f" in region {region}" if region else "")

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
        return self.machines.exists(vm_cid)

    def vm_owner(self, vm_cid: str) -> str | None:
        return self.objects.vm_owner(vm_cid)

    def reboot_vm(self, vm_cid: str) -> None:
        self.machines.reboot(vm_cid)

    def set_vm_metadata(self, vm_cid: str, metadata: Mapping[str, str]) -> None:
        self.machines.set_metadata(vm_cid, metadata)

    def calculate_vm_cloud_properties(self, requirements: Mapping[str, int]) -> Json:
        return self.lookups.smallest_fit(requirements)

    def create_disk(self, size_mb: int, cloud_properties: Json, vm_cid: str | None = None, *, mark: Mark) -> str:
        return self.disks.create(size_mb, cloud_properties or {}, vm_cid, mark)

    def delete_disk(self, disk_cid: str) -> None:
        self.disks.delete(disk_cid)

    def has_disk(self, disk_cid: str) -> bool:
        return self.disks.exists(disk_cid)

    def attach_disk(self, vm_cid: str, disk_cid: str) -> DiskHint:
        self.machines.require(vm_cid)
        return self.disks.attach(vm_cid, disk_cid)

    def detach_disk(self, vm_cid: str, disk_cid: str) -> None:
        self.disks.detach(vm_cid, disk_cid)

    def get_disks(self, vm_cid: str) -> list[str]:
        self.machines.require(vm_cid)
        return self.volumes.list_attached(vm_cid, passing=False)

    def set_disk_metadata(self, disk_cid: str, metadata: Mapping[str, str]) -> None:
        self.disks.set_metadata(disk_cid, metadata)

    def resize_disk(self, disk_cid: str, new_size_mb: int) -> None:
        self.disks.resize(disk_cid, new_size_mb)

    def update_disk(self, disk_cid: str, new_size_mb: int, cloud_properties: Json) -> str | None:
        self.disks.update(disk_cid, new_size_mb, cloud_properties or {})
        return None

    def snapshot_disk(self, disk_cid: str, metadata: Mapping[str, Any], *, mark: Mark) -> str:
        return self.disks.snapshot(disk_cid, metadata, mark)

    def delete_snapshot(self, snapshot_cid: str) -> None:
        self.volumes.delete_snapshot(snapshot_cid)

    def create_network(self, subnet: Json, *, mark: Mark) -> NetworkCreated:
        return self.networks.create(subnet, mark)

    def delete_network(self, network_cid: str) -> None:
        self.networks.delete(network_cid)

    def current_vm_id(self) -> str:
        return self.machines.current_id()

    def configure_networks(self, vm_cid: str, networks: Networks) -> None:
        refuse_configure_networks()

    def create_server_group(self, metadata: GroupMetadata, *, mark: Mark) -> str:
        return self.groups.create(metadata, mark)

    def update_server_group(self, cid: str, metadata: GroupMetadata) -> None:
        self.groups.update(cid, metadata)

    def delete_server_group(self, cid: str) -> None:
        self.groups.delete(cid)

    def inspect_server_group(self, cid: str) -> GroupView:
        return self.groups.inspect(cid)

    def find(self, kind: Kind, mark: Mark) -> CloudObject | None:
        return self.objects.find(kind, mark)

    def survey(self, kind: Kind, director_uuid: str, cursor: str | None = None) -> SurveyPage:
        return self.objects.survey(kind, director_uuid, cursor)

    def delete_object(self, kind: Kind, cid: str, expected: Expected) -> None:
        self.objects.delete_object(kind, cid, expected)

    def apply(self, domain: str, changes: Sequence[Json]) -> list[Json]:
        return self.writer.apply(self.handlers, domain, changes)


def _capabilities(settings: Settings, objects: ObjectTable) -> Capabilities:
    return Capabilities(
        driver="openstack",
        policies=settings.policies,
        kinds=objects.markings,
        filtered=objects.filtered,
        boots_per_soft_group=None,  # any number at once: `Boots` hands them to the scheduler one after the other
        resize_disk=True,
        host_visibility=True,
        zone_property="availability_zone",
        settle_s=settings.settle_s,
        max_parallel_calls=settings.max_parallel_calls,
        unsupported=WITHOUT_CONFIGURE_NETWORKS,
    )
