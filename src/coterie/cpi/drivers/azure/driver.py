"""The driver of Azure: its parts, and the methods that are its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from coterie.cpi.contract import Capabilities, Forms, Reason, Runtime
from coterie.cpi.drivers.azure.checks import Checks
from coterie.cpi.drivers.azure.client import Client, Refusal
from coterie.cpi.drivers.azure.create_vm import VmFactory
from coterie.cpi.drivers.azure.disks import Disks
from coterie.cpi.drivers.azure.machines import Machines
from coterie.cpi.drivers.azure.objects import Objects
from coterie.cpi.drivers.azure.properties import CLOUD, DISK, NETWORK, SCALE_SETS, VM, Settings, read_settings
from coterie.cpi.drivers.azure.security_groups import AzureSecurityGroups
from coterie.cpi.drivers.azure.server_groups import Groups, domains, group_limits
from coterie.cpi.drivers.azure.stemcells import Stemcells
from coterie.cpi.kit.calls import translate, translate_errors
from coterie.cpi.kit.composed import ComposedCpi, NoNetworks
from coterie.cpi.kit.create_once import SingleWriter
from coterie.cpi.kit.objects import ObjectTable
from coterie.cpi.kit.parts import Parts
from coterie.cpi.kit.permit import permit_of
from coterie.cpi.kit.profile import WITHOUT_CONFIGURE_NETWORKS, Profile

_FORMATS = ("azure-vhd", "azure-light")
_TAGLESS = "the model Subnet of the vendor's definition (azure-mgmt-network) has no field tags"
_NO_NETWORKS = NoNetworks(Reason("a subnet could not be marked as ours", _TAGLESS), "create the subnet, and name it")


@translate_errors(Refusal, translate)
class AzureCpi(ComposedCpi):
    """One resource group of a subscription, in one region. Its properties are those of `properties.Settings`."""

    forms: ClassVar[Forms] = {"cloud": CLOUD, "vm": VM, "disk": DISK, "network": NETWORK}

    def __init__(self, cloud: str, properties: Mapping[str, Any], runtime: Runtime) -> None:
        settings = read_settings(properties)
        self.client = client = Client(settings, permit_of(cloud, runtime, settings.max_parallel_calls))
        parts = Parts(runtime.parts)
        writer = SingleWriter(self, "azure", runtime.coordinator, settings.settle_s, Refusal, translate)
        machines = Machines(client)
        azure = AzureSecurityGroups(client, parts, writer)
        self._groups = groups = Groups(client, machines, azure, parts)
        disks = Disks(client, machines)
        stemcells = Stemcells(client, runtime.report, runtime.state_folder)
        objects = Objects(client, groups, machines, disks, stemcells).table()
        super().__init__(
            cloud,
            properties,
            runtime,
            profile=Profile(_FORMATS, _capabilities(settings, objects)),
            checks=Checks(client, groups, machines),
            stemcells=stemcells,
            vm_factory=VmFactory(client, groups, machines, stemcells, parts),
            machines=machines,
            disks=disks,
            networks=_NO_NETWORKS,
            groups=groups,
            objects=objects,
            writer=writer,
            handlers={"security_group": azure.create_once},
        )

    def change_server_group(self, vm_cid: str, server_group_cid: str | None) -> None:
        if not self.capabilities().moves_members:
            return super().change_server_group(vm_cid, server_group_cid)
        return self._groups.move(vm_cid, server_group_cid)


def _capabilities(settings: Settings, objects: ObjectTable) -> Capabilities:
    limits, shown = group_limits(settings), domains(settings)
    return Capabilities(
        driver="azure",
        policies=settings.policies,
        kinds=objects.markings,
        filtered=objects.filtered,
        group_limits={policy: limit for policy, limit in limits.items() if policy in settings.policies},
        domains={policy: word for policy, word in shown.items() if policy in settings.policies},
        client_tokens=frozenset({"vm", "disk", "snapshot", "server_group"}),
        moves_members=settings.spread == SCALE_SETS,
        resize_disk=True,
        host_visibility=False,
        zone_property="availability_zone",
        settle_s=settings.settle_s,
        max_parallel_calls=settings.max_parallel_calls,
        unsupported={**WITHOUT_CONFIGURE_NETWORKS, **_NO_NETWORKS.unsupported},
    )
