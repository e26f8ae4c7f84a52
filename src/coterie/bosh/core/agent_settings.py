"""Agent settings for stemcells of api_version 1, which ask a registry for them; newer ones get them in user data."""

from __future__ import annotations

import json
from typing import Any

from coterie.bosh.core.call_context import Desk
from coterie.cpi.contract import DiskHint, Json, NotSupported, VmCreated
from coterie.ledger.rows import objects, registry
from coterie.registry import document


def require_registry(desk: Desk) -> None:
    """A machine that could never learn its settings is not made."""
    if not _old(desk):
        return
    if desk.config.registry is None:
        raise _refusal("no registry is configured", "configure `registry:` and run `coterie-cpi serve`")
    if not desk.core:
        raise _refusal("the core process, which serves the registry, does not run", "start `coterie-cpi serve`")


def with_registry(desk: Desk, env: Json, intent: str) -> Json:
    """The driver writes `env.bosh.registry` into the user data: where to ask, and under which name."""
    section = desk.config.registry
    if not _old(desk) or section is None:
        return env
    scheme, _, rest = section.endpoint.partition("://")
    endpoint = f"{scheme}://{section.user}:{section.password}@{rest.rstrip('/')}"
    told = {"endpoint": endpoint, "instance": desk.mark(intent).name()}
    return {**env, "bosh": {**(env.get("bosh") or {}), "registry": told}}


def announce(desk: Desk, intent: str, agent_id: str, made: VmCreated, env: Json) -> None:
    section = desk.config.registry
    if not _old(desk) or section is None:
        return
    instance = desk.mark(intent).name()
    disks = made.disks or {"system": section.system_disk}
    settings = document.settings(agent_id, instance, made.networks, env, disks)
    with desk.book.ledger.write() as tx:
        registry.put(tx, instance, json.dumps(settings))


def attached(desk: Desk, vm_cid: str, disk_cid: str, hint: DiskHint | None) -> None:
    """Tell the agent of a disk, or, without a hint, that it has it no longer."""
    with desk.book.ledger.write() as tx:
        row = objects.by_cid(tx, "vm", desk.cloud, desk.director, vm_cid)
        instance = desk.mark(row.intent).name() if row else vm_cid
        told = registry.get(tx, instance)
        if told is None:
            return
        settings: dict[str, Any] = document.with_disk(json.loads(told), disk_cid, hint)
        registry.put(tx, instance, json.dumps(settings))


def _old(desk: Desk) -> bool:
    return desk.who.stemcell_version == 1


def _refusal(why: str, remedy: str) -> NotSupported:
    return NotSupported(
        "this stemcell has api_version 1, so its agent needs a registry",
        why=why,
        remedy=f"use a stemcell of api_version 2 or newer, or {remedy}",
    )
