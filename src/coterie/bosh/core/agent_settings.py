"""Agent settings for stemcells of api_version 1, which read them from a registry; newer ones get them in user data."""

from __future__ import annotations

import json
from typing import Any

from coterie.bosh.core.call_context import CallContext
from coterie.cpi.contract import DiskHint, Json, NotSupported, VmCreated
from coterie.ledger.rows import object_life as objects
from coterie.ledger.rows import registry
from coterie.registry import document


def require_registry(context: CallContext) -> None:
    """Refuse to create a machine that could never read its settings."""
    if not _needs_registry(context):
        return
    if context.config.registry is None:
        raise _refusal("no registry is configured", "configure `registry:` and run `coterie-cpi serve`")
    if not context.core:
        raise _refusal("the core process, which serves the registry, does not run", "start `coterie-cpi serve`")


def env_with_registry(context: CallContext, env: Json, intent: str) -> Json:
    """The driver writes `env.bosh.registry` into the user data: the registry's address, and the name to read under."""
    section = context.config.registry
    if not _needs_registry(context) or section is None:
        return env
    scheme, _, rest = section.endpoint.partition("://")
    endpoint = f"{scheme}://{section.user}:{section.password}@{rest.rstrip('/')}"
    registry_section = {"endpoint": endpoint, "instance": context.mark(intent).name()}
    return {**env, "bosh": {**(env.get("bosh") or {}), "registry": registry_section}}


def publish(context: CallContext, intent: str, agent_id: str, created: VmCreated, env: Json) -> None:
    section = context.config.registry
    if not _needs_registry(context) or section is None:
        return
    instance = context.mark(intent).name()
    disks = created.disks or {"system": section.system_disk}
    settings = document.settings(agent_id, instance, created.networks, env, disks)
    with context.ledger.write() as tx:
        registry.put(tx, instance, json.dumps(settings))


def update_disk(context: CallContext, vm_cid: str, disk_cid: str, hint: DiskHint | None) -> None:
    """Add a disk to the agent's settings, or, without a hint, remove it."""
    with context.ledger.write() as tx:
        row = objects.by_cid(tx, "vm", context.cloud, context.director, vm_cid)
        instance = context.mark(row.intent).name() if row else vm_cid
        stored = registry.get(tx, instance)
        if stored is None:
            return
        settings: dict[str, Any] = document.with_disk(json.loads(stored), disk_cid, hint)
        registry.put(tx, instance, json.dumps(settings))


def _needs_registry(context: CallContext) -> bool:
    return context.caller.stemcell_version == 1


def _refusal(why: str, remedy: str) -> NotSupported:
    return NotSupported(
        "this stemcell has api_version 1, so its agent needs a registry",
        why=why,
        remedy=f"use a stemcell of api_version 2 or newer, or {remedy}",
    )
