"""The driver of Google Cloud: its parts, and the methods that are its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from coterie.cpi.contract import Capabilities, Forms, GroupLimit, Runtime
from coterie.cpi.drivers.gcp.checks import Checks
from coterie.cpi.drivers.gcp.client import Client, Refusal
from coterie.cpi.drivers.gcp.create_vm import VmFactory
from coterie.cpi.drivers.gcp.disks import Disks
from coterie.cpi.drivers.gcp.machines import Machines
from coterie.cpi.drivers.gcp.networks import Subnetworks
from coterie.cpi.drivers.gcp.objects import Objects
from coterie.cpi.drivers.gcp.properties import CLOUD, DISK, NETWORK, VM, Settings, read_settings
from coterie.cpi.drivers.gcp.security_groups import Firewalls
from coterie.cpi.drivers.gcp.server_groups import DOMAIN_WORDS, Groups
from coterie.cpi.drivers.gcp.stemcells import Stemcells
from coterie.cpi.kit.calls import translate, translate_errors
from coterie.cpi.kit.composed import ComposedCpi
from coterie.cpi.kit.objects import ObjectTable
from coterie.cpi.kit.parts import Parts
from coterie.cpi.kit.permit import permit_of
from coterie.cpi.kit.profile import WITHOUT_CONFIGURE_NETWORKS, Profile

_FORMATS = ("google-rawdisk", "google-light")


@translate_errors(Refusal, translate)
class GcpCpi(ComposedCpi):
    """Compute Engine of one project and region. Its properties are those of `properties.Settings`."""

    forms: ClassVar[Forms] = {"cloud": CLOUD, "vm": VM, "disk": DISK, "network": NETWORK}

    def __init__(self, cloud: str, properties: Mapping[str, Any], runtime: Runtime) -> None:
        settings = read_settings(properties)
        self.client = client = Client(settings, permit_of(cloud, runtime, settings.max_parallel_calls))
        parts, machines = Parts(runtime.parts), Machines(client)
        firewalls = Firewalls(client, parts, machines)
        groups = Groups(client, machines, firewalls, parts)
        disks = Disks(client, machines)
        stemcells = Stemcells(client)
        networks = Subnetworks(client)
        objects = Objects(client, groups, machines, disks, stemcells).table()
        super().__init__(
            cloud,
            properties,
            runtime,
            profile=Profile(_FORMATS, _capabilities(settings, objects)),
            checks=Checks(client, groups, machines, stemcells),
            stemcells=stemcells,
            vm_factory=VmFactory(client, groups, machines, stemcells, networks),
            machines=machines,
            disks=disks,
            networks=networks,
            groups=groups.server,
            objects=objects,
        )


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
