"""The driver of CloudStack clouds, put together from its parts; entry point `cloudstack`."""

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
    Runtime,
    SurveyPage,
    VmCreated,
)
from coterie.cpi.contract import Networks as NetworksArgument
from coterie.cpi.drivers.cloudstack.catalog import Catalog
from coterie.cpi.drivers.cloudstack.checks import Checks
from coterie.cpi.drivers.cloudstack.client import Client, Refusal, translate
from coterie.cpi.drivers.cloudstack.create_vm import VmParts, create
from coterie.cpi.drivers.cloudstack.disks import Disks, LocalStorage
from coterie.cpi.drivers.cloudstack.networks import Networks, PublicAddresses
from coterie.cpi.drivers.cloudstack.objects import object_table
from coterie.cpi.drivers.cloudstack.properties import CLOUD, DISK, NETWORK, VM, read_settings, read_vm_spec
from coterie.cpi.drivers.cloudstack.server_groups import Groups
from coterie.cpi.drivers.cloudstack.stemcells import Stemcells, Templates
from coterie.cpi.drivers.cloudstack.vms import CloudKeyPairs, Vms
from coterie.cpi.kit.call_limit import call_limit
from coterie.cpi.kit.calls import translate_errors
from coterie.cpi.kit.create_vm import CreateVmArgs, read_networks
from coterie.cpi.kit.key_pairs import KeyPairs
from coterie.cpi.kit.parts import Parts
from coterie.cpi.kit.profile import WITHOUT_CONFIGURE_NETWORKS, Profile, refuse_configure_networks

_FORMATS = ("qcow2", "raw", "vhd", "vhdx", "ova", "light")
_FORMATS_OF_OTHERS = ("openstack-qcow2", "openstack-raw")  # the official images for KVM


@translate_errors(Refusal, translate)
class CloudstackCpi(Cpi):
    """Apache CloudStack, advanced zones. Its properties are those of `properties.Settings`."""

    forms: ClassVar[Forms] = {"cloud": CLOUD, "vm": VM, "disk": DISK, "network": NETWORK}

    def __init__(self, cloud: str, properties: Mapping[str, Any], runtime: Runtime) -> None:
        super().__init__(cloud, properties, runtime)
        settings = read_settings(properties)
        limit = call_limit(cloud, settings.max_parallel_calls, runtime.director_uuid)
        self.client = client = Client(settings, runtime.director_uuid, limit, runtime.require_lease)
        parts = Parts(runtime.parts)
        self.catalog = catalog = Catalog(client)
        self.groups = groups = Groups(client, parts)
        self.networks = Networks(client, catalog)
        addresses, cloud_key_pairs = PublicAddresses(client, parts), CloudKeyPairs(client)
        key_pairs = KeyPairs(cloud_key_pairs, settings.default_key_name, parts)
        self.vms = vms = Vms(client, catalog, addresses, key_pairs)
        local_storage = LocalStorage(client)
        self.disks = disks = Disks(client, catalog, vms, local_storage)
        templates, publisher = Templates(client), settings.publisher()
        self.stemcells = Stemcells(client, catalog, templates, publisher)
        self.vm_parts = VmParts(client, catalog, templates, local_storage, groups, addresses, key_pairs, vms)
        self.objects = object_table(client, vms, disks, templates, groups, addresses, cloud_key_pairs)
        self.checks = Checks(client, catalog, publisher, groups.server, self.objects.markings)
        self.profile = Profile(
            [*(f"cloudstack-{one}" for one in _FORMATS), *_FORMATS_OF_OTHERS],
            Capabilities(
                driver="cloudstack",
                policies=settings.policies,
                kinds=self.objects.markings,
                filtered=self.objects.filtered,
                boots_per_soft_group=1,  # apache/cloudstack#9110: deploys at once do not see each other
                resize_disk=True,
                host_visibility=settings.host_visibility,
                zone_property="zone",
                settle_s=settings.settle_s,
                max_parallel_calls=settings.max_parallel_calls,
                unsupported=WITHOUT_CONFIGURE_NETWORKS,
            ),
        )

    def capabilities(self) -> Capabilities:
        return self.profile.capabilities

    def info(self) -> Json:
        return self.profile.info()

    def ping(self) -> str:
        return self.profile.ping()

    def check(self, needs: Needs | None = None) -> list[CheckItem]:
        return self.checks.run(needs or Needs())

    def identity(self) -> str | None:
        return self.catalog.account_id()

    def create_stemcell(self, image_path: str, cloud_properties: Json, env: Json | None = None, *, mark: Mark) -> str:
        return self.stemcells.create(image_path, cloud_properties or {}, env or {}, mark)

    def delete_stemcell(self, stemcell_cid: str) -> None:
        self.stemcells.delete(stemcell_cid)

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
        spec, requests = read_vm_spec(cloud_properties), read_networks(networks, NETWORK)
        args = CreateVmArgs(agent_id, stemcell_cid, spec, networks, requests, disk_cids, env, mark)
        return create(self.vm_parts, args)

    def delete_vm(self, vm_cid: str) -> None:
        self.vms.delete(vm_cid)

    def has_vm(self, vm_cid: str) -> bool:
        return self.vms.read(vm_cid) is not None

    def vm_owner(self, vm_cid: str) -> str | None:
        return self.objects.vm_owner(vm_cid)

    def reboot_vm(self, vm_cid: str) -> None:
        self.vms.reboot(vm_cid)

    def set_vm_metadata(self, vm_cid: str, metadata: Mapping[str, str]) -> None:
        self.vms.set_metadata(vm_cid, metadata)

    def calculate_vm_cloud_properties(self, requirements: Mapping[str, int]) -> Json:
        return self.catalog.calculate_vm_cloud_properties(requirements)

    def current_vm_id(self) -> str:
        return self.vms.current_id()

    def configure_networks(self, vm_cid: str, networks: NetworksArgument) -> None:
        refuse_configure_networks()

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
        return self.vms.persistent_disks(vm_cid)

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
        self.disks.delete_snapshot(snapshot_cid)

    def create_network(self, subnet: Json, *, mark: Mark) -> NetworkCreated:
        return self.networks.create(subnet, mark)

    def delete_network(self, network_cid: str) -> None:
        self.networks.delete(network_cid)

    def create_server_group(self, metadata: GroupMetadata, *, mark: Mark) -> str:
        return self.groups.server.create(metadata, mark)

    def update_server_group(self, cid: str, metadata: GroupMetadata) -> None:
        self.groups.server.update(cid, metadata)

    def delete_server_group(self, cid: str) -> None:
        self.groups.server.delete(cid)

    def inspect_server_group(self, cid: str) -> GroupView:
        return self.groups.server.inspect(cid)

    def find(self, kind: Kind, mark: Mark) -> CloudObject | None:
        return self.objects.find(kind, mark)

    def survey(self, kind: Kind, director_uuid: str, cursor: str | None = None) -> SurveyPage:
        return self.objects.survey(kind, director_uuid, cursor)

    def delete_object(self, kind: Kind, cid: str, expected: Expected) -> None:
        self.objects.delete_object(kind, cid, expected)
