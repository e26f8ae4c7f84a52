"""The driver of AWS: its parts, and the methods that are its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from coterie.cpi.contract import Capabilities, Forms, Runtime
from coterie.cpi.drivers.aws.checks import Checks
from coterie.cpi.drivers.aws.client import Client, Refusal
from coterie.cpi.drivers.aws.create_vm import VmFactory
from coterie.cpi.drivers.aws.disks import Disks
from coterie.cpi.drivers.aws.machines import Machines
from coterie.cpi.drivers.aws.networks import Subnets
from coterie.cpi.drivers.aws.objects import Objects
from coterie.cpi.drivers.aws.properties import CLOUD, DISK, NETWORK, VM, Settings, read_settings
from coterie.cpi.drivers.aws.server_groups import DOMAINS, GROUPS_PER_REGION, LIMITS, Groups
from coterie.cpi.drivers.aws.stemcells import Stemcells
from coterie.cpi.kit.calls import translate, translate_errors
from coterie.cpi.kit.composed import ComposedCpi
from coterie.cpi.kit.create_once import SingleWriter
from coterie.cpi.kit.objects import ObjectTable
from coterie.cpi.kit.parts import Parts
from coterie.cpi.kit.permit import permit_of
from coterie.cpi.kit.profile import WITHOUT_CONFIGURE_NETWORKS, Profile

_FORMATS = ("aws-raw", "aws-light")


@translate_errors(Refusal, translate)
class AwsCpi(ComposedCpi):
    """EC2 and EBS of one account and region. Its properties are those of `properties.Settings`."""

    forms: ClassVar[Forms] = {"cloud": CLOUD, "vm": VM, "disk": DISK, "network": NETWORK}

    def __init__(self, cloud: str, properties: Mapping[str, Any], runtime: Runtime) -> None:
        settings = read_settings(properties)
        self.client = client = Client(settings, permit_of(cloud, runtime, settings.max_parallel_calls))
        writer = SingleWriter(self, "aws", runtime.coordinator, settings.settle_s, Refusal, translate)
        groups = Groups(client, Parts(runtime.parts))
        machines = Machines(client)
        disks = Disks(client, machines, writer)
        stemcells = Stemcells(client)
        subnets = Subnets(client, writer)
        objects = Objects(client, groups, machines, disks, stemcells).table()
        super().__init__(
            cloud,
            properties,
            runtime,
            profile=Profile(_FORMATS, _capabilities(settings, objects)),
            checks=Checks(client, groups),
            stemcells=stemcells,
            vm_factory=VmFactory(client, groups, machines),
            machines=machines,
            disks=disks,
            networks=subnets,
            groups=groups,
            objects=objects,
            writer=writer,
            handlers={"network": subnets.create_once, "snapshot": disks.create_snapshot_once},
        )


def _capabilities(settings: Settings, objects: ObjectTable) -> Capabilities:
    return Capabilities(
        driver="aws",
        policies=settings.policies,
        kinds=objects.markings,
        filtered=objects.filtered,
        max_groups=GROUPS_PER_REGION,
        group_limits={policy: limit for policy, limit in LIMITS.items() if policy in settings.policies},
        domains={policy: word for policy, word in DOMAINS.items() if policy in settings.policies},
        client_tokens=frozenset({"vm", "disk", "image"}),
        resize_disk=True,
        host_visibility=False,
        zone_property="availability_zone",
        settle_s=settings.settle_s,
        max_parallel_calls=settings.max_parallel_calls,
        unsupported=WITHOUT_CONFIGURE_NETWORKS,
    )
