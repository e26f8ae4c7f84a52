"""Reads what the planner needs, in one transaction and a fixed number of queries."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import sqlalchemy as sa

from coterie.cpi.contract import GroupMetadata
from coterie.ledger.rows import deployments as deployment_rows
from coterie.ledger.rows import groups, identity, machine_secrets, nodes, objects, ownerships, parts, stemcells
from coterie.ledger.store import Tx
from coterie.ledger.tables import addresses, cloud_configs, deployments
from coterie.ledger.tables import nodes as nodes_table
from coterie.ledger.tables import objects as objects_table
from coterie.ledger.visibility import visible_teams
from coterie.plan.model import (
    CloudNow,
    DiskNow,
    GroupNow,
    KeptDisk,
    NodeNow,
    SecurityGroupOwners,
    Snapshot,
    StemcellNow,
)
from coterie.plan.spec import NodeSpec


def read(
    tx: Tx,
    deployment: str,
    clouds: Mapping[str, CloudNow],
    shared: frozenset[tuple[str, str]] = frozenset(),
    disk_sources: frozenset[str] = frozenset(),
    doubtful: frozenset[str] = frozenset(),
) -> Snapshot:
    """`clouds`: what conductors answered for each. `shared`: (cloud, name) of security groups that every team may
    adopt. `disk_sources`: other deployments whose kept disks may be taken, as far as the caller sees them. `doubtful`:
    clouds in which too many nodes are lost to believe it."""
    director, present = identity.director(tx), deployment_rows.get(tx, deployment)
    disks, beside = _disks(tx, deployment), parts.of_deployment(tx, deployment)
    return Snapshot(
        director={"name": director.name, "uuid": director.uuid},
        deployment=deployment,
        nodes=tuple(_node(row, disks.get(row.uuid), beside) for row in nodes.of_deployment(tx, deployment)),
        groups=tuple(
            GroupNow(
                row.intent,
                row.name,
                row.cloud,
                row.cid,
                row.state,
                GroupMetadata.of_wire(row.metadata),
                row.adopted,
                beside.get(row.intent, ()),
            )
            for row in groups.of_deployment(tx, deployment)
        ),
        clouds=clouds,
        stemcells=tuple(StemcellNow(row.name, row.version, row.os) for row in stemcells.catalogue(tx)),
        images=_images(tx),
        images_left=_images_left(tx),
        images_used_elsewhere=_images_used_elsewhere(tx, deployment),
        taken=_addresses_of_others(tx, deployment),
        kept=_kept_disks(tx, deployment),
        kept_elsewhere=tuple(disk for other in sorted(disk_sources) for disk in _kept_disks(tx, other)),
        security_groups=_security_group_owners(tx, deployment, shared),
        seals=machine_secrets.are_sealed(tx),
        resurrection=present.resurrection if present else None,
        doubtful=doubtful,
    )


def _kept_disks(tx: Tx, deployment: str) -> tuple[KeptDisk, ...]:
    return tuple(kept_disk(row) for row in objects.kept_disks(tx, deployment))


def kept_disk(row: objects.ObjectRow) -> KeptDisk:
    """As plans name it."""
    free, ref = row.state == "kept", row.ref or row.intent
    return KeptDisk(row.intent, row.cid or "", ref, row.cloud, row.az, row.size_mb, row.deployment or "", free)


def _security_group_owners(tx: Tx, deployment: str, shared: frozenset[tuple[str, str]]) -> SecurityGroupOwners:
    """A new deployment gets one of the caller's teams, where the caller is limited to teams."""
    holders = groups.security_group_holders(tx)
    team = ownerships.team_of(tx, deployment)
    limits = visible_teams() if team is None else frozenset({team})
    return SecurityGroupOwners(holders, ownerships.teams_of(tx, sorted(set(holders.values()))), limits, shared)


