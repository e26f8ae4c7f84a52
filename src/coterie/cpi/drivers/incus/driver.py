"""The driver of Incus clusters: its parts, and the methods that are its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from coterie.cpi.contract import Capabilities, Forms, Json, Reason, Runtime
from coterie.cpi.drivers.incus.checks import Checks
from coterie.cpi.drivers.incus.client import Client, Refusal
from coterie.cpi.drivers.incus.create_vm import VmFactory
from coterie.cpi.drivers.incus.disks import Disks
from coterie.cpi.drivers.incus.machines import Machines
from coterie.cpi.drivers.incus.objects import Objects
from coterie.cpi.drivers.incus.placement import Members, ReservationRecords
from coterie.cpi.drivers.incus.properties import CLOUD, DISK, NETWORK, VM, Settings, read_settings
from coterie.cpi.drivers.incus.reservations import Placements
from coterie.cpi.drivers.incus.server_groups import Groups
from coterie.cpi.drivers.incus.stemcells import Stemcells
from coterie.cpi.kit.calls import translate, translate_errors
from coterie.cpi.kit.composed import ComposedCpi, NoNetworks
from coterie.cpi.kit.create_once import SingleWriter
from coterie.cpi.kit.objects import ObjectTable
from coterie.cpi.kit.parts import Parts
from coterie.cpi.kit.permit import permit_of
from coterie.cpi.kit.profile import WITHOUT_CONFIGURE_NETWORKS, Profile
from coterie.cpi.kit.waits import Waits

_FORMATS = ("incus-tar",)
_NO_NETWORKS = NoNetworks(
    Reason(
        "a bridge that Incus creates is local to each member, so machines on two members would not reach each other",
        "Incus documentation, How to configure networks for a cluster, "
        "https://linuxcontainers.org/incus/docs/main/howto/cluster_config_networks/",
    ),
    "name one that is there",
)


@translate_errors(Refusal, translate)
class IncusCpi(ComposedCpi):
    """Incus over its REST API. Its properties are those of `properties.Settings`."""

    forms: ClassVar[Forms] = {"cloud": CLOUD, "vm": VM, "disk": DISK, "network": NETWORK}

    def __init__(self, cloud: str, properties: Mapping[str, Any], runtime: Runtime) -> None:
        settings = read_settings(properties)
        self.client = client = Client(settings, permit_of(cloud, runtime, settings.max_parallel_calls))
        waits = Waits(settings.state_timeout, settings.poll_s)
        self._writer = writer = SingleWriter(self, "incus", runtime.coordinator, settings.settle_s, Refusal, translate)
        members = Members(client)
        recorded = ReservationRecords(cloud, client, runtime.parts)
        machines = Machines(client, members, recorded, waits)
        groups = Groups(client, members, machines, Parts(runtime.parts))
        disks = Disks(client, members, machines, writer)
        stemcells = Stemcells(client)
        self._placements = placements = Placements(client, members, groups.profiles, recorded, writer)
        objects = Objects(client, groups, machines, disks, stemcells).table()
        super().__init__(
            cloud,
            properties,
            runtime,
            profile=Profile(_FORMATS, _capabilities(settings, objects)),
            checks=Checks(client, members, groups, disks, objects.markings),
            stemcells=stemcells,
            vm_factory=VmFactory(client, members, machines, groups, disks, stemcells, placements),
            machines=machines,
            disks=disks,
            networks=_NO_NETWORKS,
            groups=groups,
            objects=objects,
            writer=writer,
            handlers={"disk": disks.create_once},
        )

    def apply(self, domain: str, changes: Sequence[Json]) -> list[Json]:
        if changes and changes[0]["kind"] == "vm":  # those of a domain are of one kind
            return self._writer.apply_together(self._placements.place, changes)
        return super().apply(domain, changes)


def _capabilities(settings: Settings, objects: ObjectTable) -> Capabilities:
    return Capabilities(
        driver="incus",
        policies=settings.policies,
        kinds={kind: marking for kind, marking in objects.markings.items() if kind != "network"},
        filtered=objects.filtered,
        boots_per_soft_group=None,  # the writer of a group counts those that are on their way
        resize_disk=True,
        host_visibility=True,
        zone_property="cluster_group",
        settle_s=settings.settle_s,
        max_parallel_calls=settings.max_parallel_calls,
        group_changes=frozenset({"hosts"}),
        unsupported={**WITHOUT_CONFIGURE_NETWORKS, **_NO_NETWORKS.unsupported},
    )
