"""The driver of Google Cloud: composed from its parts, each contract method handed to one of them."""

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
    GroupLimit,
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
from coterie.cpi.drivers.gcp.checks import Checks
from coterie.cpi.drivers.gcp.client import Client, Refusal, translate
from coterie.cpi.drivers.gcp.create_vm import VmFactory
from coterie.cpi.drivers.gcp.disks import Disks
from coterie.cpi.drivers.gcp.machines import Machines
from coterie.cpi.drivers.gcp.networks import Subnetworks
from coterie.cpi.drivers.gcp.objects import Objects
from coterie.cpi.drivers.gcp.properties import CLOUD, DISK, NETWORK, VM, Settings, read_settings, read_vm_spec
from coterie.cpi.drivers.gcp.security_groups import Firewalls
from coterie.cpi.drivers.gcp.server_groups import DOMAIN_WORDS, Groups
from coterie.cpi.drivers.gcp.stemcells import Stemcells
from coterie.cpi.kit.call_limit import call_limit
from coterie.cpi.kit.calls import translate_errors
from coterie.cpi.kit.create_vm import CreateVmArgs, read_networks
from coterie.cpi.kit.objects import ObjectTable
from coterie.cpi.kit.parts import Parts
from coterie.cpi.kit.profile import WITHOUT_CONFIGURE_NETWORKS, Profile, refuse_configure_networks
from coterie.cpi.kit.waits import Waits

_FORMATS = ("google-rawdisk", "google-light")


@translate_errors(Refusal, translate)
class GcpCpi(Cpi):
    """Compute Engine of one project and region. Its properties are those of `properties.Settings`."""

    forms: ClassVar[Forms] = {"cloud": CLOUD, "vm": VM, "disk": DISK, "network": NETWORK}

    def __init__(self, cloud: str, properties: Mapping[str, Any], runtime: Runtime) -> None:
        super().__init__(cloud, properties, runtime)
        settings, director = read_settings(properties), runtime.director_uuid
        limit = call_limit(cloud, settings.max_parallel_calls, director)
        self.client = client = Client(settings, director, limit, runtime.require_lease, runtime.credential_sources)
        parts, waits = Parts(runtime.parts), Waits(settings.state_timeout, settings.poll_s)
        self.machines = machines = Machines(client, waits)
        firewalls = Firewalls(client, parts, machines)
        self.groups = groups = Groups(client, machines, firewalls, parts)
        self.disks = disks = Disks(client, machines)
        self.stemcells = stemcells = Stemcells(client)
        self.networks = networks = Subnetworks(client)
        self.vm_factory = VmFactory(client, groups, machines, stemcells, networks, waits)
        self.objects = Objects(client, groups, machines, disks, stemcells, networks).table()
        self.checks = Checks(client, groups, machines, stemcells, networks)
        self.profile = Profile(_FORMATS, _capabilities(settings, self.objects))

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

    def create_network(self, subnet: Json, *, mark: Mark) -> NetworkCreated:
        return self.networks.create(subnet, mark)

    def delete_network(self, network_cid: str) -> None:
        self.networks.delete(network_cid)

    def current_vm_id(self) -> str:
        return self.machines.current_id()

    def configure_networks(self, vm_cid: str, networks: Networks) -> None:
        refuse_configure_networks()

    def create_server_group(self, metadata: GroupMetadata, *, mark: Mark) -> str:
        return self.groups.of(mark.group_cid).create(metadata, mark)

    def update_server_group(self, cid: str, metadata: GroupMetadata) -> None:
        self.groups.of(cid).update(cid, metadata)

    def delete_server_group(self, cid: str) -> None:
        self.groups.of(cid).delete(cid)

    def inspect_server_group(self, cid: str) -> GroupView:
        return self.groups.inspect(cid)

    def find(self, kind: Kind, mark: Mark) -> CloudObject | None:
        return self.objects.find(kind, mark)

    def survey(self, kind: Kind, director_uuid: str, cursor: str | None = None) -> SurveyPage:
        return self.objects.survey(kind, director_uuid, cursor)

    def delete_object(self, kind: Kind, cid: str, expected: Expected) -> None:
        self.objects.delete_object(kind, cid, expected)


def _capabilities(settings: Settings, objects: ObjectTable) -> Capabilities:
    strict = GroupLimit(members_per_az=settings.availability_domains)
    return Capabilities(
        driver="gcp",
        policies=settings.policies,
        kinds=objects.markings,
        filtered=objects.filtered,
        group_limits={"anti-affinity": strict} if "anti-affinity" in settings.policies else {},
        domains={policy: word for policy, word in DOMAIN_WORDS.items() if policy in settings.policies},
        client_tokens=frozenset({"vm", "disk", "snapshot", "image"}),
        resize_disk=True,
        host_visibility=False,
        zone_property="zone",
        settle_s=settings.settle_s,
        max_parallel_calls=settings.max_parallel_calls,
        unsupported=WITHOUT_CONFIGURE_NETWORKS,
    )
