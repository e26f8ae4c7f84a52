"""The driver of CloudStack clouds: its parts, and the methods that are its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from coterie.cpi.contract import Capabilities, Forms, Runtime
from coterie.cpi.drivers.cloudstack.catalog import Catalog
from coterie.cpi.drivers.cloudstack.checks import Checks
from coterie.cpi.drivers.cloudstack.client import Client, Refusal
from coterie.cpi.drivers.cloudstack.create_vm import VmFactory
from coterie.cpi.drivers.cloudstack.disks import Disks, LocalStorage
from coterie.cpi.drivers.cloudstack.networks import Networks, PublicAddresses
from coterie.cpi.drivers.cloudstack.objects import object_table
from coterie.cpi.drivers.cloudstack.properties import CLOUD, DISK, NETWORK, VM, Settings, read_settings
from coterie.cpi.drivers.cloudstack.server_groups import Groups
from coterie.cpi.drivers.cloudstack.stemcells import Stemcells, Templates
from coterie.cpi.drivers.cloudstack.vms import CloudKeyPairs, Vms
from coterie.cpi.kit.calls import translate, translate_errors
from coterie.cpi.kit.composed import ComposedCpi
from coterie.cpi.kit.key_pairs import KeyPairs
from coterie.cpi.kit.objects import ObjectTable
from coterie.cpi.kit.parts import Parts
from coterie.cpi.kit.permit import permit_of
from coterie.cpi.kit.profile import WITHOUT_CONFIGURE_NETWORKS, Profile

_FORMATS = (
    *(f"cloudstack-{one}" for one in ("qcow2", "raw", "vhd", "vhdx", "ova", "light")),
    *("openstack-qcow2", "openstack-raw"),  # the official images for KVM
)


@translate_errors(Refusal, translate)
class CloudstackCpi(ComposedCpi):
    """Apache CloudStack, advanced zones. Its properties are those of `properties.Settings`."""

    forms: ClassVar[Forms] = {"cloud": CLOUD, "vm": VM, "disk": DISK, "network": NETWORK}

    def __init__(self, cloud: str, properties: Mapping[str, Any], runtime: Runtime) -> None:
        settings = read_settings(properties)
        self.client = client = Client(settings, permit_of(cloud, runtime, settings.max_parallel_calls))
        parts = Parts(runtime.parts)
        catalog = Catalog(client)
        groups = Groups(client, parts)
        addresses, cloud_key_pairs = PublicAddresses(client, parts), CloudKeyPairs(client)
        key_pairs = KeyPairs(cloud_key_pairs, settings.default_key_name, parts)
        vms = Vms(client, catalog, addresses, key_pairs)
        local_storage = LocalStorage(client)
        self._disks = disks = Disks(client, catalog, vms, local_storage)
        templates, publisher = Templates(client), settings.publisher()
        objects = object_table(client, vms, disks, templates, groups, addresses, cloud_key_pairs)
        super().__init__(
            cloud,
            properties,
            runtime,
            profile=Profile(_FORMATS, _capabilities(settings, objects)),
            checks=Checks(client, catalog, publisher, groups.server, objects.markings),
            stemcells=Stemcells(client, catalog, templates, publisher),
            vm_factory=VmFactory(client, catalog, templates, local_storage, groups, addresses, key_pairs, vms),
            machines=vms,
            disks=disks,
            networks=Networks(client, catalog),
            groups=groups.server,
            objects=objects,
        )

    def resize_disk(self, disk_cid: str, new_size_mb: int) -> None:
        self._disks.resize(disk_cid, new_size_mb)


def _capabilities(settings: Settings, objects: ObjectTable) -> Capabilities:
    return Capabilities(
        driver="cloudstack",
        policies=settings.policies,
        kinds=objects.markings,
        filtered=objects.filtered,
        boots_per_soft_group=1,  # apache/cloudstack#9110: deploys at once do not see each other
        resize_disk=True,
        host_visibility=settings.host_visibility,
        zone_property="zone",
        settle_s=settings.settle_s,
        max_parallel_calls=settings.max_parallel_calls,
        unsupported=WITHOUT_CONFIGURE_NETWORKS,
    )
