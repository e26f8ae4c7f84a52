"""The driver of sandbox clouds, a simulated datacenter in one file: its parts, and the methods that are its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from coterie.cpi.contract import Capabilities, Forms, Json, Reason, Runtime
from coterie.cpi.drivers.sandbox.account import CloudAccount
from coterie.cpi.drivers.sandbox.checks import Checks
from coterie.cpi.drivers.sandbox.domains import Domains
from coterie.cpi.drivers.sandbox.errors import translate
from coterie.cpi.drivers.sandbox.group_records import GroupRecords
from coterie.cpi.drivers.sandbox.machines import Machines
from coterie.cpi.drivers.sandbox.membership import Membership, Writer
from coterie.cpi.drivers.sandbox.networks import Networks
from coterie.cpi.drivers.sandbox.objects import object_table
from coterie.cpi.drivers.sandbox.properties import CLOUD, DISK, NETWORK, VM, Settings, read_settings
from coterie.cpi.drivers.sandbox.security_groups import SecurityGroups
from coterie.cpi.drivers.sandbox.server_groups import ServerGroups
from coterie.cpi.drivers.sandbox.storage import Disks, Stemcells
from coterie.cpi.kit.call_limit import call_limit
from coterie.cpi.kit.calls import translate_errors
from coterie.cpi.kit.composed import ComposedCpi
from coterie.cpi.kit.objects import ObjectTable
from coterie.cpi.kit.parts import Parts
from coterie.cpi.kit.profile import WITHOUT_CONFIGURE_NETWORKS, Profile
from coterie.sandbox.errors import SandboxError

_TOKENS = frozenset({"vm", "disk", "snapshot", "image", "network", "server_group"})
FORMATS = ("sandbox", "sandbox-light")


@translate_errors(SandboxError, translate)
class SandboxCpi(ComposedCpi):
    """A simulated datacenter as a cloud. Its properties are those of `properties.Settings`."""

    forms: ClassVar[Forms] = {"cloud": CLOUD, "vm": VM, "disk": DISK, "network": NETWORK}

    def __init__(self, cloud: str, properties: Mapping[str, Any], runtime: Runtime) -> None:
        self.settings = settings = read_settings(cloud, properties, runtime.state_folder)
        limit = call_limit(cloud, settings.max_parallel_calls, runtime.director_uuid)
        account = CloudAccount(settings, runtime.director_uuid, limit)
        records = GroupRecords(account, settings)
        writer = Writer(
            submit=lambda domain, change: runtime.coordinator.submit(self, domain, change),
            hold=lambda domain: runtime.coordinator.hold(domain),
            domain=lambda zone: f"{cloud}/{zone}",
        )
        security_groups = SecurityGroups(account, Parts(runtime.parts))
        self._membership = membership = Membership(account, records, writer, single_writer=settings.single_writer)
        domains = Domains(account, settings)
        groups = ServerGroups(account, records, security_groups, membership, settings, domains)
        machines = Machines(account, settings, security_groups, membership, domains)
        objects = object_table(
            account,
            records,
            groups.delete,
            director_uuid=runtime.director_uuid,
            single_writer=settings.single_writer,
            with_snapshots=settings.snapshots,
            with_hosts=not domains.are_shown,
            limit=limit,
            keep=settings.keep,
            owns_security_group=security_groups.is_ours,
        )
        super().__init__(
            cloud,
            properties,
            runtime,
            profile=Profile(FORMATS, _capabilities(settings, objects, domains)),
            checks=Checks(account, groups, settings, objects.markings, domains),
            stemcells=Stemcells(account),
            vm_factory=machines,
            machines=machines,
            disks=Disks(account, settings),
            networks=Networks(account),
            groups=groups,
            objects=objects,
        )

    def apply(self, domain: str, changes: Sequence[Json]) -> list[Json]:
        return self._membership.apply(domain, changes)


def _capabilities(settings: Settings, objects: ObjectTable, domains: Domains) -> Capabilities:
    return Capabilities(
        driver="sandbox",
        policies=settings.policies,
        kinds=objects.markings,
        filtered=objects.filtered,
        max_groups=settings.quotas.get("server_groups"),
        max_group_members=settings.quotas.get("server_group_members"),
        boots_per_soft_group=settings.boots_per_soft_group,
        resize_disk=settings.resize_disk,
        host_visibility=not domains.are_shown,
        group_limits=domains.limits,
        domains=domains.words,
        client_tokens=_TOKENS & objects.markings.keys() if settings.client_tokens else frozenset(),
        zone_property="zone",
        settle_s=settings.settle_s,
        max_parallel_calls=settings.max_parallel_calls,
        unsupported=_unsupported(settings),
    )


def _unsupported(settings: Settings) -> dict[str, Reason]:
    found, off = dict(WITHOUT_CONFIGURE_NETWORKS), "switched off in the properties of this cloud"
    if not settings.resize_disk:
        found |= dict.fromkeys(("resize_disk", "update_disk"), Reason(off, "properties.resize_disk"))
    if not settings.snapshots:
        found |= dict.fromkeys(("snapshot_disk", "delete_snapshot"), Reason(off, "properties.snapshots"))
    return found