def _node(row: nodes.NodeRow, disk: DiskNow | None, beside: Mapping[str, tuple[str, ...]]) -> NodeNow:
    return NodeNow(
        uuid=row.uuid,
        instance_group=row.instance_group,
        index=row.index,
        az=row.az,
        cloud=row.cloud,
        state=row.state,
        spec=NodeSpec.of_wire(row.spec) if row.spec else None,
        server_group=row.server_group,
        addresses=row.addresses or {},
        disk=disk,
        has_vm=row.vm_intent is not None,
        problem=str((row.problem or {}).get("what", "")),
        unhealthy=row.is_unhealthy,
        lost=row.is_lost,
        parts=beside.get(row.vm_intent or "", ()),
    )


def _disks(tx: Tx, deployment: str) -> dict[str, DiskNow]:
    """By node. A disk in another cloud than its node's is none of it, whatever a conductor has written."""
    disk = objects_table.c
    query = (
        sa.select(disk.node, disk.intent, disk.size_mb, disk.properties)
        .join(nodes_table, sa.and_(nodes_table.c.uuid == disk.node, nodes_table.c.cloud == disk.cloud))
        .where(disk.deployment == deployment, disk.kind == "disk", disk.state.in_(objects.OPEN), disk.state != "kept")
    )
    return {row.node: DiskNow(row.intent, row.size_mb, row.properties or {}) for row in tx.execute(query)}


def _images(tx: Tx) -> dict[tuple[str, str], str]:
    """Those that are there, or that an unfinished task is bringing."""
    found = objects.open_images(tx)
    coming = objects.uploads_under_way(tx)
    return {(row.cloud, row.ref or ""): row.intent for row in found if row.state == "live" or row.intent in coming}


def _images_left(tx: Tx) -> dict[tuple[str, str], str]:
    """Uploads that were begun and given up: the next one has to find out first what became of them."""
    coming = objects.uploads_under_way(tx)
    return {
        (row.cloud, row.ref or ""): row.intent
        for row in objects.open_images(tx)
        if row.state in ("intended", "unknown") and row.intent not in coming
    }


def _images_used_elsewhere(tx: Tx, deployment: str) -> frozenset[tuple[str, str]]:
    """By nodes of other deployments; where one is still being made, every image of its cloud counts as used."""
    stemcell = nodes_table.c.spec["stemcell"].as_string()
    others = nodes_table.c.deployment != deployment
    settled = sa.select(nodes_table.c.cloud, stemcell).where(others, nodes_table.c.spec.is_not(None)).distinct()
    moving = sa.select(nodes_table.c.cloud).where(others, nodes_table.c.state.in_(("planned", "changing"))).distinct()
    used = {(cloud, ref) for cloud, ref in tx.execute(settled)}
    busy = set(tx.execute(moving).scalars())
    return frozenset(used | {image for image in _images(tx) if image[0] in busy})


def _addresses_of_others(tx: Tx, deployment: str) -> dict[str, frozenset[str]]:
    query = sa.select(addresses.c.network, addresses.c.ip).where(addresses.c.deployment != deployment)
    found: dict[str, set[str]] = defaultdict(set)
    for network, ip in tx.execute(query):
        found[network].add(ip)
    return {network: frozenset(ips) for network, ips in found.items()}


def fingerprint(tx: Tx, deployment: str) -> tuple[object, ...]:
    """Equal if and only if nothing that a plan of this deployment was made from has changed."""
    serial = tx.execute(sa.select(deployments.c.serial).where(deployments.c.name == deployment)).scalar()
    seen = sa.select(sa.func.count(), sa.func.max(nodes_table.c.updated_at)).where(
        nodes_table.c.deployment == deployment
    )
    held = [(group.intent, group.state) for group in groups.of_deployment(tx, deployment)]
    config = tx.execute(sa.select(sa.func.max(cloud_configs.c.id))).scalar()
    return serial, config, *tx.execute(seen).one(), tuple(held)
