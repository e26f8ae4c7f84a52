"""Deployment + cloud config → specs of instance groups. Pure, and without any work per instance."""

from __future__ import annotations

from typing import Any

from coterie.cpi.contract import SecurityGroup
from coterie.manifest.catalogue import Catalogue
from coterie.manifest.schema import CloudConfig, Deployment, InstanceGroup, Update
from coterie.manifest.server_groups import server_groups
from coterie.manifest.spec import (
    AzSpec,
    DiskSourceSpec,
    HealthCheckSpec,
    InstanceGroupSpec,
    MigrationSpec,
    PersistentDiskSpec,
    StemcellSpec,
    UpdateSpec,
)


def resolve(
    deployment: Deployment, config: CloudConfig, *, auto_anti_affinity: bool = False
) -> list[InstanceGroupSpec]:
    """The specs of documents without mistakes, in the manifest's order.

    `auto_anti_affinity`: the Director's default, for manifests that do not set it.
    """
    catalogue = Catalogue(config)
    groups = server_groups(deployment, auto_anti_affinity=auto_anti_affinity)
    stemcells = {
        cell.alias: StemcellSpec(cell.name or cell.os or "", cell.version, not cell.name)
        for cell in deployment.stemcells
    }
    rules = _rules(deployment)
    return [
        InstanceGroupSpec(
            name=group.name,
            instances=group.instances,
            azs=_azs(group, catalogue),
            vm_type=group.vm_type,
            disk=_disk(group, catalogue),
            stemcell=catalogue.one(stemcells, group.stemcell, "stemcell alias"),
            networks=catalogue.networks(group),
            env=group.env,
            user_data=group.user_data,
            tags={**deployment.tags, **group.tags},
            health=HealthCheckSpec(**group.health.model_dump()),
            security_groups=tuple(rules.get(name) or SecurityGroup(name) for name in group.security_groups),
            server_group=groups.get(group.name),
            update=update_of(deployment.update, group),
            conductor_group=_fold(group.conductor_group),
            disk_from=_disk_source(deployment, group),
            migrated_from=tuple(MigrationSpec(one.name, one.az) for one in group.migrated_from),
        )
        for group in deployment.instance_groups
    ]


def _rules(deployment: Deployment) -> dict[str, SecurityGroup]:
    def plain(rule: Any) -> dict[str, Any]:
        return {key: value for key, value in rule.model_dump().items() if value is not None}

    return {
        spec.name: SecurityGroup(spec.name, None if spec.rules is None else tuple(map(plain, spec.rules)), spec.adopt)
        for spec in deployment.security_groups
    }


def _azs(group: InstanceGroup, catalogue: Catalogue) -> tuple[AzSpec, ...]:
    size = catalogue.vm_type(group.vm_type).cloud_properties
    azs = [catalogue.az(name) for name in group.azs]
    return tuple(
        AzSpec(
            az.name,
            az.cloud,
            az.cloud_properties,
            {**az.cloud_properties, **size},
            _fold(az.conductor_group if group.conductor_group is None else group.conductor_group),
        )
        for az in azs
    )


def _fold(group: str | None) -> str | None:
    return None if group is None else group.lower()


def _disk(group: InstanceGroup, catalogue: Catalogue) -> PersistentDiskSpec | None:
    if group.persistent_disk_type:
        kind = catalogue.disk_type(group.persistent_disk_type)
        return PersistentDiskSpec(kind.disk_size, kind.cloud_properties)
    return PersistentDiskSpec(group.persistent_disk, {}) if group.persistent_disk else None


def _disk_source(deployment: Deployment, group: InstanceGroup) -> DiskSourceSpec | None:
    if group.disk_from is None:
        return None
    owner, _, name = group.disk_from.rpartition("/")
    return DiskSourceSpec(owner if owner not in ("", deployment.name) else None, name)


def update_of(whole: Update, group: InstanceGroup) -> UpdateSpec:
    """How changes go over this instance group; `whole`: what its deployment says."""
    said = {name: getattr(group.update, name) for name in group.update.model_fields_set} if group.update else {}
    chosen = whole.model_copy(update=said)
    return UpdateSpec(
        canaries=min(chosen.canaries, group.instances),
        max_in_flight=in_flight(chosen.max_in_flight, group.instances),
        canary_watch_s=chosen.canary_watch_s,
        update_watch_s=chosen.update_watch_s,
        serial=chosen.serial,
    )


def in_flight(wanted: int | str, instances: int) -> int:
    """A number as it is; a percentage of the instances rounded down, but at least one."""
    if isinstance(wanted, int):
        return wanted
    return max(1, instances * int(wanted.rstrip("%")) // 100)
