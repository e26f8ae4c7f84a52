"""The driver of OpenStack clouds: its parts, and the methods that are its own."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar

from coterie.cpi.contract import Capabilities, Forms, Kind, Runtime
from coterie.cpi.drivers.openstack.checks import Checks
from coterie.cpi.drivers.openstack.client import Client, Refusal, translate
from coterie.cpi.drivers.openstack.create_vm import Boots, VmFactory
from coterie.cpi.drivers.openstack.disks import Disks, Volumes
from coterie.cpi.drivers.openstack.lookups import Lookups
from coterie.cpi.drivers.openstack.machines import Machines, NovaKeyPairs, Servers
from coterie.cpi.drivers.openstack.networks import FloatingIps, ManagedNetworks, Ports
from coterie.cpi.drivers.openstack.objects import Delete, Objects
from coterie.cpi.drivers.openstack.properties import CLOUD, DISK, NETWORK, VM, Settings, read_settings
from coterie.cpi.drivers.openstack.rows import Rows
from coterie.cpi.drivers.openstack.server_groups import Groups
from coterie.cpi.drivers.openstack.stemcells import Stemcells
from coterie.cpi.kit.calls import translate_errors
from coterie.cpi.kit.composed import ComposedCpi
from coterie.cpi.kit.create_once import Handler, SingleWriter
from coterie.cpi.kit.key_pairs import KeyPairs
from coterie.cpi.kit.objects import ObjectTable
from coterie.cpi.kit.parts import Parts
from coterie.cpi.kit.permit import permit_of
from coterie.cpi.kit.profile import WITHOUT_CONFIGURE_NETWORKS, Profile
from coterie.cpi.kit.waits import Waits

_FORMATS = ("openstack-qcow2", "openstack-raw", "openstack-vmdk", "openstack-light")


@translate_errors(Refusal, translate)
class OpenstackCpi(ComposedCpi):
    """OpenStack: Keystone v3, Nova, Neutron, Glance and Cinder. Its properties are those of `properties.Settings`."""

    forms: ClassVar[Forms] = {"cloud": CLOUD, "vm": VM, "disk": DISK, "network": NETWORK}

    def __init__(self, cloud: str, properties: Mapping[str, Any], runtime: Runtime) -> None:
        settings = read_settings(properties)
        self.client = client = Client(settings, permit_of(cloud, runtime, settings.max_parallel_calls))
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
        machines = Machines(client, rows, lookups, servers, ports, floating_ips, volumes, key_pairs)
        stemcells = Stemcells(client, rows, lookups, waits)
        disks = Disks(client, rows, lookups, volumes, waits, writer)
        deletes: Mapping[Kind, Delete] = {
            "vm": machines.delete,
            "disk": disks.delete,
            "snapshot": disks.delete_snapshot,
            "image": stemcells.delete_image,
            "server_group": groups.server.delete,
            "security_group": groups.security.delete,
            "keypair": nova_keys.delete,
            "port": partial(rows.delete, "port"),
            "ip": partial(rows.delete, "ip"),
        }
        networks = ManagedNetworks(client, rows, writer)
        vm_factory = VmFactory(
            client, rows, lookups, volumes, groups, ports, floating_ips, key_pairs, nova_keys, machines, boots
        )
        objects = Objects(client, rows, servers, groups, nova_keys, deletes).table()
        handlers: Mapping[str, Handler] = {
            **dict.fromkeys(("disk", "snapshot", "network", "server_group"), rows.apply_create),
            "port": ports.create_free_once,
            "security_group": groups.neutron.apply_create,
            "vm": boots.start_once,
        }
        super().__init__(
            cloud,
            properties,
            runtime,
            profile=Profile(_FORMATS, _capabilities(settings, objects)),
            checks=Checks(client, lookups, groups.server),
            stemcells=stemcells,
            vm_factory=vm_factory,
            machines=machines,
            disks=disks,
            networks=networks,
            groups=groups.server,
            objects=objects,
            writer=writer,
            handlers=handlers,
        )


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
