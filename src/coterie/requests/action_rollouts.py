"""How work on nodes goes over an instance group: behind its canaries, so many at a time, as its manifest says."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from coterie.cpi.contract import Capabilities
from coterie.errors import InvalidDocument
from coterie.ledger.rows import groups
from coterie.ledger.rows.deployments import DeploymentRow
from coterie.ledger.store import Tx
from coterie.manifest import load_deployment
from coterie.manifest.resolve import update_of
from coterie.manifest.schema.update import Update
from coterie.plan.model import Change, NodeChange, Rollout


def plan_rollouts(
    tx: Tx,
    deployment: DeploymentRow,
    changes: Sequence[Change],
    max_in_flight: int | None,
    able: Mapping[str, Capabilities],
) -> tuple[Rollout, ...]:
    """Instance groups follow each other. `max_in_flight` None: as the manifest in force says."""
    said = _read_updates(deployment)
    used: dict[str, set[tuple[str, str | None]]] = defaultdict(set)  # instance group → its clouds and server groups
    for change in changes:
        if isinstance(change.details, NodeChange):
            group = change.details.server_group
            used[change.details.instance_group].add((change.cloud, group.intent if group else None))
    rollouts = []
    for name, places in sorted(used.items()):
        canaries, in_flight = said.get(name, _CAREFUL)
        limits = [able[cloud].boots_per_soft_group for cloud, group in places if _is_soft(tx, group)]
        most = min([max_in_flight or in_flight, *(limit for limit in limits if limit)])
        rollouts.append(Rollout(name, canaries, most, serial=True))
    return tuple(rollouts)


_CAREFUL = (Update().canaries, 1)


def _read_updates(deployment: DeploymentRow) -> dict[str, tuple[int, int]]:
    """(canaries, max_in_flight) of each instance group; none where an earlier release took a manifest that is not
    valid any more."""
    try:
        manifest = load_deployment(deployment.manifest, deployment.name).value
    except InvalidDocument:
        return {}
    updates = {group.name: update_of(manifest.update, group) for group in manifest.instance_groups}
    return {name: (update.canaries, update.max_in_flight) for name, update in updates.items()}


def _is_soft(tx: Tx, server_group: str | None) -> bool:
    group = groups.get(tx, server_group) if server_group else None
    return group is not None and (group.policy or "").startswith("soft-")
