"""Filters of lists: a name that does not exist is an error, not an empty list."""

from __future__ import annotations

from coterie.errors import InvalidDocument, NotFound
from coterie.ledger.rows.clouds import config
from coterie.ledger.store import Tx
from coterie.ledger.views import known
from coterie.ledger.views.page import Page
from coterie.manifest import load_cloud_config


def require_names(
    tx: Tx,
    found: Page,
    *,
    deployment: str | None = None,
    cloud: str | None = None,
    instance_group: str | None = None,
    az: str | None = None,
) -> Page:
    """The page; refused when it is empty because a name that it is filtered by never existed."""
    if found.items:
        return found
    if deployment is not None and not known.deployment(tx, deployment):
        raise NotFound(f"no deployment {deployment!r}", remedy="list them with `coterie deployments`")
    if cloud is not None and not known.cloud(tx, cloud):
        raise NotFound(f"no cloud {cloud!r}", remedy="list them with `coterie clouds`")
    if instance_group is not None and not known.instance_group(tx, instance_group):
        raise NotFound(f"no instance group {instance_group!r}", remedy="see the GROUP part of names in `coterie nodes`")
    if az is not None and not (known.az(tx, az) or az in _configured_azs(tx)):
        raise NotFound(f"no az {az!r}", remedy="see `coterie clouds config`")
    return found


def _configured_azs(tx: Tx) -> list[str]:
    present = config(tx)
    if present is None:
        return []
    try:
        return [az.name for az in load_cloud_config(present.body, "cloud-config").value.azs]
    except InvalidDocument:
        return []  # written by an older release, and no longer valid
